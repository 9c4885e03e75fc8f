import { type LogSink, writeLog } from "../core/mod.ts";
import type { Serving } from "./serve_app.ts";
import { withDeadline } from "../core/deadline.ts";
import type { EventWorker } from "../events/mod.ts";
import { loadWantedNodeCrypto } from "../core/node_crypto.ts";

/** What runs, and has to be ended. */
export interface Running {
  readonly server: Serving;
  readonly worker: EventWorker;
  readonly kv: Deno.Kv;
  readonly told: StopSignal;
  readonly inFlight: InFlight;
}

/** Why an app stops. */
export interface StopReason {
  /** The signal that told it to; none after an error that nothing caught. */
  readonly signal?: Deno.Signal;
  /** What the process is to end with. */
  readonly exitCode: 0 | 1;
}

/** Tells an app to stop. */
export interface StopSignal {
  /** Resolves once the app is to stop. */
  readonly reason: Promise<StopReason>;
  /** The app has started: from now on it ends in order. */
  readonly wait: () => void;
  /** Throws once the app is told to stop. */
  readonly throwIfTold: () => void;
}

/** How much of the grace is kept for requests that are still being answered. */
const SHUTDOWN_SHARE = 1 / 8;

/** For how long at least the readiness probe can see that the app stops. */
const DRAIN_MS = 500;

/**
 * Listens for what tells an app to stop. A signal ends the process at once while the app still starts,
 * and so does a second one.
 *
 * An error that nothing catches, in a timer or a promise that a handler has not awaited, would end the
 * process where it stands: it is logged, and the app ends in order. What it was about is not known, so it
 * cannot go on either.
 *
 * @param name The app's name, for the log.
 * @param log Where such an error is logged.
 */
export function stopSignal(name: string, log: LogSink): StopSignal {
  const { promise, resolve } = Promise.withResolvers<StopReason>();
  let [waiting, told, signalled] = [false, false, false];
  const tell = (reason: StopReason) => {
    told = true;
    resolve(reason);
  };
  const signals: Deno.Signal[] = Deno.build.os === "windows" ? ["SIGINT"] : ["SIGINT", "SIGTERM"];
  for (const signal of signals) {
    Deno.addSignalListener(signal, () => {
      if (signalled) Deno.exit(1);
      if (!waiting) Deno.exit(0);
      signalled = true;
      tell({ signal, exitCode: 0 });
    });
  }
  const fail = (event: Event, error: unknown) => {
    event.preventDefault();
    writeLog(log, "error", "uncaught error, stopping", { name, error });
    tell({ exitCode: 1 });
  };
  addEventListener("error", (event) => fail(event, event.error));
  addEventListener("unhandledrejection", (event) => fail(event, event.reason));
  const wait = () => {
    waiting = true;
  };
  const throwIfTold = () => {
    if (told) throw new Error("The app is stopping");
  };
  return { reason: promise, throwIfTold, wait };
}

/**
 * Handlers and the requests in flight first: while they end, requests are still answered, and the
 * readiness probe with 503. The grace is in milliseconds; Deno Deploy kills an instance 5 s after it
 * told it to stop.
 */
export async function stop(
  { server, worker, kv, inFlight }: Running,
  graceMs = 4_000,
): Promise<void> {
  const start = performance.now();
  const stopped = worker.stop(graceMs);
  const quiet = Promise.all([stopped, pause(DRAIN_MS).then(() => inFlight.none())]);
  await withDeadline(quiet, graceMs * (1 - SHUTDOWN_SHARE)).catch(() => {});
  // A peer that never finishes its body keeps `shutdown()` from ever resolving.
  const remainingMs = graceMs - (performance.now() - start);
  await withDeadline(server.shutdown(), remainingMs).catch(() => {});
  await stopped;
  kv.close();
}

/** Counts the requests that are being answered: `shutdown()` aborts bodies that still arrive. */
export class InFlight {
  #count = 0;

  /** Counts a request until its response is ready. */
  async during(answer: () => Response | Promise<Response>): Promise<Response> {
    this.#count++;
    try {
      return await answer();
    } finally {
      this.#count--;
      loadWantedNodeCrypto();
    }
  }

  /** Resolves once no request is being answered. */
  async none(): Promise<void> {
    while (this.#count > 0) await pause(10);
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
