/**
 * Cheap counts of a store, and the surroundings of an event, for the console and the tool.
 *
 * @module
 */
import { childIdOf } from "../emission.ts";
import type { BoundedCount } from "../engine.ts";
import type { EventRecord, StoredEvent } from "../event_record.ts";
import { isEventRef } from "../record_shape.ts";
import { countKeys, OpenCounter, type OpenCounts } from "./_counts.ts";
import { knownOf, type StoreKeys, storeKeys } from "./_layout.ts";
import { leap, read, readAll, readFirst } from "./_reads.ts";

/** The number of sources in which emitted events are looked for. */
const MAX_SOURCES = 50;

export type { BoundedCount };

/** A view into a store. */
export type StoreInspector = ReturnType<typeof openStoreInspector>;

/**
 * Opens a view into the store with a namespace.
 *
 * @param kv The KV.
 * @param namespace The namespace.
 * @returns The view.
 */
export function openStoreInspector(kv: Deno.Kv, namespace: string) {
  const keys = storeKeys(namespace);
  const known = async (ids: readonly string[]) => {
    const entries = await readAll(kv, ids.map((id) => keys.id(id)));
    return ids.filter((_, i) => entries[i]!.versionstamp !== null);
  };
  return {
    /**
     * Counts open events by the schedule and the ordering groups. Records are read only of events that share a
     * schedule entry, or have two.
     *
     * @param max The largest number that is counted, of events and of entries read.
     * @param signal Ends the counting.
     */
    countOpen: (max: number, signal?: AbortSignal): Promise<OpenCounts> =>
      new OpenCounter(kv, keys, max, signal).count(),

    /** Counts dead events by their index, up to a largest number. */
    countDead: (max: number): Promise<BoundedCount> => countKeys(kv, keys.deadIndex, max),

    /** Counts the events before another one in its ordering group; undefined if it does not wait in a group. */
    async countBefore(event: EventRecord, max: number): Promise<BoundedCount | undefined> {
      const before = positionsBefore(keys, event);
      return before && await countKeys(kv, before, max);
    },

    /**
     * Reads the first event of the ordering group in which another one waits; undefined if the other one does not
     * wait, or it cannot be read.
     */
    async firstBefore(event: EventRecord): Promise<EventRecord | undefined> {
      const before = positionsBefore(keys, event);
      const first = before && (await readFirst(kv, before))?.value;
      return isEventRef(first) ? knownOf(await read(kv, keys.event(first))).record : undefined;
    },

    /** Finds the ids of the events that an event has emitted with generated ids, in that order, up to a number. */
    async emittedBy({ id, emitted = 0 }: EventRecord, max: number): Promise<string[]> {
      const count = Math.min(emitted, max);
      if (count === 0) return [];
      const sources = await sourcesIn(kv, keys, MAX_SOURCES);
      const numbers = Array.from({ length: count }, (_, i) => i + 1);
      return await known(
        numbers.flatMap((number) => sources.map((source) => childIdOf(source, id, number))),
      );
    },

    /**
     * Finds the ids of the events with a delivery id, as the sender's pages show it. Ids begin with their source, and
     * each source takes one read.
     */
    async withDeliveryId(deliveryId: string): Promise<string[]> {
      const sources = await sourcesIn(kv, keys);
      return await known(sources.map((source) => `${source}:${deliveryId}`));
    },

    /** Finds which of some events are done and have kept payloads, and returns their ids. */
    async keptAmong(events: readonly StoredEvent[]): Promise<ReadonlySet<string>> {
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

/** Finds the sources of all ids, each with one read. */
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
