import { type LogSink, writeLog } from "../core/mod.ts";
import { withDeadline } from "../core/timeouts.ts";
import type { EventWorker } from "../events/mod.ts";
import type { Serving } from "./serve_app.ts";

/** Running app, with the parts that have to be stopped. */
export interface Running {
  readonly server: Serving;
  readonly worker: EventWorker;
  readonly kv: Deno.Kv;
  readonly stopSignal: StopSignal;
  readonly inFlight: InFlight;
}

/** Reason why an app stops. */
export interface StopReason {
  /** Signal that stopped the app; undefined after an uncaught error, or if handlers do not end. */
  readonly signal?: Deno.Signal;
  /** Exit code of the process. */
  readonly exitCode: 0 | 1;
}

/** Signal for an app to stop. */
export interface StopSignal {
  /** Promise that resolves when the app has to stop. */
  readonly reason: Promise<StopReason>;
  /** Notes that the app has started. From then on it ends in order. */
  readonly markStarted: () => void;
  /** Stops the app with exit code 1, because so many handlers do not end that no more can be started. */
  readonly stopStuck: () => void;
  /** Throws if the app is stopping. */
  readonly throwIfStopping: () => void;
}

/** Share of the grace that is kept for requests that are still being answered. */
const SHUTDOWN_SHARE = 1 / 8;

/** Shortest time for which the readiness probe can see that the app stops. */
const DRAIN_MS = 500;

/**
 * Listens for signals and uncaught errors, which stop an app. A signal ends the process at once while the
 * app is starting, and so does a second one.
 *
 * An uncaught error, in a timer or in a promise that a handler did not await, would end the process
 * abruptly. It is logged instead, and the app ends in order. The app cannot go on, since nobody knows what
 * state the error left.
 *
 * @param name The app's name, for the log.
 * @param log The log for uncaught errors.
 * @returns The signal to stop.
 */
export function listenForStop(name: string, log: LogSink): StopSignal {
  const { promise, resolve } = Promise.withResolvers<StopReason>();
  let [started, stopping, signalled] = [false, false, false];
  const requestStop = (reason: StopReason) => {
    stopping = true;
    resolve(reason);
  };
  const signals: Deno.Signal[] = Deno.build.os === "windows" ? ["SIGINT"] : ["SIGINT", "SIGTERM"];
  for (const signal of signals) {
    Deno.addSignalListener(signal, () => {
      if (signalled) Deno.exit(1);
      if (!started) Deno.exit(0);
      signalled = true;
      requestStop({ signal, exitCode: 0 });
    });
  }
  const fail = (event: Event, error: unknown) => {
    event.preventDefault();
    writeLog(log, "error", "uncaught error, stopping", { name, error });
    requestStop({ exitCode: 1 });
  };
  addEventListener("error", (event) => fail(event, event.error));
  addEventListener("unhandledrejection", (event) => fail(event, event.reason));
  const stopStuck = () => {
    writeLog(log, "error", "handlers do not end, stopping", { name });
    requestStop({ exitCode: 1 });
  };
  const markStarted = () => {
    started = true;
  };
  const throwIfStopping = () => {
    if (stopping) throw new Error("The app is stopping");
  };
  return { reason: promise, throwIfStopping, markStarted, stopStuck };
}

/**
 * Stops an app in order. Handlers and requests in flight end first; meanwhile new requests are still
 * answered, and the readiness probe gets 503. The grace is in milliseconds: Deno Deploy kills an instance
 * 5 s after its signal.
 */
export async function stop(
  { server, worker, kv, inFlight }: Running,
  graceMs = 4_000,
): Promise<void> {
  const start = performance.now();
  const stopped = worker.stop({ graceMs });
  const quiet = Promise.all([stopped, pause(DRAIN_MS).then(() => inFlight.none())]);
  await withDeadline(quiet, graceMs * (1 - SHUTDOWN_SHARE)).catch(() => {});
  // A peer that never finishes its body keeps `shutdown()` from ever resolving.
  const remainingMs = graceMs - (performance.now() - start);
  await withDeadline(server.shutdown(), remainingMs).catch(() => {});
  await stopped;
  kv.close();
}

/** Count of the requests in flight: `shutdown()` would abort bodies that are still arriving. */
export class InFlight {
  #count = 0;

  /** Counts a request until its response is ready. */
  async during(answer: () => Response | Promise<Response>): Promise<Response> {
    this.#count++;
    try {
      return await answer();
    } finally {
      this.#count--;
    }
  }

  /** Waits until no request is being answered. */
  async none(): Promise<void> {
    while (this.#count > 0) await pause(10);
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
