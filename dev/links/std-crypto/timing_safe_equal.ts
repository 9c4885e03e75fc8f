/** Development stand-in for `jsr:@std/crypto/timing-safe-equal`, which loads as little. */

function toBytes(value: ArrayBufferView | ArrayBufferLike | DataView): Uint8Array {
  return ArrayBuffer.isView(value)
    ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    : new Uint8Array(value);
}

/** Compares two buffers of the same length in constant time; of other lengths it throws. */
export function timingSafeEqual(
  a: ArrayBufferView | ArrayBufferLike | DataView,
  b: ArrayBufferView | ArrayBufferLike | DataView,
): boolean {
  if (a.byteLength !== b.byteLength) {
    throw new TypeError(`Cannot compare ${a.byteLength} bytes with ${b.byteLength}`);
  }
  const [first, second] = [toBytes(a), toBytes(b)];
  let difference = 0;
  for (let i = 0; i < first.byteLength; i++) difference |= first[i]! ^ second[i]!;
  return difference === 0;
}
