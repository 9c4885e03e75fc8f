import { withDeadline } from "./webhook/deadline.ts";
import type { EventWorker } from "./webhook/mod.ts";
import { loadWantedNodeCrypto } from "./webhook/node_crypto.ts";

/** What runs, and has to be ended. */
export interface Running {
  readonly server: Deno.HttpServer;
  readonly worker: EventWorker;
  readonly kv: Deno.Kv;
  readonly told: StopSignal;
  readonly inFlight: InFlight;
}

/** The signal that tells an app to stop. */
export interface StopSignal {
  /** The signal that told the app to stop. */
  readonly signal: Promise<Deno.Signal>;
  /** The app has started: from now on a signal lets it end in order. */
  readonly wait: () => void;
  /** Throws once the app is told to stop. */
  readonly throwIfTold: () => void;
}

/** How much of the grace is kept for requests that are still being answered. */
const SHUTDOWN_SHARE = 1 / 8;

/** For how long at least the readiness probe can see that the app stops. */
const DRAIN_MS = 500;

/**
 * Listens for the signal to stop. It ends the process at once while the app still starts, and so does a
 * second one.
 */
export function stopSignal(): StopSignal {
  const { promise, resolve } = Promise.withResolvers<Deno.Signal>();
  let [waiting, told] = [false, false];
  const signals: Deno.Signal[] = Deno.build.os === "windows" ? ["SIGINT"] : ["SIGINT", "SIGTERM"];
  for (const signal of signals) {
    Deno.addSignalListener(signal, () => {
      if (told) Deno.exit(1);
      if (!waiting) Deno.exit(0);
      told = true;
      resolve(signal);
    });
  }
  const throwIfTold = () => {
    if (told) throw new Error("The app is stopping");
  };
  return { signal: promise, throwIfTold, wait: () => void (waiting = true) };
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
