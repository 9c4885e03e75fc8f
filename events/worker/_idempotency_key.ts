import { createHash } from "node:crypto";

/** What an event is known by. */
export interface KeyedEvent {
  readonly platform: string;
  readonly source: string;
  readonly id: string;
  readonly body: Uint8Array;
}

/**
 * Makes a key for a call, in the form of a UUID (version 8, RFC 9562). The body is part of it: two bots
 * of a messenger have updates of the same number.
 */
export function idempotencyKeyOf({ platform, source, id, body }: KeyedEvent, call: string): string {
  const hash = createHash("sha256").update(
    JSON.stringify([platform, source, id, call]),
  );
  const bytes = hash.update(body).digest();
  bytes[6] = (bytes[6]! & 0x0f) | 0x80;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = bytes.toString("hex");
  const groups = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20)];
  return [...groups, hex.slice(20, 32)].join("-");
}
