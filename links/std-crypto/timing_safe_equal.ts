/** Development stand-in for `jsr:@std/crypto/timing-safe-equal`, which loads as little. */

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
  if (a.byteLength !== b.byteLength) return false;
  const [first, second] = [toBytes(a), toBytes(b)];
  let difference = 0;
  for (let i = 0; i < first.byteLength; i++) difference |= first[i]! ^ second[i]!;
  return difference === 0;
}
