import { met } from "../core/check_options.ts";
import type { IntakeStore } from "./intake.ts";

/**
 * Makes a store that takes the same document once within a time, whatever delivery id it brings: the
 * signature of most forges covers the body alone, so whoever has captured a delivery can send it again
 * under a fresh id.
 *
 * @param store The store.
 * @param windowMs For how long a document is remembered, in milliseconds.
 * @returns The store, for an intake.
 * @throws {RangeError} If the time makes no sense, or is longer than the store remembers events.
 */
export function withReplayWindow(store: IntakeStore, windowMs: number): IntakeStore {
  // A document whose event is forgotten cannot be told from one whose event was never stored.
  if (!(Number.isFinite(windowMs) && windowMs >= 1 && windowMs <= store.retentionMs)) {
    throw new RangeError(
      `Cannot create the forge intake: 'replayWindow' must be from 1 to ${store.retentionMs}, the ` +
        `store's 'retentionMs', got ${met(windowMs)}`,
    );
  }
  return {
    maxPayloadBytes: store.maxPayloadBytes,
    retentionMs: store.retentionMs,
    firstOf: (...args) => store.firstOf(...args),
    async accept(delivery) {
      const deliveryId = delivery.deliveryId ?? crypto.randomUUID();
      const known = { ...delivery, deliveryId };
      const first = await store.firstOf(known, windowMs);
      if (first !== null) return { id: first, duplicate: true };
      return await store.accept(known);
    },
  };
}
