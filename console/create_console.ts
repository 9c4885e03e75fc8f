import { Hono } from "@hono/hono";
import {
  checkFunctions,
  checkKeys,
  checkObject,
  checkPart,
  checkPath,
  met,
} from "../core/check_options.ts";
import { consoleSink, type LogSink } from "../core/mod.ts";
import type { EventStore } from "../events/mod.ts";
import { proxyHops } from "../middleware/client_ip.ts";
import type { Telemetry } from "../telemetry/mod.ts";
import type { Platform } from "../webhook/mod.ts";
import { flawOfToken } from "./_tokens.ts";

/**
 * Options of {@linkcode createConsole}.
 *
 * @category Console
 */
export interface ConsoleOptions {
  /** Name of the app. The cookie of a session is named after it. */
  readonly name: string;
  /** Event store. */
  readonly store: EventStore;
  /**
   * Namespace of the store, as `openEventStore` was given it.
   *
   * @default {"events"}
   */
  readonly namespace?: string | undefined;
  /**
   * Token that viewers log in with: at least 32 characters. They look, and may not act.
   *
   * @default {undefined} There are no viewers.
   */
  readonly viewerToken?: string | undefined;
  /**
   * Token that operators log in with: at least 32 characters, and not the viewers'.
   *
   * @default {undefined} There are no operators.
   */
  readonly operatorToken?: string | undefined;
  /**
   * Path of the console.
   *
   * @default {"/console"}
   */
  readonly path?: string | undefined;
  /**
   * Environment that the app runs in, shown as a badge: `production`, `staging`.
   *
   * @default {undefined} No badge.
   */
  readonly environment?: string | undefined;
  /**
   * Set to true to show no payloads: they may hold what not every reader of the console may see.
   *
   * @default {false}
   */
  readonly hidePayloads?: boolean | undefined;
  /**
   * Number of reverse proxies in front of the app, see {@linkcode clientIp}. If there is one, its
   * `X-Forwarded-Proto` and `X-Forwarded-Host` are read as well.
   *
   * @default {0}
   */
  readonly trustedProxyHops?: number | undefined;
  /**
   * Log for logins, acts, and what cannot be reported to a reader.
   *
   * @default {consoleSink} One line of JSON per record, on the console.
   */
  readonly log?: LogSink | undefined;
}

/** Platforms that operators may send example deliveries of, in development. */
export interface ConsoleExamples {
  /** Platforms of the app. */
  readonly platforms: readonly Platform[];
  /** Reads a variable, for the secrets that deliveries are signed with. */
  readonly variable: (name: string) => string | undefined;
  /** Answers a request as the app does. */
  readonly fetch: (request: Request) => Promise<Response>;
}

/**
 * Console that is open.
 *
 * @category Console
 */
export interface Console extends AsyncDisposable {
  /** Routes. Without a token there are none. */
  readonly app: Hono;
  /**
   * Receiver of what the charts show. Give it to the intake and the worker as their `telemetry`. Undefined
   * without a token.
   */
  readonly telemetry: Telemetry | undefined;
  /**
   * Ends the acts that run, and writes what was counted last. Call it before the KV is closed.
   *
   * @returns A promise that resolves once that is done.
   */
  close(): Promise<void>;
}

const DOING = "create the console";

const KEYS = [
  ...["name", "store", "namespace", "viewerToken", "operatorToken", "path", "environment"],
  ...["hidePayloads", "trustedProxyHops", "log"],
];

/**
 * Creates the console of an app that is composed by hand. Without a token there is none: its app has no
 * routes, and nothing of it is loaded. An app of {@linkcode defineApp} mounts {@linkcode consoleMount}.
 *
 * @param options The store, the tokens and what is shown.
 * @returns The console.
 * @throws {TypeError} If an option has the wrong type, or a token cannot be used.
 * @throws {RangeError} If `trustedProxyHops` is not a whole number from 0 to 100.
 *
 * @example
 * ```ts
 * import { createBaseApp, openEventStore } from "@org/edge-base";
 * import { createConsole } from "@org/edge-base/console";
 * import { assertEquals } from "@std/assert";
 *
 * using kv = await Deno.openKv(":memory:");
 * const store = await openEventStore(kv);
 * const viewerToken = "4b1c7f0e9d2a5836c0f1e2d3b4a59687"; // from a variable
 * await using board = await createConsole({ name: "my-bot", store, viewerToken });
 *
 * const app = createBaseApp({ name: "my-bot", logger: false });
 * app.route("/", board.app);
 * assertEquals((await app.request("/console/login")).status, 200);
 * ```
 *
 * @category Console
 */
export async function createConsole(options: ConsoleOptions): Promise<Console> {
  checkObject(DOING, options);
  checkKeys(DOING, options, KEYS);
  checkConsoleOptions(DOING, options);
  checkPart(
    DOING,
    options.store,
    "oldestDueAt",
    "'store' must be what openEventStore() resolves with",
  );
  checkFunctions(DOING, { log: options.log });
  proxyHops(DOING, "trustedProxyHops", options.trustedProxyHops ?? 0);
  for (const name of ["viewerToken", "operatorToken"] as const) {
    const flaw = options[name] === undefined ? undefined : flawOfToken(options[name]);
    if (flaw) throw new TypeError(`Cannot ${DOING}: '${name}' ${flaw}`);
  }
  if (options.viewerToken !== undefined && options.viewerToken === options.operatorToken) {
    throw new TypeError(`Cannot ${DOING}: 'viewerToken' and 'operatorToken' must differ`);
  }
  return await openConsole(options);
}

/**
 * Checks the options that a console and its mount share.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param options The options.
 * @throws {TypeError} If one has the wrong type.
 */
export function checkConsoleOptions(
  doing: string,
  options: Partial<Pick<ConsoleOptions, "name" | "path" | "environment" | "hidePayloads">>,
): void {
  const { path = "/console", environment, hidePayloads = false } = options;
  checkPath(doing, "path", path);
  if ("name" in options && (typeof options.name !== "string" || options.name.trim() === "")) {
    throw new TypeError(
      `Cannot ${doing}: 'name' must be a text that is not blank, got ${met(options.name)}`,
    );
  }
  if (environment !== undefined && (typeof environment !== "string" || environment.length > 40)) {
    throw new TypeError(
      `Cannot ${doing}: 'environment' must be a text of at most 40 characters, got ${
        met(environment)
      }`,
    );
  }
  if (typeof hidePayloads !== "boolean") {
    throw new TypeError(
      `Cannot ${doing}: 'hidePayloads' must be true or false, got ${met(hidePayloads)}`,
    );
  }
}

/**
 * Opens a console whose options are checked. Only with a token its pages are loaded.
 *
 * @param options The options.
 * @param parts The platforms that operators may send examples of, and whether the app runs on Deno Deploy.
 * @returns The console.
 */
export async function openConsole(
  options: ConsoleOptions,
  { examples, onDeploy = false }: {
    readonly examples?: ConsoleExamples | undefined;
    readonly onDeploy?: boolean | undefined;
  } = {},
): Promise<Console> {
  const { name, store, namespace = "events", viewerToken, operatorToken } = options;
  const { path = "/console", trustedProxyHops = 0, log = consoleSink, environment } = options;
  if (viewerToken === undefined && operatorToken === undefined) {
    const close = () => Promise.resolve();
    return { app: new Hono(), telemetry: undefined, close, [Symbol.asyncDispose]: close };
  }
  const [{ consoleApp }, { openConsoleData }, sender] = await Promise.all([
    import("./_console_app.ts"),
    import("./_open_console_data.ts"),
    examples && import("./_examples.ts"),
  ]);
  const data = openConsoleData({ kv: store.kv, store, namespace, log });
  const app = consoleApp({
    ...{ name, path, environment, trustedProxyHops, data, log, viewerToken, operatorToken },
    front: trustedProxyHops > 0 ? "proxy" : onDeploy ? "deploy" : "nothing",
    hidesPayloads: options.hidePayloads ?? false,
    examples: examples &&
      sender?.exampleSender(examples.platforms, examples.variable, examples.fetch),
  });
  const close = () => data.stop();
  return { app, telemetry: data.telemetry, close, [Symbol.asyncDispose]: close };
}
