import { Hono } from "@hono/hono";
import {
  checkBoolean,
  checkFunction,
  checkOptions,
  checkPath,
  checkText,
  partWith,
} from "../core/check_options.ts";
import type { MountParts, OpenedMount } from "../app/mounts.ts";
import { consoleSink, type LogSink } from "../core/mod.ts";
import type { EventStore } from "../events/mod.ts";
import { proxyHops } from "../middleware/client_ip.ts";
import type { ExampleParts } from "./_send_page.ts";
import { flawsOf } from "./_tokens.ts";

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
   * Token that viewers log in with: at least 32 characters. They look, and may not act.
   *
   * @default {undefined} No viewers.
   */
  readonly viewerToken?: string | undefined;
  /**
   * Token that operators log in with: at least 32 characters, and not the viewers'.
   *
   * @default {undefined} No operators.
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
   * Set to true to show no payloads: they may hold what not every reader of the console may see. It hides all else that
   * senders and handlers have written, too: descriptions, senders, headers of refused deliveries, reasons, names that
   * events wait for and their answers, results of steps, keys of limits, keys and values of states, and of an error all
   * but its name. No search finds them. Types, repositories, chats, ids and ordering keys stay, and so do the names of
   * handlers, steps, limits and schedules.
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

const DOING = "create the console";

/** Checks of the options that the mount of a console has as well. */
export const MOUNT_CHECKS = { path: checkPath, hidePayloads: checkBoolean };

const CHECKS = {
  name: checkText,
  store: partWith("oldestDueAt", "what openEventStore() resolves with"),
  ...{ viewerToken: undefined, operatorToken: undefined },
  ...{ environment: undefined, ...MOUNT_CHECKS },
  ...{ trustedProxyHops: proxyHops, log: checkFunction },
};

/**
 * Creates the console of an app that is composed by hand. Without a token there is none: its app has no
 * routes, and nothing of it is loaded. An app of {@linkcode defineApp} mounts {@linkcode consoleMount}.
 *
 * @param options The store, the tokens and what is shown.
 * @returns The console: its routes, of which there are none without a token, and its telemetry. Give that to the
 * intake and the worker: the charts show what it is told. Close it before the database is closed.
 * @throws {TypeError} If an option has the wrong type, or a token cannot be used.
 * @throws {RangeError} If `trustedProxyHops` is not a whole number from 0 to 100.
 *
 * @example
 * ```ts
 * import { createBaseApp, createIntake, github, openEventStore, startWorker } from "@org/edge-base";
 * import { createConsole } from "@org/edge-base/console";
 * import { assertEquals } from "@std/assert";
 *
 * using kv = await Deno.openKv(":memory:");
 * const store = await openEventStore(kv, { namespace: "my-bot" });
 * const operatorToken = "4b1c7f0e9d2a5836c0f1e2d3b4a59687"; // from a variable
 * await using board = await createConsole({ name: "my-bot", store, operatorToken });
 *
 * const { telemetry } = board;
 * const app = createBaseApp({ name: "my-bot", logger: false });
 * const secrets = ["It's a Secret to Everybody"];
 * app.route("/", createIntake(github({ secrets }), { store, telemetry }));
 * app.route("/", board.app);
 * const worker = startWorker(store, ({ type }) => console.log(type), { telemetry });
 *
 * assertEquals((await app.request("/console/login")).status, 200);
 * await worker.stop();
 * ```
 *
 * @category Console
 */
export async function createConsole(
  options: ConsoleOptions,
): Promise<OpenedMount & AsyncDisposable> {
  checkOptions(DOING, options, CHECKS, ["name", "store"]);
  const { viewerToken, operatorToken, environment } = options;
  const names = ["'viewerToken'", "'operatorToken'", "'environment'"] as const;
  const [flaw] = flawsOf([viewerToken, operatorToken, environment], names);
  if (flaw) throw new TypeError(`Cannot ${DOING}: ${flaw}`);
  const opened = viewerToken === undefined && operatorToken === undefined
    ? { app: new Hono(), close: () => {} }
    : await openConsole(options);
  return { ...opened, [Symbol.asyncDispose]: async () => await opened.close() };
}

/**
 * Opens a console that has a token, and whose options are checked. Only now its pages are loaded.
 *
 * @param options The options.
 * @param parts What operators may send examples with, whether the app runs on Deno Deploy, and its platforms.
 * @returns The console.
 */
export async function openConsole(
  options: ConsoleOptions,
  { examples, onDeploy = false, platforms }: {
    readonly examples?: ExampleParts | undefined;
    readonly onDeploy?: boolean | undefined;
    readonly platforms?: MountParts["platforms"] | undefined;
  } = {},
): Promise<OpenedMount> {
  const { name, store, viewerToken, operatorToken, environment } = options;
  const { path = "/console", trustedProxyHops = 0, log = consoleSink } = options;
  const [{ consoleApp }, { ConsoleData }, sending] = await Promise.all([
    import("./_console_app.ts"),
    import("./_console_data.ts"),
    examples && import("./_send_page.ts"),
  ]);
  const data = new ConsoleData(store, log);
  const app = consoleApp({
    ...{ name, path, environment, trustedProxyHops, data, log, viewerToken, operatorToken },
    front: trustedProxyHops > 0 ? "proxy" : onDeploy ? "deploy" : "nothing",
    hidesPayloads: options.hidePayloads ?? false,
    sending: examples && sending?.sendAnswers(examples),
    platforms: platforms && new Map(platforms.map(({ name, variables }) => [name, variables])),
  });
  const telemetry = data.isCounting ? data.telemetry : undefined;
  return { app, telemetry, close: () => data.stop() };
}
