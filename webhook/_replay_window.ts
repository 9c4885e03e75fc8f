import type { IntakeStore } from "./intake.ts";

/** The longest window: a year. */
const MAX_WINDOW_MS = 366 * 86_400_000;

/**
 * Makes a store that takes the same document once within a time, whatever delivery id it brings: the
 * signature of most forges covers the body alone, so whoever has captured a delivery can send it again
 * under a fresh id.
 *
 * @param store The store.
 * @param windowMs For how long a document is remembered, in milliseconds.
 * @returns The store, for an intake.
 * @throws {RangeError} If the time makes no sense.
 */
export function withReplayWindow(store: IntakeStore, windowMs: number): IntakeStore {
  if (!(Number.isFinite(windowMs) && windowMs > 0 && windowMs <= MAX_WINDOW_MS)) {
    throw new RangeError(
      `Cannot create the forge intake: 'replayWindow' must be from 1 to ${MAX_WINDOW_MS}, got ` +
        String(windowMs),
    );
  }
  return {
    maxPayloadBytes: store.maxPayloadBytes,
    firstOf: (...args) => store.firstOf(...args),
    async accept(delivery, requestId) {
      const deliveryId = delivery.deliveryId ?? crypto.randomUUID();
      const first = await store.firstOf(delivery.body, deliveryId, windowMs);
      if (first !== null) return { id: first, duplicate: true };
      return await store.accept({ ...delivery, deliveryId }, requestId);
    },
  };
}
