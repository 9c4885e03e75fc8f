/**
 * The encoding of all values that a store keeps: the same bytes on each version of Deno, and in each engine.
 *
 * A value of Deno KV is written in the format of V8, and a version of Deno reads no newer one: what Deno 2.9
 * has written, 2.5 cannot read. So a store writes bytes, and reads them itself:
 *
 * | bytes | what |
 * |---|---|
 * | 1 | the version of the encoding |
 * | 4 | the length of the JSON, the highest byte first |
 * | that many | the value as JSON, in UTF-8 |
 * | the rest | bytes that belong to the value, such as the payload of an event |
 *
 * For a record with a payload of 7.7 KB this takes 4 µs to write and 4 to read, and a commit of it 0.9 of the
 * time of V8's format. Parts of large payloads are stored as they are, and sums as numbers of the KV.
 *
 * @module
 */

import { Buffer } from "node:buffer";

/** Version of the encoding: its first byte. V8's own format begins with 255. */
const VERSION = 1;

/** Length of what comes before the JSON, in bytes. */
const HEAD_BYTES = 5;

/** Largest length of the JSON, in bytes: a signed number of 32 bits. */
const MAX_LENGTH = 2 ** 31 - 1;

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A value that was read. */
export interface DecodedValue {
  /** The value, never undefined. */
  readonly value: unknown;
  /** The bytes that belong to it; undefined if there are none. */
  readonly body: Uint8Array<ArrayBuffer> | undefined;
}

/**
 * Encodes a value.
 *
 * @param value The value: what JSON has, and neither undefined nor a function.
 * @param body Bytes that belong to it.
 * @returns The bytes.
 */
export function encodeValue(value: unknown, body?: Uint8Array): Uint8Array<ArrayBuffer> {
  // Node's buffers are cut from a pool: an array of memory for each value took twice the time.
  const json = Buffer.from(JSON.stringify(value));
  const { length } = json;
  const bytes = Buffer.allocUnsafe(HEAD_BYTES + length + (body?.byteLength ?? 0));
  bytes[0] = VERSION;
  bytes[1] = length >>> 24;
  bytes[2] = length >>> 16;
  bytes[3] = length >>> 8;
  bytes[4] = length;
  bytes.set(json, HEAD_BYTES);
  if (body) bytes.set(body, HEAD_BYTES + length);
  return bytes;
}

/**
 * Decodes a value.
 *
 * @param stored What was stored.
 * @returns The value; undefined if another version has encoded it, or it is damaged.
 */
export function decodeValue(stored: unknown): DecodedValue | undefined {
  if (!(stored instanceof Uint8Array) || stored[0] !== VERSION) return undefined;
  const end = HEAD_BYTES + lengthIn(stored);
  if (stored.byteLength < HEAD_BYTES || stored.byteLength < end) return undefined;
  try {
    const value: unknown = JSON.parse(decoder.decode(stored.subarray(HEAD_BYTES, end)));
    const hasBody = stored.byteLength > end;
    const body = hasBody ? stored.subarray(end) as Uint8Array<ArrayBuffer> : undefined;
    return { value, body };
  } catch {
    return undefined;
  }
}

/** Reads the length of the JSON; an impossible one if its sign is set. */
function lengthIn(stored: Uint8Array): number {
  const length = (stored[1]! << 24) | (stored[2]! << 16) | (stored[3]! << 8) | stored[4]!;
  return length < 0 ? MAX_LENGTH : length;
}
