import type { Hono } from "@hono/hono";
import { checkFunction, checkObject, met } from "../core/check_options.ts";
import { readAll, type Variables } from "../core/env.ts";
import type { LogSink } from "../core/mod.ts";
import type { EventStore } from "../events/mod.ts";
import { combineTelemetries } from "../telemetry/combine_telemetries.ts";
import type { Telemetry } from "../telemetry/mod.ts";
import type { Platform } from "../webhook/mod.ts";

/**
 * Parts of an app that a mount works with.
 *
 * @category Mounts
 */
export interface MountParts {
  /** Name of the app. */
  readonly name: string;
  /** Namespace of its events in the KV. */
  readonly namespace: string;
  /** Platforms that send its deliveries. */
  readonly platforms: readonly Platform[];
  /** KV of the event store. */
  readonly kv: Deno.Kv;
  /** Event store. */
  readonly store: EventStore;
  /** Log of the app. */
  readonly log: LogSink;
  /** Number of trusted reverse proxies. */
  readonly trustedProxyHops: number;
  /** True if the app runs on Deno Deploy. */
  readonly onDeploy: boolean;
  /**
   * Answers a request as the app does, without a network.
   *
   * @param request The request.
   * @returns The response.
   */
  fetch(request: Request): Promise<Response>;
}

/**
 * Mount that is open: routes, and what is to be closed at the end.
 *
 * @category Mounts
 */
export interface OpenedMount {
  /** Routes, all below the mount's path. */
  readonly app: Hono;
  /**
   * Receiver of what the app, its intakes and its worker count, beside the app's own telemetry.
   *
   * @default {undefined} None.
   */
  readonly telemetry?: Telemetry | undefined;
  /** Closes it. It is called after the last handler, and before the KV is closed. */
  close(): void | Promise<void>;
}

/**
 * Mount whose variables have been read, and which is wanted.
 *
 * @category Mounts
 */
export interface ReadyMount {
  /**
   * Opens it.
   *
   * @param parts The parts of the app.
   * @returns The mount, open.
   */
  open(parts: MountParts): OpenedMount | Promise<OpenedMount>;
}

/**
 * Part of an app with routes and variables of its own, such as the console.
 *
 * @category Mounts
 */
export interface Mount {
  /** Name, for messages. */
  readonly name: string;
  /** Path of its routes. */
  readonly path: string;
  /** Names of the variables that it reads. */
  readonly variables: readonly string[];
  /**
   * Reads its variables.
   *
   * @param variables The variables.
   * @returns The mount, ready to be opened; undefined if it is not wanted, and has no routes.
   * @throws {VariableError} If variables are wrong: the message has all of them.
   */
  prepare(variables: Variables): ReadyMount | undefined;
}

/** Paths that no encoding changes, and that Hono does not take for a pattern. */
const PATH = /^(?:\/[\w-]+(?:\.[\w-]+)*){1,16}$/;

/**
 * Checks the path of a mount.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param path The path.
 * @param option Its name in the message.
 * @throws {TypeError} If it is not a plain path.
 */
export function checkMountPath(doing: string, path: unknown, option = "path"): void {
  if (typeof path === "string" && PATH.test(path)) return;
  throw new TypeError(
    `Cannot ${doing}: '${option}' must be a path like "/console", got ${met(path)}`,
  );
}

/**
 * Checks the mounts of a definition.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param mounts The mounts.
 * @throws {TypeError} If one is none, or two share a path or a variable.
 */
export function checkMounts(doing: string, mounts: readonly Mount[]): void {
  if (!Array.isArray(mounts)) {
    throw new TypeError(`Cannot ${doing}: 'mounts' must be an array, got ${met(mounts)}`);
  }
  mounts.forEach((mount, i) => {
    checkObject(doing, mount, `'mounts[${i}]'`);
    checkFunction(doing, `mounts[${i}].prepare`, mount.prepare);
    checkMountPath(doing, mount.path, `mounts[${i}].path`);
    const before = mounts.slice(0, i);
    if (before.some(({ path }) => overlap(path, mount.path))) {
      throw new TypeError(`Cannot ${doing}: two mounts have the path ${met(mount.path)}`);
    }
    const shared = mount.variables.find((variable: string) =>
      before.some(({ variables }) => variables.includes(variable))
    );
    if (shared === undefined) return;
    throw new TypeError(`Cannot ${doing}: two mounts read the variable ${shared}`);
  });
}

/**
 * Checks that mounts get in the way of no platform and no variable of the app's own.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param mounts The mounts.
 * @param platforms The platforms of the app.
 * @param spec The descriptions of the app's own variables.
 * @throws {TypeError} If one does.
 */
export function checkMountCollisions(
  doing: string,
  mounts: readonly Mount[],
  platforms: readonly Platform[],
  spec: object,
): void {
  for (const { name, path, variables } of mounts) {
    const platform = platforms.find((each) => overlap(path, each.path));
    if (platform) {
      throw new TypeError(
        `Cannot ${doing}: the platform '${platform.name}' has a path of the ${name}, ` +
          `${met(platform.path)}. Give one of them its own: { path: "..." }`,
      );
    }
    const both = variables.find((variable) =>
      Object.hasOwn(spec, variable) || platforms.some((each) => each.variables.includes(variable))
    );
    if (both === undefined) continue;
    throw new TypeError(
      `Cannot ${doing}: the variable '${both}' is one of the ${name}, which reads it`,
    );
  }
}

/** Tells whether one path is below the other, or the same. */
function overlap(a: string, b: string): boolean {
  return `${a}/`.startsWith(`${b}/`) || `${b}/`.startsWith(`${a}/`);
}

/**
 * Reads the variables of mounts.
 *
 * @param mounts The mounts.
 * @param variables The variables.
 * @returns The mounts that are wanted.
 * @throws {VariableError} If variables are wrong: the message has all of them.
 */
export function prepareMounts(mounts: readonly Mount[], variables: Variables): ReadyMount[] {
  const ready = readAll(...mounts.map((mount) => () => mount.prepare(variables)));
  return ready.filter((each) => each !== undefined);
}

/** Mounts of an app that is open. */
export interface OpenedMounts {
  /** Their routes. */
  readonly apps: readonly Hono[];
  /** Telemetry of the app and of all mounts; undefined if there is none. */
  readonly telemetry: Telemetry | undefined;
}

/**
 * Opens the mounts of an app.
 *
 * @param mounts The mounts.
 * @param parts The parts of the app.
 * @param telemetry The app's own telemetry.
 * @param onOpened Called with each mount, to have it closed at the end.
 * @returns The routes, and the telemetry of all.
 */
export async function openMounts(
  mounts: readonly ReadyMount[],
  parts: MountParts,
  telemetry: Telemetry | undefined,
  onOpened: (mount: OpenedMount) => void,
): Promise<OpenedMounts> {
  const apps: Hono[] = [];
  let all = telemetry;
  for (const mount of mounts) {
    const opened = await mount.open(parts);
    onOpened(opened);
    apps.push(opened.app);
    if (opened.telemetry) all = all ? combineTelemetries(all, opened.telemetry) : opened.telemetry;
  }
  return { apps, telemetry: all };
}
