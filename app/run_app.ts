import { checkOptions, checkReturned, type RunAppOptions } from "./app_options.ts";
import { openAppStore, warnOfLeftEvents } from "./app_store.ts";
import {
  type AppVariables,
  onDeploy,
  readInteger,
  readLogFormat,
  readNotifier,
  refuseProxyHeaders,
} from "./app_variables.ts";
import { InFlight, listenForStop, type Running, stop } from "./end_app.ts";
import {
  consoleSink,
  consoleTextSink,
  createLogSummary,
  createStdoutLog,
  type LogSink,
  reasonOf,
  type StdoutLog,
  writeLog,
} from "../core/mod.ts";
import { serveApp } from "./serve_app.ts";
import { MAX_PROXY_HOPS } from "../middleware/client_ip.ts";
import { isTelemetryOn, openTelemetry, type Telemetry } from "../telemetry/mod.ts";
import { type EventWorker, type NotifierKind, startWorker } from "../events/mod.ts";
import type { JsonObject } from "../webhook/mod.ts";

/** Longest wait at the end for the reader of the log. */
const DRAIN_LOG_MS = 250;

/** Period of the summaries of floods in the log. */
const SUMMARY_MS = 10_000;

interface Settings {
  readonly port: number;
  readonly hostname: string;
  readonly kvUrl: string | undefined;
  readonly notifier: NotifierKind | "auto";
  readonly trustedProxyHops: number;
}

/**
 * Runs an app until it is told to stop: reads its variables, opens the KV, starts the worker, and serves.
 *
 * The variables are `PORT` (8000), `HOST` (0.0.0.0), `KV_URL` (a path, `:memory:` or the URL of a remote
 * KV; by default Deno's own database), `NOTIFIER` (`auto`, `enqueue`, `watch`), `TRUSTED_PROXY_HOPS` (0),
 * `LOG_FORMAT` (`json` or `text`; by default `text` on a terminal), and those that `setup` reads.
 *
 * An error that keeps the app from starting is written as one line to the standard error, and the process
 * ends with exit code 1. SIGINT and SIGTERM end it with 0, once running requests and handlers are done or
 * the grace has passed; a second signal ends it at once. An uncaught error, such as that of a promise that
 * a handler does not await, is logged and ends the process in the same order, with 1. So does it end once as
 * many handlers run past their time limit as may run at once.
 *
 * @typeParam TPayload The type of the payload that the handler takes.
 * @param options The name, the handler, the function that creates the app, and the worker's options.
 * @throws {TypeError} If an option has the wrong type. Nothing is opened then.
 * @throws {RangeError} If a number is out of its range. Nothing is opened then, either.
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
  const { name, graceMs } = options;
  let stdout: StdoutLog | undefined;
  let log: LogSink;
  let running: Running;
  try {
    const format = readLogFormat(Deno.env, "LOG_FORMAT");
    stdout = options.log || listensToConsole() ? undefined : createStdoutLog({ format });
    if (stdout) addEventListener("unload", stdout.end);
    log = options.log ?? stdout?.log ?? (format === "text" ? consoleTextSink : consoleSink);
    running = await start({ ...options, log });
  } catch (error) {
    console.error(`Cannot start ${name}: ${reasonOf(error)}`);
    Deno.exit(1);
  }
  const { signal, exitCode } = await running.stopSignal.reason;
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

/** Tells whether something listens to the console, beside the standard output. */
function listensToConsole(): boolean {
  try {
    return isTelemetryOn() || onDeploy(Deno.env);
  } catch {
    return true; // Without the permission to know, the console is a safe choice.
  }
}

async function start<TPayload>(
  options: RunAppOptions<TPayload> & { readonly log: LogSink },
): Promise<Running> {
  const { name, namespace = name, handler, setup, retentionMs, log } = options;
  const variables: AppVariables = {
    get: (variable) => Deno.env.get(variable),
    warn: (message) => writeLog(log, "warn", message, { name }),
  };
  const stopSignal = listenForStop(name, log);
  const settings = readSettings(variables);
  const createHandler = setup(variables);
  checkReturned("setup()", createHandler, "a function that makes the app");
  const started = Promise.withResolvers<EventWorker>();
  if (onDeploy(variables)) registerPoll(name, started.promise);
  const { kvUrl, notifier, trustedProxyHops } = settings;
  const opening = openAppTelemetry(options);
  const { kv, store } = await openAppStore({
    ...{ kvUrl, onDeploy: onDeploy(variables), namespace, notifier, retentionMs, log },
  });
  const telemetry = await opening;
  const summary = summingUp(log);
  const answer = createHandler({
    ...{ store, kv: store.kv, trustedProxyHops, ready: stopSignal.throwIfStopping },
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
  const worker = startWorker(store, handler, {
    ...{ ...options, telemetry },
    onStuck: stopSignal.stopStuck,
  });
  started.resolve(worker);
  stopSignal.markStarted();
  warnOfLeftEvents(kv, { name, namespace, log, stopping: stopSignal.reason });
  return { server, worker, kv, stopSignal, inFlight };
}

/** Opens the telemetry. If that fails, the app runs without. */
async function openAppTelemetry(
  { name, telemetry, log }: Pick<RunAppOptions, "name" | "telemetry"> & { readonly log: LogSink },
): Promise<Telemetry | undefined> {
  try {
    return telemetry ?? await openTelemetry();
  } catch (error) {
    writeLog(log, "error", "telemetry not available", { name, error });
    return undefined;
  }
}

/** Creates a log that sums up floods, every 10 s and when the process exits. */
function summingUp(log: LogSink): LogSink {
  const summary = createLogSummary({ log });
  Deno.unrefTimer(setInterval(summary.flush, SUMMARY_MS));
  addEventListener("unload", summary.flush);
  return summary.log;
}

/**
 * Makes the platform start an instance each minute for the events that are due, such as retries: it stops
 * an instance without requests, and with it the worker's timer. The platform accepts only what is
 * registered while the entrypoint is evaluated, so nothing may be awaited before this.
 */
function registerPoll(name: string, worker: Promise<EventWorker>): void {
  if (typeof Deno.cron !== "function") return;
  Deno.cron(`${name} events`, "* * * * *", async () => await (await worker).poll());
}
