import {
  choiceOf,
  type EnvOf,
  type EnvSpec,
  type EnvVariable,
  onDeploy,
  optional,
  readAll,
  readEnv,
  VariableError,
  type Variables,
  variablesIn,
} from "../core/env.ts";
import { consoleSink, type LogSink, writeLog } from "../core/mod.ts";
import {
  prepareStore,
  type ReadyStore,
  type StoreDefinition,
} from "../events/store/store_definition.ts";
import { MAX_PROXY_HOPS } from "../middleware/client_ip.ts";
import { type Platform, preparePlatform, type ReadyPlatform } from "../webhook/platform.ts";
import type { App } from "./define_app.ts";
import type { Mount } from "./mounts.ts";

// Variables of all apps, and of an app's definition, store, platforms and mounts. All are read before anything
// is opened, so that everything that is missing or wrong is reported at once.

/** Variables that each app reads when it is opened. */
const OPENING = { TRUSTED_PROXY_HOPS: wholeNumber(0, MAX_PROXY_HOPS) };

/** Variables that an app reads as well if it is served. By default it listens on port 8000 of all addresses. */
const SERVING = {
  PORT: wholeNumber(8000, 65_535),
  HOST: { read: (name, variables) => optional("0.0.0.0").read(name, variables).trim() },
  LOG_FORMAT: choiceOf(["auto", "json", "text"]),
} satisfies EnvSpec;

/** A mount that is wanted, with its variables read. */
export type PreparedMount =
  & Pick<Mount, "name" | "path">
  & NonNullable<ReturnType<Mount["prepare"]>>;

/**
 * Values that an app has read before anything is opened.
 *
 * @typeParam TEnv The values of its variables.
 * @typeParam TTx The commit or transaction of its store, for effects.
 * @typeParam TReader The reader of its store, `db`.
 */
export interface AppPlan<TEnv, TTx, TReader> {
  /** Values of the definition's variables. */
  readonly env: TEnv;
  /** Platforms, with their variables read. */
  readonly platforms: readonly ReadyPlatform[];
  /** Store, with its variables read. */
  readonly store: ReadyStore<TTx, TReader>;
  /** Number of trusted reverse proxies. */
  readonly trustedProxyHops: number;
  /** True if the app runs on Deno Deploy. */
  readonly onDeploy: boolean;
  /** Mounts that are wanted, with their variables read. */
  readonly mounts: readonly PreparedMount[];
}

/**
 * Calls a function that reads variables.
 *
 * @param name The app's name.
 * @param options The variables, by default the process's, and the log, which gets warnings.
 * @param read The function.
 * @returns Its result.
 * @throws {VariableError} If the process may not read a variable that was asked for: the message has all of
 * their names, and the flag that allows them. Otherwise what the function throws.
 */
export function readVariables<T>(
  name: string,
  { env, log = consoleSink }: {
    readonly env?: Readonly<Record<string, string | undefined>> | undefined;
    readonly log?: LogSink | undefined;
  },
  read: (variables: Variables) => T,
): T {
  const denied = new Set<string>();
  // A variable that may not be read seems to be missing: the error about that is replaced below.
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
  const refuseDenied = () => {
    if (denied.size === 0) return;
    const names = [...denied].join();
    throw new VariableError(
      `these variables may not be read: allow them, with --allow-env=${names} beside those that are allowed`,
    );
  };
  try {
    return read(env ? variablesIn(env, warn) : { get, warn });
  } finally {
    refuseDenied();
  }
}

/**
 * Reads all variables of an app that is opened.
 *
 * @param app The app.
 * @param variables The variables.
 * @param store The store that it is opened with: by default the app's.
 * @returns The values.
 * @throws {VariableError} If any is missing or wrong: the message has all of them.
 * @throws {TypeError} If two parts of the app read the same variable, or have the same path.
 */
export function planOf<TEvents extends object, TSpec extends EnvSpec, TResources, TTx, TReader>(
  app: App<TEvents, TSpec, TResources, TTx, TReader>,
  variables: Variables,
  store: StoreDefinition<TTx, TReader> = app.store,
): AppPlan<EnvOf<TSpec>, TTx, TReader> {
  const { name, namespace = name, env: spec = {} as TSpec, mounts = [] } = app.definition;
  checkCollisions(app);
  const [platforms, env, readyStore, common, isOnDeploy, ready] = readAll(
    () => readAll(...app.platforms.map((platform) => () => preparePlatform(platform, variables))),
    () => readEnv(spec, variables),
    () => prepareStore(store, variables, namespace),
    () => readEnv(OPENING, variables),
    () => onDeploy(variables),
    () => readAll(...mounts.map((mount) => () => preparedMount(mount, variables))),
    () => refuseProxyHeaders(variables),
  );
  const { TRUSTED_PROXY_HOPS: trustedProxyHops } = common;
  const wantedMounts = ready.filter((mount) => mount !== undefined);
  return {
    ...{ env, platforms, store: readyStore, trustedProxyHops },
    ...{ onDeploy: isOnDeploy, mounts: wantedMounts },
  };
}

function preparedMount(mount: Mount, variables: Variables): PreparedMount | undefined {
  const { name, path } = mount;
  const prepared = mount.prepare(variables);
  return prepared && { name, path, open: (parts) => prepared.open(parts) };
}

/**
 * Reads the address that an app is served at. The form of the log was read before, with {@linkcode readLogFormat},
 * and a mistake in it is reported here.
 *
 * @param variables The variables.
 * @returns The address.
 * @throws {VariableError} If one is wrong.
 */
export function readPlace(
  variables: Variables,
): { readonly port: number; readonly hostname: string } {
  const { PORT: port, HOST: hostname } = readEnv(SERVING, variables);
  return { port, hostname };
}

/**
 * Reads the form of the log, before all other variables: the log receives the warnings about them.
 *
 * @param env The variables; undefined for the process's.
 * @returns The form; `auto` as well if the variable is wrong or may not be read.
 */
export function readLogFormat(
  env: Readonly<Record<string, string | undefined>> | undefined,
): "auto" | "json" | "text" {
  try {
    const variables = { warn: () => {}, get: (name: string) => Deno.env.get(name) };
    return SERVING.LOG_FORMAT.read("LOG_FORMAT", env ? variablesIn(env, () => {}) : variables);
  } catch (error) {
    if (error instanceof VariableError || error instanceof Deno.errors.NotCapable) return "auto";
    throw error;
  }
}

function wholeNumber(fallback: number, max: number): EnvVariable<number> {
  return {
    read(name, variables) {
      const text = variables.get(name)?.trim();
      if (!text) return fallback;
      if (/^\d{1,10}$/.test(text) && Number(text) <= max) return Number(text);
      throw new VariableError(`${name} must be a whole number from 0 to ${max}`);
    },
  };
}

/**
 * Refuses the variable that makes Deno take the client's address from a header. On Deno Deploy the
 * platform sets that header. Elsewhere any client can choose its address with it, and a malformed header
 * ends the process (Deno 2.9.6).
 */
function refuseProxyHeaders(variables: Variables): void {
  const name = "DENO_TRUST_PROXY_HEADERS";
  if (!variables.get(name) || onDeploy(variables)) return;
  throw new VariableError(
    `${name} must not be set outside Deno Deploy: set TRUSTED_PROXY_HOPS for a reverse proxy`,
  );
}

/** Refuses a variable that two parts of an app read, and a path that two of them answer. */
function checkCollisions({ platforms, store, definition: { env = {}, mounts = [] } }: App): void {
  const readers = new Map<string, string>();
  const read = (part: string, variables: readonly string[]) => {
    for (const variable of variables) {
      const other = readers.get(variable);
      if (other !== undefined) {
        throw new TypeError(
          `Cannot open the app: ${other} and ${part} both read the variable '${variable}'. Give one of ` +
            "them another name",
        );
      }
      readers.set(variable, part);
    }
  };
  read("the app itself", [...Object.keys(OPENING), ...Object.keys(SERVING)]);
  read(`the store '${store.name}'`, store.variables);
  for (const { name, variables } of platforms) read(`the platform '${name}'`, variables);
  for (const { name, variables } of mounts) read(`the mount '${name}'`, variables);
  read("'env'", Object.keys(env));
  platforms.forEach(({ name, path }, i) => {
    const other = platforms.slice(0, i).find((each) => each.path === path);
    if (other) refusePath(`platform '${name}'`, path, other);
  });
  mounts.forEach(({ name, path }, i) => {
    const other = [...platforms, ...mounts.slice(0, i)].find((each) => overlap(path, each.path));
    if (other) refusePath(`mount '${name}'`, path, other);
  });
}

function refusePath(part: string, path: string, other: Pick<Platform, "name" | "path">): never {
  throw new TypeError(
    `Cannot open the app: the ${part} at "${path}" is in the way of '${other.name}' at "${other.path}". ` +
      'Give one of them its own: { path: "..." }',
  );
}

/** Tells whether one path is below the other, or the same. */
function overlap(a: string, b: string): boolean {
  return `${a}/`.startsWith(`${b}/`) || `${b}/`.startsWith(`${a}/`);
}
