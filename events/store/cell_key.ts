import type { CellKey } from "./engine.ts";

const [BYTES, TEXT, NUMBER] = [1, 2, 3] as const;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Encodes a key so that keys are in the order of their bytes, and a key begins with the bytes of its beginning. */
export function encodeCellKey(key: CellKey): Uint8Array<ArrayBuffer> {
  const out: number[] = [];
  for (const part of key) {
    if (typeof part === "number") out.push(NUMBER, ...numberBytes(part));
    else {
      out.push(typeof part === "string" ? TEXT : BYTES);
      for (const byte of typeof part === "string" ? encoder.encode(part) : part) {
        if (byte === 0) out.push(0, 0xff);
        else out.push(byte);
      }
      out.push(0);
    }
  }
  return new Uint8Array(out);
}

/** Returns the smallest bytes behind all keys that begin with a key: no part begins with 255. */
export function behindAll(begin: CellKey): Uint8Array<ArrayBuffer> {
  return new Uint8Array([...encodeCellKey(begin), 0xff]);
}

export function decodeCellKey(bytes: Uint8Array): CellKey {
  const key: (string | number | Uint8Array)[] = [];
  for (let i = 0; i < bytes.length;) {
    const tag = bytes[i++];
    if (tag === NUMBER) {
      key.push(numberIn(bytes.slice(i, i + 8)));
      i += 8;
      continue;
    }
    const part: number[] = [];
    for (; bytes[i] !== 0 || bytes[i + 1] === 0xff; i++) {
      part.push(bytes[i]!);
      if (bytes[i] === 0) i++;
    }
    i++;
    key.push(tag === TEXT ? decoder.decode(new Uint8Array(part)) : new Uint8Array(part));
  }
  return key as unknown as CellKey;
}

/** IEEE 754, the highest byte first: all bits turned for a negative one, and the sign for others. */
function numberBytes(value: number): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setFloat64(0, value === 0 ? 0 : value);
  if (bytes[0]! & 0x80) return bytes.map((byte) => byte ^ 0xff);
  bytes[0]! |= 0x80;
  return bytes;
}

function numberIn(bytes: Uint8Array): number {
  const back = bytes[0]! & 0x80
    ? bytes.map((byte, i) => i === 0 ? byte & 0x7f : byte)
    : bytes.map((byte) => byte ^ 0xff);
  return new DataView(back.buffer, back.byteOffset).getFloat64(0);
}
