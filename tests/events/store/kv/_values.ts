import { assert } from "@std/assert";
import { decodeValue, encodeValue } from "../../../../events/store/kv/value_codec.ts";

/** Reads a value of the store: null if there is none, and undefined if it cannot be decoded. */
export async function valueAt<T = unknown>(kv: Deno.Kv, key: Deno.KvKey): Promise<T> {
  const { value } = await kv.get(key);
  return (value === null ? null : decodeValue(value)?.value) as T;
}

/** Reads the number of events that an ordering group is noted to have. */
export async function groupSize(kv: Deno.Kv, key: string): Promise<number> {
  return (await valueAt<{ size: number } | null>(kv, ["events", "lane", key]))?.size ?? 0;
}

/** Writes a value as the store does, with the bytes that belong to it. */
export async function setValue(
  kv: Deno.Kv,
  key: Deno.KvKey,
  value: unknown,
  body?: Uint8Array,
): Promise<void> {
  await kv.atomic().set(key, encodeValue(value, body)).commit();
}

/** Changes members of a value, and leaves the bytes that belong to it as they are. */
export async function changeValue(kv: Deno.Kv, key: Deno.KvKey, members: object): Promise<void> {
  const { value, body } = decodeValue((await kv.get(key)).value)!;
  await setValue(kv, key, { ...value as object, ...members }, body);
}

/** Puts a value into another version of the encoding. Returns what writes it back. */
export function setNewer(kv: Deno.Kv, key: Deno.KvKey): Promise<() => Promise<void>> {
  return replace(kv, key, (bytes) => bytes.with(0, 99));
}

/** Damages a value, in the first byte of its JSON. Returns what writes it back. */
export function damage(kv: Deno.Kv, key: Deno.KvKey): Promise<() => Promise<void>> {
  return replace(kv, key, (bytes) => bytes.with(5, 0));
}

async function replace(
  kv: Deno.Kv,
  key: Deno.KvKey,
  change: (bytes: Uint8Array) => Uint8Array,
): Promise<() => Promise<void>> {
  const { value } = await kv.get<Uint8Array>(key);
  assert(value instanceof Uint8Array, `There is nothing at ${key.join()}`);
  const changed = change(value);
  assert(decodeValue(changed) === undefined);
  await kv.set(key, changed);
  return async () => void await kv.set(key, value);
}
