import {
  type EnvOf,
  type EnvSpec,
  readAll,
  readEnv,
  VariableError,
  type Variables,
  variablesIn,
} from "../core/env.ts";
import { consoleSink, type LogSink, writeLog } from "../core/mod.ts";
import type { NotifierKind } from "../events/mod.ts";
import { MAX_PROXY_HOPS } from "../middleware/client_ip.ts";
import type { Platform, ReadyPlatform } from "../webhook/mod.ts";
import {
  onDeploy,
  readInteger,
  readKvUrl,
  readNotifier,
  refuseProxyHeaders,
} from "./app_variables.ts";
import type { App } from "./define_app.ts";
import { checkMountCollisions, prepareMounts, type ReadyMount } from "./mounts.ts";

/**
 * Values that an app has read before anything is opened.
 *
 * @typeParam TEnv The values of its variables.
 */
export interface AppPlan<TEnv> {
  /** Values of the app's own variables. */
  readonly env: TEnv;
  /** Platforms, with their variables read. */
  readonly platforms: readonly ReadyPlatform[];
  /** Path or URL of the KV; undefined for Deno's default database. */
  readonly kvUrl: string | undefined;
  /** Notifier that wakes workers. */
  readonly notifier: NotifierKind | "auto";
  /** Number of trusted reverse proxies. */
  readonly trustedProxyHops: number;
  /** True if the app runs on Deno Deploy. */
  readonly onDeploy: boolean;
  /** Mounts that are wanted, with their variables read. */
  readonly mounts: readonly ReadyMount[];
}

/** The action that a wrong definition keeps from being done, in messages. */
const DOING = "open the app";

/** Variables of an app, and those among them that the process may not read. */
export interface AppVariables extends Variables {
  /** Names of the variables that were asked for without a permission. They read as if they were not set. */
  readonly denied: ReadonlySet<string>;
}

/**
 * Makes the source of an app's variables. Warnings go to its log.
 *
 * @param name The app's name.
 * @param options The variables, by default those of the process, and the log.
 * @returns The variables.
 */
export function variablesOf(
  name: string,
  { env, log = consoleSink }: {
    readonly env?: Readonly<Record<string, string | undefined>> | undefined;
    readonly log?: LogSink | undefined;
  },
): AppVariables {
  const denied = new Set<string>();
  // What may not be read seems to be missing, and is reported.
  const warn = (message: string) => {
    if (denied.size === 0) writeLog(log, "warn", message, { name });
  };
  const get = (variable: string) => {
    try {
      return Deno.env.get(variable);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotCapable)) throw error;
      denied.add(variable);
      return undefined;
    }
  };
  return { ...(env ? variablesIn(env, warn) : { get, warn }), denied };
}

/**
 * Calls a function that reads variables, and reports all at once that the process may not read.
 *
 * @param variables The variables.
 * @param read The function.
 * @returns Its result.
 * @throws {VariableError} If the process may not read one of them: the message has all names, and the flag that
 * allows them. Otherwise what the function throws.
 */
export function readAllowed<T>({ denied }: AppVariables, read: () => T): T {
  const refuseDenied = () => {
    const names = [...denied].join();
    if (names === "") return;
    throw new VariableError(
      `these variables may not be read: allow them, with --allow-env=${names} beside those that are allowed`,
    );
  };
  try {
    return read();
  } finally {
    // In the place of an error: what may not be read seems to be missing.
    refuseDenied();
  }
}

/**
 * Reads all variables of an app.
 *
 * @param app The app.
 * @param variables The variables.
 * @returns The values.
 * @throws {VariableError} If any is missing or wrong: the message has all of them.
 */
export function planOf<TEvents extends object, TSpec extends EnvSpec, TResources>(
  app: App<TEvents, TSpec, TResources>,
  variables: Variables,
): AppPlan<EnvOf<TSpec>> {
  const { env: spec = {} as TSpec, mounts: wanted = [] } = app.definition;
  checkCollisions(app.platforms, spec);
  checkMountCollisions(DOING, wanted, app.platforms, spec);
  const [platforms, env, notifier, trustedProxyHops, kvUrl, isOnDeploy, mounts] = readAll(
    () => readAll(...app.platforms.map((platform) => () => platform.prepare(variables))),
    () => readEnv(spec, variables),
    () => readNotifier(variables, "NOTIFIER"),
    () => readInteger(variables, "TRUSTED_PROXY_HOPS", { fallback: 0, max: MAX_PROXY_HOPS }),
    () => readKvUrl(variables),
    () => onDeploy(variables),
    () => prepareMounts(wanted, variables),
    () => refuseProxyHeaders(variables),
  );
  return { env, platforms, kvUrl, notifier, trustedProxyHops, onDeploy: isOnDeploy, mounts };
}

/** Variables that each app reads. */
const COMMON = ["PORT", "HOST", "KV_URL", "NOTIFIER", "TRUSTED_PROXY_HOPS", "LOG_FORMAT"];

/** Refuses an app's variable that is read already: its default would be the app's own, and decide nothing. */
function checkCollisions(platforms: readonly Platform[], spec: EnvSpec): void {
  const common = COMMON.find((variable) => Object.hasOwn(spec, variable));
  if (common !== undefined) {
    throw new TypeError(
      `Cannot ${DOING}: the variable '${common}' in 'env' is one that each app reads. Give yours another name`,
    );
  }
  for (const { name, variables } of platforms) {
    const both = variables.find((variable) => Object.hasOwn(spec, variable));
    if (both === undefined) continue;
    throw new TypeError(
      `Cannot ${DOING}: the variable '${both}' in 'env' is one of the platform '${name}', which reads it`,
    );
  }
}
