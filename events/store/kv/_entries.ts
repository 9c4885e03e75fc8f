import { isUndecodable, listAround, readAll } from "./_reads.ts";
import type { StoreKeys } from "./_keys.ts";
import type { EventRef } from "../event_record.ts";

/**
 * How many records are read at a time while all are looked through. A remote KV takes 45 ms for 100, and
 * hardly more for 500.
 */
const BATCH_SIZE = 500;

/** How many records are read at a time by their ids. */
const BY_IDS = 100;

/**
 * Reads the entries of the events received from a time on and before another, in their order. A value
 * whose bytes cannot be decoded fails the reading of all that are read with it, and tells not even its
 * key: from there on events are read by their ids.
 */
export async function* entriesBetween(
  kv: Deno.Kv,
  keys: StoreKeys,
  after: number,
  before: number,
): AsyncGenerator<Deno.KvEntry<unknown>> {
  let time = after;
  let seenThen: string[] = [];
  try {
    const selector = keys.eventsBetween(after, before);
    for await (const entry of kv.list(selector, { batchSize: BATCH_SIZE })) {
      yield entry;
      const { id, receivedAt } = refOf(entry.key);
      if (receivedAt !== time) seenThen = [];
      seenThen.push(id);
      time = receivedAt;
    }
  } catch (error) {
    if (!isUndecodable(error)) throw error;
    const refs = await refsBetween(kv, keys, time, before);
    const rest = refs.filter((ref) => ref.receivedAt > time || !seenThen.includes(ref.id));
    yield* entriesOf(kv, keys, rest);
  }
}

/** Reads the entries of events. */
export async function* entriesOf(
  kv: Deno.Kv,
  keys: StoreKeys,
  refs: readonly EventRef[],
): AsyncGenerator<Deno.KvEntry<unknown>> {
  for (let i = 0; i < refs.length; i += BY_IDS) {
    const wanted = refs.slice(i, i + BY_IDS).map((ref) => keys.event(ref));
    for (const entry of await readAll(kv, wanted)) if (entry.versionstamp !== null) yield entry;
  }
}

/** Reads where the events received from a time on and before another are, in their order. */
async function refsBetween(
  kv: Deno.Kv,
  keys: StoreKeys,
  after: number,
  before: number,
): Promise<EventRef[]> {
  const refs: EventRef[] = [];
  for await (const { key, value } of listAround(kv, keys.ids, BATCH_SIZE)) {
    if (typeof value !== "number" || value < after || value >= before) continue;
    refs.push({ id: String(key.at(-1)), receivedAt: value });
  }
  return refs.sort((a, b) => a.receivedAt - b.receivedAt);
}

function refOf(key: Deno.KvKey): EventRef {
  return { id: String(key.at(-1)), receivedAt: Number(key.at(-2)) };
}
