import { changeAll, CONCURRENCY } from "./_bulk.ts";
import type { StoreParts } from "./_parts.ts";
import { Pool } from "./_pool.ts";
import { findEvents, type FoundEvent } from "./_scan.ts";
import type { Work } from "./_work.ts";
import type { EventFilter } from "../event_filter.ts";

/** What is kept of an event that has to wait for those received before it. */
interface Aside {
  readonly id: string;
  readonly receivedAt: number;
}

/**
 * Puts dead events back. Those with an ordering key come after the others, in the order in which they
 * were received: it is the order in which they join their orderingGroups.
 */
export async function replayAll(
  { kv, keys }: StoreParts,
  filter: EventFilter,
  replay: (id: string) => Promise<boolean>,
  work: Work,
): Promise<void> {
  const aside = new Map<string, Aside[]>();
  const change = async ({ event }: FoundEvent) => {
    if (event.state !== "dead" || !event.payload) return false;
    const { id, orderingKey, receivedAt } = event;
    if (orderingKey === null) return await replay(id);
    const group = aside.get(orderingKey);
    if (group) group.push({ id, receivedAt });
    else aside.set(orderingKey, [{ id, receivedAt }]);
    return false;
  };
  await changeAll(findEvents(kv, keys, filter, work), change, work);
  const pool = new Pool(CONCURRENCY);
  for (const group of aside.values()) await pool.add(() => replayGroup(group, replay, work));
  await pool.done();
}

async function replayGroup(
  group: Aside[],
  replay: (id: string) => Promise<boolean>,
  work: Work,
): Promise<void> {
  for (const { id } of group.sort((a, b) => a.receivedAt - b.receivedAt)) {
    if (work.ended) return;
    if (await replay(id)) work.hasChanged([id]);
  }
}
