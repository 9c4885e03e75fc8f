/**
 * The death of a batch. Each of its events that die takes over what is done of the handling: a replay goes on there. If
 * that is too much for one commit, some of the others die before, in other commits, each of which checks that the first
 * one is still the same. The latest one is never among them, because its id is part of the idempotency key. If the
 * process dies in between, the rest is handled or dies by itself.
 *
 * @module
 */
import type { EventRecord } from "../event_record.ts";
import type { Lease } from "../event_store.ts";
import { progressBytes } from "../record_notes.ts";
import { behindFirst, type Group, MAX_BATCH, readGroup } from "./_ordering_groups.ts";
import type { StoreParts } from "./_parts.ts";

/**
 * The number of bytes of what is done of their handling that the events of a batch take over in one commit, at
 * most: in the one that settles all of them, and in one before it in which some of them die.
 */
const [MAX_PROGRESS_BYTES, MAX_PROGRESS_BYTES_AHEAD] = [100_000, 200_000] as const;

/** The number of events that die in a commit before. */
const MAX_AHEAD = 25;

/** Reads the other events of a batch, in their order. One that was cancelled meanwhile is left out. */
async function membersOf(
  parts: StoreParts,
  { record: { group, batch } }: Pick<Lease, "record">,
): Promise<EventRecord[]> {
  if (!group || !batch || batch.last <= group.position) return [];
  const behind = await behindFirst(parts, group, batch.last, MAX_BATCH - 1);
  return behind.flatMap(({ record, isThere }) => isThere ? [record!] : []);
}

/**
 * Chooses the events of a batch that die in a commit before the one in which the first one dies.
 *
 * @param parts The store.
 * @param lease The first event.
 * @param after Its record after.
 * @returns These, and the group as it was before; undefined if there are none.
 */
export async function dyingAhead(
  parts: StoreParts,
  { record }: Pick<Lease, "record">,
  after: EventRecord,
): Promise<{ readonly group: Group; readonly members: readonly EventRecord[] } | undefined> {
  if (!after.progress || !record.batch) return undefined;
  const bytes = progressBytes(after.progress);
  const room = Math.floor(MAX_PROGRESS_BYTES / bytes);
  if (record.batch.events - 1 <= room) return undefined;
  const group = await readGroup(parts, record.group!.key);
  const members = await membersOf(parts, { record });
  const atOnce = Math.min(MAX_AHEAD, Math.floor(MAX_PROGRESS_BYTES_AHEAD / bytes));
  const count = Math.min(members.length - room, atOnce);
  return count > 0 ? { group, members: members.slice(0, count) } : undefined;
}
