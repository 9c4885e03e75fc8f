import { HttpError } from "../core/mod.ts";
import { Timeouts } from "../core/timeouts.ts";
import type { Delivery } from "../events/store/delivery.ts";
import type { AcceptResult, EventStore } from "../events/mod.ts";

/** How long the store may take: a sender gives up after 10 s (GitHub) and needs an answer before. */
export const STORE_TIMEOUT_MS = 5_000;

/** When a sender that can try again should. */
const RETRY_AFTER_SECONDS = "5";

/**
 * Puts a delivery durably into the event store. When this returns, it is stored.
 *
 * @param store The event store.
 * @param delivery The delivery.
 * @returns The event's id, and whether it is new.
 * @throws {HttpError} 503 `QUEUE_UNAVAILABLE` with `Retry-After` if the store fails, or takes longer
 * than 5 s.
 */
export function enqueueDelivery(
  store: Pick<EventStore, "accept">,
  delivery: Delivery,
): Promise<AcceptResult> {
  return enqueueWithin(new Timeouts(STORE_TIMEOUT_MS), store, delivery);
}

/**
 * Puts a delivery durably into the event store, as {@linkcode enqueueDelivery} does.
 *
 * @param timeouts For how long it is waited.
 * @param store The event store.
 * @param delivery The delivery.
 * @returns The event's id, and whether it is new.
 * @throws {HttpError} 503 `QUEUE_UNAVAILABLE` with `Retry-After` if the store fails or takes longer.
 */
export async function enqueueWithin(
  timeouts: Timeouts,
  store: Pick<EventStore, "accept">,
  delivery: Delivery,
): Promise<AcceptResult> {
  try {
    return await timeouts.limit(store.accept(delivery));
  } catch (cause) {
    throw new HttpError(503, "Service Unavailable", {
      code: "QUEUE_UNAVAILABLE",
      headers: { "Retry-After": RETRY_AFTER_SECONDS },
      cause,
    });
  }
}
