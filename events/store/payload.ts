import type { Engine } from "./engine.ts";
import type { PayloadRef } from "./event_record.ts";

/** Size of the parts of a payload, in bytes: a value of a KV holds 65,536. */
export const PART_BYTES = 65_000;

/**
 * Names a payload that is about to be written. An engine may keep it in the record of its event.
 *
 * @param engine The engine that is to hold it.
 * @param body The payload.
 * @returns Its name, which no other payload has.
 * @throws {RangeError} If it is larger than the engine can hold.
 */
export function newPayloadRef(engine: Engine, body: Uint8Array): PayloadRef {
  const { payloadBytes } = engine.limits;
  const size = body.byteLength;
  if (size > payloadBytes) {
    throw new RangeError(`Cannot store the payload: it has ${size} bytes, over ${payloadBytes}`);
  }
  // Ordered by time, like all keys of an event.
  return {
    id: `${engine.now().toString(36)}-${crypto.randomUUID()}`,
    chunks: chunksOf(size),
    size,
  };
}

/** Returns the number of parts of a payload that is not in a record. */
export function chunksOf(size: number): number {
  return Math.max(1, Math.ceil(size / PART_BYTES));
}
