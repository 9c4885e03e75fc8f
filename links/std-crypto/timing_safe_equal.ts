/** Development stand-in for `jsr:@std/crypto/timing-safe-equal`, over `node:crypto`. */
import { timingSafeEqual as nodeTimingSafeEqual } from "node:crypto";

function toBytes(value: ArrayBufferView | ArrayBufferLike | DataView): Uint8Array {
  return ArrayBuffer.isView(value)
    ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    : new Uint8Array(value);
}

/** Compares two buffers in constant time; buffers of different length are not equal. */
export function timingSafeEqual(
  a: ArrayBufferView | ArrayBufferLike | DataView,
  b: ArrayBufferView | ArrayBufferLike | DataView,
): boolean {
  return a.byteLength === b.byteLength && nodeTimingSafeEqual(toBytes(a), toBytes(b));
}
