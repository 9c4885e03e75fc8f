import { checkOptions, checkReturned, type RunAppOptions } from "./app_options.ts";
import { openAppStore } from "./app_store.ts";
import {
  type AppVariables,
  onDeploy,
  readInteger,
  readNotifier,
  refuseProxyHeaders,
} from "./app_variables.ts";
import { InFlight, type Running, stop, stopSignal } from "./end_app.ts";
import {
  consoleSink,
  createLogSummary,
  createStdoutLog,
  type LogSink,
  reasonOf,
  writeLog,
} from "../core/mod.ts";
import { serveApp } from "./serve_app.ts";
import { MAX_PROXY_HOPS } from "../middleware/client_ip.ts";
import { isTelemetryOn, openTelemetry, type Telemetry } from "../telemetry/mod.ts";
import { type EventWorker, type NotifierKind, startWorker } from "../events/mod.ts";
import type { JsonObject } from "../webhook/mod.ts";

/** For how long the end waits for whoever reads the log. */
const DRAIN_LOG_MS = 250;

/** How often floods are summed up in the log. */
const SUMMARY_MS = 10_000;

interface Settings {
  readonly port: number;
  readonly hostname: string;
  readonly kvUrl: string | undefined;
  readonly notifier: NotifierKind | "auto";
  readonly trustedProxyHops: number;
}

/**
 * Runs an app until it is told to stop: reads its variables, opens the KV, starts the worker, serves.
 *
 * The variables are `PORT` (8000), `HOST` (0.0.0.0), `KV_URL` (unset: Deno's default database; else a
 * path, `:memory:` or the URL of a remote KV), `NOTIFIER` (`auto`, `enqueue`, `watch`),
 * `TRUSTED_PROXY_HOPS` (0), and those that `setup` reads.
 *
 * What keeps the app from starting is written as one line to the standard error, and ends the process
 * with exit code 1. SIGINT and SIGTERM end it with 0, once running requests and handlers are through
 * or the grace has passed; a second one ends it at once. An error that nothing catches, such as that of a
 * promise which a handler does not await, ends it in the same order, logged, and with 1.
 *
 * @typeParam TPayload What the handler takes the payload for.
 * @param options The name, the handler, how to make the app, and what the worker is to do otherwise
 * than by default.
 * @throws {TypeError} If an option is something else than it should be. Nothing is opened then.
 * @throws {RangeError} If a number among the options makes no sense. Nothing is opened then, either.
 *
 * @example
 * ```ts ignore
 * import { bindEnv, createBaseApp, createForgeIntake, readSecrets, runApp } from "@org/edge-base";
 *
 * await runApp({
 *   name: "my-bot",
 *   handler: (event) => console.log(event.type),
 *   setup: (variables) => {
 *     const secrets = readSecrets(variables, "FORGE_WEBHOOK_SECRET");
 *     return ({ store, ready, log }) => {
 *       const app = createBaseApp({ name: "my-bot", ready, logger: { log } });
 *       app.route("/", createForgeIntake({ secrets, store }));
 *       return bindEnv(app, {});
 *     };
 *   },
 * });
 * ```
 */
export async function runApp<TPayload = JsonObject>(
  options: RunAppOptions<TPayload>,
): Promise<void> {
  checkOptions(options);
  const stdout = options.log || listensToConsole() ? undefined : createStdoutLog();
  if (stdout) addEventListener("unload", stdout.end);
  const { name, graceMs, log = stdout?.log ?? consoleSink } = options;
  let running: Running;
  try {
    running = await start({ ...options, log });
  } catch (error) {
    console.error(`Cannot start ${name}: ${reasonOf(error)}`);
    Deno.exit(1);
  }
  const { signal, exitCode } = await running.told.reason;
  writeLog(log, "info", "stopping", { name, signal });
  await stop(running, graceMs);
  await stdout?.drain(DRAIN_LOG_MS);
  Deno.exit(exitCode);
}

function readSettings(variables: AppVariables): Settings {
  refuseProxyHeaders(variables);
  return {
    port: readInteger(variables, "PORT", { fallback: 8000, max: 65_535 }),
    hostname: variables.get("HOST")?.trim() || "0.0.0.0",
    kvUrl: variables.get("KV_URL")?.trim() || undefined,
    notifier: readNotifier(variables, "NOTIFIER"),
    trustedProxyHops: readInteger(variables, "TRUSTED_PROXY_HOPS", {
      fallback: 0,
      max: MAX_PROXY_HOPS,
    }),
  };
}

/** Whether what the console is given goes elsewhere than to the standard output. */
function listensToConsole(): boolean {
  try {
    return isTelemetryOn() || onDeploy(Deno.env);
  } catch {
    return true; // Without the permission to know, the console is right everywhere.
  }
}

async function start<TPayload>(
  options: RunAppOptions<TPayload> & { readonly log: LogSink },
): Promise<Running> {
  const { name, handler, setup, retentionMs, log } = options;
  const variables: AppVariables = {
    get: (variable) => Deno.env.get(variable),
    warn: (message) => writeLog(log, "warn", message, { name }),
  };
  const told = stopSignal(name, log);
  const settings = readSettings(variables);
  const createHandler = setup(variables);
  checkReturned("setup()", createHandler, "a function that makes the app");
  const started = Promise.withResolvers<EventWorker>();
  if (onDeploy(variables)) registerSweep(name, started.promise);
  const { kvUrl, notifier, trustedProxyHops } = settings;
  const opening = openAppTelemetry(options);
  const { kv, store } = await openAppStore({
    ...{ kvUrl, onDeploy: onDeploy(variables), namespace: name, notifier, retentionMs, log },
  });
  const telemetry = await opening;
  const summary = summingUp(log);
  const answer = createHandler({
    ...{ store, kv, trustedProxyHops, ready: told.throwIfTold },
    telemetry,
    log: summary,
  });
  checkReturned("The function that setup() returns", answer, "what bindEnv(app, env) returns");
  const inFlight = new InFlight();
  const { port, hostname } = settings;
  const server = serveApp({
    ...{ name, port, hostname, log: summary },
    answer: (request, info) => inFlight.during(() => answer(request, info)),
    onListen: (place) =>
      writeLog(log, "info", "listening", { name, ...place, notifier: store.notifier }),
  });
  const worker = startWorker(store, handler, { ...options, telemetry });
  started.resolve(worker);
  told.wait();
  return { server, worker, kv, told, inFlight };
}

/** An app that cannot tell what it does can still do it. */
async function openAppTelemetry(
  { name, telemetry, log }: Pick<RunAppOptions, "name" | "telemetry"> & { readonly log: LogSink },
): Promise<Telemetry | undefined> {
  try {
    return telemetry ?? await openTelemetry();
  } catch (error) {
    writeLog(log, "error", "no traces and metrics", { name, error });
    return undefined;
  }
}

/** Sums floods up, each 10 s also where nothing more is logged, and whenever the process exits. */
function summingUp(log: LogSink): LogSink {
  const summary = createLogSummary({ log });
  Deno.unrefTimer(setInterval(summary.flush, SUMMARY_MS));
  addEventListener("unload", summary.flush);
  return summary.log;
}

/**
 * Has the platform start an instance each minute for the events that are due, retries among them: an
 * instance without requests is stopped, and with it the worker's own timer. The platform takes only
 * what is registered while the entrypoint is evaluated, so nothing may be waited for before.
 */
function registerSweep(name: string, worker: Promise<EventWorker>): void {
  if (typeof Deno.cron !== "function") return;
  Deno.cron(`${name} events`, "* * * * *", async () => await (await worker).poll());
}
