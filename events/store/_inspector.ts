import type { KeptPayloads } from "./_kept_payloads.ts";
import { sources } from "./_sources.ts";
import { childIdOf } from "./emission.ts";
import type { Engine, GroupMember } from "./engine.ts";
import type { EventRecord } from "./event_record.ts";
import type { StoreCore } from "./store_core.ts";
import type { StoreInspector } from "./store_inspector.ts";
import { UndecodableError } from "./value_codec.ts";

/** The number of sources in which emitted events are looked for. */
const MAX_SOURCES = 50;

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
      const names = await namesOfSources(core, MAX_SOURCES);
      const numbers = Array.from({ length: count }, (_, i) => i + 1);
      return await known(
        engine,
        numbers.flatMap((number) => names.map((name) => childIdOf(name, id, number))),
      );
    },

    async withDeliveryId(deliveryId) {
      const names = await namesOfSources(core);
      return await known(engine, names.map((name) => `${name}:${deliveryId}`));
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

/** Reads the names of intakes and sources, up to a number. */
async function namesOfSources(core: StoreCore, max = Infinity): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of sources(core)) if (names.push(name) >= max) break;
  return names;
}

/** Finds those of some ids that events have. */
async function known(engine: Engine, ids: readonly string[]): Promise<string[]> {
  const found = new Set<string>();
  for await (const { event } of engine.scan({ filter: { ids } })) {
    if (event) found.add(event.record ? event.record.id : event.id);
  }
  return ids.filter((id) => found.has(id));
}
