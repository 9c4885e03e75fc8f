import { changeAll, CONCURRENCY } from "./_bulk.ts";
import { storeKeys } from "./_keys.ts";
import type { StoreParts } from "./_parts.ts";
import { Pool } from "./_pool.ts";
import { revive } from "./_revive.ts";
import { findEvents, type FoundEvent } from "./_scan.ts";
import { setDue } from "./_schedule.ts";
import type { Work } from "./_work.ts";
import type { EventFilter } from "./event_filter.ts";

/** What is kept of an event that has to wait for those received before it. */
interface Aside {
  readonly id: string;
  readonly receivedAt: number;
}

/**
 * Puts dead events back. Those with an ordering key come after the others, in the order in which they
 * were received: it is the order in which they join their lanes.
 */
export async function replayAll(
  parts: StoreParts,
  filter: EventFilter,
  replay: (id: string) => Promise<boolean>,
  work: Work,
): Promise<void> {
  const { kv, bell } = parts;
  const keys = storeKeys(parts.namespace);
  const aside = new Map<string, Aside[]>();
  const plan = ({ event, key }: FoundEvent) => {
    if (event.state !== "dead" || !event.payload) return null;
    const { id, orderingKey, receivedAt } = event;
    if (orderingKey !== null) {
      const lane = aside.get(orderingKey);
      if (lane) lane.push({ id, receivedAt });
      else aside.set(orderingKey, [{ id, receivedAt }]);
      return null;
    }
    const add = (operation: Deno.AtomicOperation) => {
      const record = revive(event);
      operation.set(key, record);
      setDue(operation, keys, record);
    };
    return { alone: () => replay(id), add };
  };
  const finish = (operation: Deno.AtomicOperation) => bell.ring(operation);
  await changeAll(kv, findEvents(kv, keys, filter, work), { plan, finish }, work);
  const pool = new Pool(CONCURRENCY);
  for (const lane of aside.values()) await pool.add(() => replayLane(lane, replay, work));
  await pool.done();
}

async function replayLane(
  lane: Aside[],
  replay: (id: string) => Promise<boolean>,
  work: Work,
): Promise<void> {
  for (const { id } of lane.sort((a, b) => a.receivedAt - b.receivedAt)) {
    if (work.ended) return;
    if (await replay(id)) work.hasChanged([id]);
  }
}
