/**
 * Cheap counts of a store, and the surroundings of an event, for the console and the tool.
 *
 * @module
 */
import type { KeptPayloads } from "./_kept_payloads.ts";
import { inIntake, sourceIn } from "./arrival.ts";
import { childIdOf } from "./emission.ts";
import type { BoundedCount, Counts, Engine, GroupMember } from "./engine.ts";
import type { EventRecord, StoredEvent } from "./event_record.ts";
import type { StoreCore } from "./store_core.ts";
import { UndecodableError } from "./value_codec.ts";

/** The number of sources in which emitted events are looked for. */
const MAX_SOURCES = 50;

/** The number in which the events with a delivery id are: each takes one read, and so does an id without a source. */
const MAX_READS = 1_000;

/**
 * View into a store, for pages and tools that must answer soon.
 *
 * @category Event store and worker
 */
export interface StoreInspector {
  /**
   * Counts the events that are open or dead, by the indexes that lead to them.
   *
   * @param max The largest number that is counted, of the events of a state and of the entries read.
   * @param signal Ends the counting.
   * @returns The numbers, and the time since which the longest-waiting due event has been due.
   */
  count(max: number, signal?: AbortSignal): Promise<Counts>;

  /**
   * Counts the events before another one in its ordering group.
   *
   * @param event The record of the other one.
   * @param max The largest number that is counted.
   * @returns The number; undefined if the other one does not wait in a group.
   */
  countBefore(event: EventRecord, max: number): Promise<BoundedCount | undefined>;

  /**
   * Reads the first event of the ordering group in which another one waits.
   *
   * @param event The record of the other one.
   * @returns The record; undefined if the other one does not wait, or it cannot be read.
   */
  firstBefore(event: EventRecord): Promise<EventRecord | undefined>;

  /**
   * Finds the events that an event has emitted with generated ids.
   *
   * @param event The record of the event.
   * @param max The largest number of them.
   * @returns Their ids, in the order in which they were emitted.
   */
  emittedBy(event: EventRecord, max: number): Promise<string[]>;

  /**
   * Finds the events with a delivery id, as the sender's pages show it.
   *
   * @param deliveryId The delivery id.
   * @returns The ids of the events.
   */
  withDeliveryId(deliveryId: string): Promise<string[]>;

  /**
   * Finds which of some events are done and have kept payloads.
   *
   * @param events The events.
   * @returns The ids of those that have.
   */
  keptAmong(events: readonly StoredEvent[]): Promise<ReadonlySet<string>>;
}

/** Makes the view into a store. */
export function storeInspector(core: StoreCore, kept: KeptPayloads): StoreInspector {
  const { engine } = core;
  return {
    count: (max, signal) => engine.count(max, signal),

    async countBefore(event, max) {
      const before = await membersBefore(engine, event, { limit: max + 1, onlyPositions: true });
      return before && { count: Math.min(before.length, max), isMore: before.length > max };
    },

    async firstBefore(event) {
      const [first] = await membersBefore(engine, event, { limit: 1 }) ?? [];
      return first?.event?.record;
    },

    async emittedBy({ id, emitted = 0 }, max) {
      const count = Math.min(emitted, max);
      if (count === 0) return [];
      const names = await namesOfSources(engine, MAX_SOURCES);
      const numbers = Array.from({ length: count }, (_, i) => i + 1);
      return await known(
        engine,
        numbers.flatMap((number) => names.map((name) => childIdOf(name, id, number))),
      );
    },

    async withDeliveryId(deliveryId) {
      const names = await namesOfSources(engine, MAX_READS);
      return await known(engine, names.map((name) => inIntake(name, deliveryId)));
    },

    async keptAmong(events) {
      const done = events.filter((event) => event.state === "done") as EventRecord[];
      return new Set((await kept.among(done)).map(({ id }) => id));
    },
  };
}

/** Reads the first ones before an event that waits in its group; undefined if it does not, or the group is unreadable. */
async function membersBefore(
  engine: Engine,
  { group, dueAt, state }: EventRecord,
  options: { readonly limit: number; readonly onlyPositions?: boolean },
): Promise<readonly GroupMember[] | undefined> {
  if (!group || dueAt !== null || state !== "queued") return undefined;
  try {
    const { members } = await engine.group(group.key, { from: 0, ...options });
    return members.filter(({ position }) => position < group.position);
  } catch (error) {
    if (error instanceof UndecodableError) return undefined;
    throw error;
  }
}

/** Finds the names of the intakes and sources whose events a store has, each with one read. */
async function namesOfSources(engine: Engine, maxReads: number): Promise<string[]> {
  const names: string[] = [];
  let before: string | undefined;
  for (let reads = 0; reads < maxReads; reads++) {
    const [id] = await engine.ids({ before, limit: 1 });
    if (id === undefined) break;
    const name = sourceIn(id);
    if (name !== undefined) names.push(name);
    before = name === undefined ? id : inIntake(name, "");
  }
  return names.reverse();
}

/** Finds those of some ids that events have. */
async function known(engine: Engine, ids: readonly string[]): Promise<string[]> {
  const found = new Set<string>();
  for await (
    const { event } of engine.scan({ filter: { ids: ids.filter((id) => id.isWellFormed()) } })
  ) {
    if (event) found.add(event.record ? event.record.id : event.id);
  }
  return ids.filter((id) => found.has(id));
}
