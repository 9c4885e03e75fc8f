import { type EnvSpec, onDeploy, VariableError } from "../core/env.ts";
import { consoleLog, createStdoutLog, type LogSink, reasonOf, writeLog } from "../core/mod.ts";
import { isTelemetryOn } from "../telemetry/open_telemetry.ts";
import type { App } from "./define_app.ts";
import { checkStartOptions, startApp, type StartAppOptions, type StartedApp } from "./start_app.ts";
import { readLogFormat } from "./variables.ts";

/** Reason why an app stops. */
interface StopReason {
  /** Signal that stopped the app; undefined after an uncaught error. */
  readonly signal?: Deno.Signal;
  /** Exit code of the process. */
  readonly exitCode: 0 | 1;
}

/** Signals and uncaught errors, which stop an app. */
interface StopSignal {
  /** Promise that resolves when the app has to stop. */
  readonly reason: Promise<StopReason>;
  /** Notes that the app has started. From then on it ends in order. */
  readonly markStarted: () => void;
}

/** Handlers do not end, so the app has stopped without a signal. */
const STUCK: StopReason = { exitCode: 1 };

/** Frame of a stack: the address, line and column of a module that Deno has loaded. */
const FRAME = /^ +at .*?((?:file|https?|data|blob):\S+?:\d+:\d+)\)?$/gm;

/** Folders of this package that an app is opened by. */
const OWN_FOLDER = /^(app|console|core|events|health|middleware|telemetry|webhook)\//;

/** Address of an npm package: the line that calls it says more. */
const LIBRARY = /\/(npm|node_modules)\//;

/** Longest wait at the end for the reader of the log. */
const DRAIN_LOG_MS = 250;

/** Longest wait for a process with telemetry to end by itself. */
const END_MS = 1_000;

/**
 * Runs an app until it is told to stop: {@linkcode startApp}, with signals, uncaught errors and exit codes.
 *
 * The variables are `PORT` (8000), `HOST` (0.0.0.0), `TRUSTED_PROXY_HOPS` (0), `LOG_FORMAT` (`json` or `text`; by
 * default `text` on a terminal), and the variables of the app, its store and its platforms.
 *
 * An error that keeps the app from starting is written as one line to the standard error, and the process
 * ends with exit code 1. SIGINT, SIGTERM and, except on Windows, SIGHUP end
 * it with 0, once running requests and handlers are done or the grace has passed; a second signal ends it at
 * once, with 1. An uncaught error, such as in a promise that a handler does not await, is logged and ends the process
 * in the same order, with 1. So does it end
 * once as many handlers run past their time limit as may run at once.
 *
 * @typeParam TEvents The payloads of its platform's events, by type.
 * @typeParam TSpec The descriptions of its variables.
 * @typeParam TResources The resources that it opens.
 * @typeParam TTx The commit or transaction of its store, for effects.
 * @typeParam TReader The reader of its store, `db`.
 * @param app The app, as {@linkcode defineApp} returns it.
 * @param options Variables, store, resources and log that replace the app's, and the grace.
 * By default the log is {@linkcode createStdoutLog}; with telemetry, and on Deno Deploy, `consoleSink`.
 * @returns A promise that resolves, if at all, once the app is closed and the process is about to end.
 * @throws {TypeError} If an option has the wrong type. Nothing is opened then.
 * @throws {RangeError} If the grace is out of range. Nothing is opened then, either.
 *
 * @example
 * ```ts ignore
 * import { defineApp, github, runApp, sqlite, writeLog } from "@org/edge-base";
 *
 * const bot = defineApp({ name: "my-bot", platform: github(), store: sqlite() });
 * bot.on("issues.opened", ({ payload: { issue } }, { log }) => {
 *   writeLog(log, "info", "opened", { title: issue.title });
 * });
 *
 * if (import.meta.main) await runApp(bot);
 * ```
 *
 * @category Apps
 */
export async function runApp<
  TEvents extends object,
  TSpec extends EnvSpec,
  TResources,
  TTx,
  TReader,
>(
  app: App<TEvents, TSpec, TResources, TTx, TReader>,
  options: StartAppOptions<NoInfer<TResources>, NoInfer<TTx>, NoInfer<TReader>> = {},
): Promise<void> {
  checkStartOptions("run the app", app, options);
  const { name } = app.definition;
  let stdout: ReturnType<typeof createStdoutLog> | undefined;
  let log: LogSink;
  let stopSignal: StopSignal;
  let started: StartedApp;
  try {
    const format = readLogFormat(options.env);
    stdout = options.log || listensToConsole() ? undefined : createStdoutLog({ format });
    if (stdout) addEventListener("unload", stdout.end);
    log = options.log ?? stdout?.log ?? consoleLog(format === "text" ? "text" : "json");
    stopSignal = listenForStop(name, log);
    started = await startApp(app, { ...options, log });
    stopSignal.markStarted();
  } catch (error) {
    // The message about variables names all that are missing or wrong, however many.
    const reason = error instanceof VariableError
      ? error.message.replaceAll(/\s+/g, " ")
      : `${reasonOf(error)}${placeOf(error)}`;
    console.error(`Cannot start ${name}: ${reason}`);
    return end(1);
  }
  const stuck = started.finished.then(() => STUCK, () => STUCK);
  const reason = await Promise.race([stopSignal.reason, stuck]);
  if (reason !== STUCK) writeLog(log, "info", "stopping", { name, signal: reason.signal });
  await started.stop();
  await stdout?.drain(DRAIN_LOG_MS);
  // It may have begun to stop for stuck handlers before the signal.
  end(await started.finished.then(() => reason.exitCode, () => STUCK.exitCode));
}

/**
 * Finds the line of the app's code that has thrown an error, such as in `resources`: its message is seldom enough.
 * Errors of this package say what is wrong.
 *
 * @param error The error.
 * @returns The place for the message; empty if the error is the package's, or has no place.
 */
function placeOf(error: unknown): string {
  const stack = error instanceof Error ? String(error.stack) : "";
  // Undefined in a bundle, where the frames of the package count as the app's.
  const own = URL.parse("..", import.meta.url)?.href;
  let library = "";
  for (const [, url = ""] of stack.matchAll(FRAME)) {
    if (own && url.startsWith(own) && OWN_FOLDER.test(url.slice(own.length))) break;
    if (!LIBRARY.test(url)) return ` (at ${url})`;
    library ||= ` (at ${url})`;
  }
  return library;
}

/**
 * Ends the process. With Deno's telemetry, a process that calls `Deno.exit()` while metrics are collected
 * hangs for ever (denoland/deno#33157): it ends without that instead, unless something of the user's goes on.
 */
function end(exitCode: number): void {
  if (!isTelemetryOn()) Deno.exit(exitCode);
  Deno.exitCode = exitCode;
  Deno.unrefTimer(setTimeout(() => Deno.exit(exitCode), END_MS));
}

/** Tells whether something listens to the console, beside the standard output. */
function listensToConsole(): boolean {
  try {
    return isTelemetryOn() || onDeploy(Deno.env);
  } catch {
    return true; // Without the permission to know, the console is a safe choice.
  }
}

/**
 * Listens for signals and uncaught errors, which stop an app. A signal ends the process at once while the
 * app is starting, and so does a second one.
 *
 * An uncaught error, in a timer or in a promise that a handler did not await, would end the process
 * abruptly. It is logged instead, and the app ends in order. The app cannot go on, since the
 * state that the error left is not known.
 *
 * @param name The app's name, for the log.
 * @param log The log for uncaught errors.
 * @returns The signal to stop.
 */
function listenForStop(name: string, log: LogSink): StopSignal {
  const { promise, resolve } = Promise.withResolvers<StopReason>();
  let [started, signalled] = [false, false];
  const endAtOnce = (signal: Deno.Signal) => {
    writeLog(log, "warn", "second signal, ending at once", { name, signal });
    Deno.exit(1);
  };
  const signals: Deno.Signal[] = Deno.build.os === "windows"
    ? ["SIGINT"]
    : ["SIGINT", "SIGTERM", "SIGHUP"];
  for (const signal of signals) {
    Deno.addSignalListener(signal, () => {
      if (signalled) endAtOnce(signal);
      if (!started) Deno.exit(0);
      signalled = true;
      resolve({ signal, exitCode: 0 });
    });
  }
  const fail = (event: Event, error: unknown) => {
    event.preventDefault();
    writeLog(log, "error", "uncaught error, stopping", { name, error });
    if (!started) Deno.exit(1);
    resolve({ exitCode: 1 });
  };
  addEventListener("error", (event) => fail(event, event.error));
  addEventListener("unhandledrejection", (event) => fail(event, event.reason));
  const markStarted = () => {
    started = true;
  };
  return { reason: promise, markStarted };
}
