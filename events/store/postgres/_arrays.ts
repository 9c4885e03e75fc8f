/**
 * Arrays as parameters of statements, in the binary format of Postgres: the client would make a text of each, with its
 * bytes as hexadecimal digits.
 *
 * @module
 */
import type { Bytes } from "../engine.ts";

/** Object identifiers of types, from Postgres' catalog `pg_type.dat`. */
const [BYTEA, TEXT, FLOAT8] = [17, 25, 701] as const;

/** Dimensions, a mark for nulls, the type, the length, and the number of the first element. */
const HEADER_BYTES = 20;

/** Bytes that UTF-8 takes at most for a UTF-16 code unit. */
const MAX_UNIT_BYTES = 3;

/** Length of an element that is null. */
const NULL = -1;

const encoder = new TextEncoder();

/** Makes an array of texts, for `$1::text[]`. */
export function textArray(values: readonly (string | null)[]): Bytes {
  return encodeTexts(TEXT, values);
}

/** Makes an array of bytes that are texts in UTF-8, for `$1::bytea[]`. */
export function utf8Array(values: readonly (string | null)[]): Bytes {
  return encodeTexts(BYTEA, values);
}

/** Makes an array of bytes, for `$1::bytea[]`. */
export function bytesArray(values: readonly (Uint8Array | null)[]): Bytes {
  let size = HEADER_BYTES;
  for (const value of values) size += 4 + (value?.byteLength ?? 0);
  const [bytes, view] = begin(BYTEA, values, size);
  let at = HEADER_BYTES;
  for (const value of values) {
    view.setInt32(at, value?.byteLength ?? NULL);
    at += 4;
    if (!value) continue;
    bytes.set(value, at);
    at += value.byteLength;
  }
  return bytes;
}

/** Makes an array of numbers, for `$1::float8[]`. */
export function numberArray(values: readonly (number | null)[]): Bytes {
  const [bytes, view] = begin(FLOAT8, values, HEADER_BYTES + 12 * values.length);
  let at = HEADER_BYTES;
  for (const value of values) {
    view.setInt32(at, value === null ? NULL : 8);
    at += 4;
    if (value === null) continue;
    view.setFloat64(at, value);
    at += 8;
  }
  return bytes.subarray(0, at);
}

function encodeTexts(type: number, values: readonly (string | null)[]): Bytes {
  let size = HEADER_BYTES;
  for (const value of values) size += 4 + MAX_UNIT_BYTES * (value?.length ?? 0);
  const [bytes, view] = begin(type, values, size);
  let at = HEADER_BYTES;
  for (const value of values) {
    const written = value === null ? 0 : encoder.encodeInto(value, bytes.subarray(at + 4)).written;
    view.setInt32(at, value === null ? NULL : written);
    at += 4 + written;
  }
  return bytes.subarray(0, at);
}

function begin(
  type: number,
  { length }: readonly unknown[],
  size: number,
): readonly [Bytes, DataView] {
  const bytes = new Uint8Array(size);
  const view = new DataView(bytes.buffer);
  // An array without elements has no dimensions.
  view.setInt32(0, length === 0 ? 0 : 1);
  view.setInt32(4, 1);
  view.setInt32(8, type);
  if (length > 0) {
    view.setInt32(12, length);
    view.setInt32(16, 1);
  }
  return [length === 0 ? bytes.subarray(0, 12) : bytes, view];
}
