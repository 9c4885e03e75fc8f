import type { Hono } from "@hono/hono";
import { checkFunction, checkObject, checkPath, met } from "../core/check_options.ts";
import type { Variables } from "../core/env.ts";
import type { LogSink } from "../core/mod.ts";
import type { EventStore } from "../events/mod.ts";
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
  /** Namespace of its events in the database. */
  readonly namespace: string;
  /** Platforms that send its deliveries. */
  readonly platforms: readonly Platform[];
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
   * Receiver of what the app, its intakes and its worker count, beside the telemetry of the app.
   *
   * @default {undefined} None.
   */
  readonly telemetry?: Telemetry | undefined;
  /** Closes it. It is called after the last handler, and before the database is closed. */
  close(): void | Promise<void>;
}

/**
 * Part of an app with its routes and variables, such as the console.
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
  prepare(variables: Variables):
    | {
      /**
       * Opens it.
       *
       * @param parts The parts of the app.
       * @returns The mount, open.
       */
      open(parts: MountParts): OpenedMount | Promise<OpenedMount>;
    }
    | undefined;
}

/**
 * Checks the mounts of a definition, each by itself. `openApp` finds what gets in each other's way.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param name The name of the option.
 * @param mounts The mounts.
 * @throws {TypeError} If one is something else.
 */
export function checkMounts(doing: string, name: string, mounts: unknown): void {
  if (!Array.isArray(mounts)) {
    throw new TypeError(`Cannot ${doing}: '${name}' must be an array, got ${met(mounts)}`);
  }
  mounts.forEach((mount, i) => {
    checkObject(doing, mount, `'mounts[${i}]'`);
    checkFunction(doing, `mounts[${i}].prepare`, mount.prepare);
    checkPath(doing, `mounts[${i}].path`, mount.path);
  });
}
