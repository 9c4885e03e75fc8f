import { withDeadline } from "../core/timeouts.ts";
import type { EventWorker } from "../events/mod.ts";
import type { Serving } from "./serve_app.ts";

/** Parts of a served app that have to be stopped. */
export interface ServedParts {
  /** Server. */
  readonly server: Serving;
  /** Worker. */
  readonly worker: EventWorker;
  /** Requests that are being answered. */
  readonly inFlight: InFlight;
}

/** Share of the grace that is kept for requests that are still being answered. */
const SHUTDOWN_SHARE = 1 / 8;

/** Shortest time for which the readiness probe can see that the app stops. */
const DRAIN_MS = 500;

/**
 * Stops a server and a worker in order. Handlers and requests in flight end first; meanwhile new requests are still
 * answered, and the readiness probe gets 503. The grace is in milliseconds: Deno Deploy kills an instance
 * 5 s after its signal.
 */
export async function stopServing(
  { server, worker, inFlight }: ServedParts,
  graceMs: number,
): Promise<void> {
  const start = performance.now();
  const quietMs = graceMs * (1 - SHUTDOWN_SHARE);
  const stopped = worker.stop({ graceMs });
  const answered = pause(Math.min(DRAIN_MS, quietMs)).then(() => inFlight.none(start + quietMs));
  await withDeadline(Promise.all([stopped, answered]), quietMs).catch(() => {});
  // A peer that never finishes its body keeps `shutdown()` from ever resolving.
  const remainingMs = graceMs - (performance.now() - start);
  await withDeadline(server.shutdown(), remainingMs).catch(() => {});
  await stopped;
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

  /** Waits until no request is being answered, or a time of `performance.now()` has passed. */
  async none(until: number): Promise<void> {
    while (this.#count > 0 && performance.now() < until) await pause(10);
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
