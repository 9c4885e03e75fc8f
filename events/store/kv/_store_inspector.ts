import { childIdOf } from "../emission.ts";
import type { EventRecord } from "../event_record.ts";
import { isEventRef } from "../record_shape.ts";
import type { StoreInspector } from "../store_inspector.ts";
import { countEvents, countKeys } from "./_counts.ts";
import { knownOf, type StoreKeys } from "./_layout.ts";
import type { StoreParts } from "./_parts.ts";
import { leap, read, readAll, readFirst } from "./_reads.ts";

/** The number of sources in which emitted events are looked for. */
const MAX_SOURCES = 50;

/** Makes the view into a store. */
export function storeInspector(parts: StoreParts): StoreInspector {
  const { kv, keys } = parts;
  const known = async (ids: readonly string[]) => {
    const entries = await readAll(kv, ids.map((id) => keys.id(id)));
    return ids.filter((_, i) => entries[i]!.versionstamp !== null);
  };
  return {
    count: (max, signal) => countEvents(parts, max, signal),

    async countBefore(event, max) {
      const before = positionsBefore(keys, event);
      return before && await countKeys(kv, before, max);
    },

    async firstBefore(event) {
      const before = positionsBefore(keys, event);
      const first = before && (await readFirst(kv, before))?.value;
      return isEventRef(first) ? knownOf(await read(kv, keys.event(first))).record : undefined;
    },

    async emittedBy({ id, emitted = 0 }, max) {
      const count = Math.min(emitted, max);
      if (count === 0) return [];
      const sources = await sourcesIn(kv, keys, MAX_SOURCES);
      const numbers = Array.from({ length: count }, (_, i) => i + 1);
      return await known(
        numbers.flatMap((number) => sources.map((source) => childIdOf(source, id, number))),
      );
    },

    async withDeliveryId(deliveryId) {
      const sources = await sourcesIn(kv, keys);
      return await known(sources.map((source) => `${source}:${deliveryId}`));
    },

    async keptAmong(events) {
      const done = events.filter((event) => event.state === "done") as EventRecord[];
      const entries = await readAll(kv, done.map((each) => keys.kept(each.settledAt!, each.id)));
      return new Set(done.filter((_, i) => entries[i]!.versionstamp !== null).map(({ id }) => id));
    },
  };
}

/** Selects the positions before an event in its ordering group; undefined unless it waits there. */
function positionsBefore(
  keys: StoreKeys,
  { group, dueAt, state }: EventRecord,
): Deno.KvListSelector | undefined {
  if (!group || dueAt !== null || state !== "queued") return undefined;
  const { key, position } = group;
  return { start: keys.position(key, 0), end: keys.position(key, position) };
}

/** Finds the sources of all ids, which begin with them, each with one read. */
async function sourcesIn(
  kv: Deno.Kv,
  { ids: { prefix } }: StoreKeys,
  max = Infinity,
): Promise<string[]> {
  const found: string[] = [];
  const all = { start: [...prefix, ""], end: [...prefix, -Infinity] };
  let reads = 0;
  // A semicolon follows a colon: the next source, or the next id without one.
  const next = (id: string, source = sourceIn(id)) =>
    source === undefined ? `${id}\0` : `${source};`;
  for await (const key of leap(kv, all, (key) => [...prefix, next(String(key.at(-1)))])) {
    const source = sourceIn(String(key.at(-1)));
    if (source !== undefined) found.push(source);
    if (++reads === max) break;
  }
  return found;
}

function sourceIn(id: string): string | undefined {
  const colon = id.indexOf(":");
  return colon < 0 ? undefined : id.slice(0, colon);
}
