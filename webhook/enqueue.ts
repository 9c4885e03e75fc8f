import { HttpError } from "../core/mod.ts";
import { withDeadline } from "../core/timeouts.ts";
import type { AcceptResult, Delivery, EventStore } from "../events/store/mod.ts";

/** Options of {@linkcode enqueueDelivery}. */
export interface EnqueueOptions {
  /**
   * Time during which the same document is a duplicate, in milliseconds, whatever delivery id it has.
   *
   * @default {undefined} Only the delivery id counts.
   */
  readonly replayWindowMs?: number | undefined;
  /**
   * Limits the wait for the store.
   *
   * @default {undefined} Rejects after 5 s.
   */
  readonly limit?: (<T>(promise: Promise<T>) => Promise<T>) | undefined;
}

/** Longest wait for the store: a sender gives up after 10 s (GitHub) and needs an answer before. */
export const STORE_TIMEOUT_MS = 5_000;

/** Seconds until a retry makes sense. */
const RETRY_AFTER_SECONDS = "5";

/**
 * Puts a delivery durably into the event store. When this returns, it is stored.
 *
 * @param store The event store.
 * @param delivery The delivery.
 * @param options The replay window, and the limit on the wait.
 * @returns The event's id, and whether it is a duplicate.
 * @throws {HttpError} 503 `QUEUE_UNAVAILABLE` with `Retry-After` if the store fails, or takes longer
 * than 5 s.
 */
export async function enqueueDelivery(
  store: Pick<EventStore, "accept">,
  delivery: Delivery,
  { replayWindowMs, limit = withinTimeout }: EnqueueOptions = {},
): Promise<AcceptResult> {
  try {
    return await limit(store.accept(delivery, { replayWindowMs }));
  } catch (cause) {
    throw new HttpError(503, "Service Unavailable", {
      code: "QUEUE_UNAVAILABLE",
      headers: { "Retry-After": RETRY_AFTER_SECONDS },
      cause,
    });
  }
}

function withinTimeout<T>(promise: Promise<T>): Promise<T> {
  return withDeadline(promise, STORE_TIMEOUT_MS);
}
