/**
 * Batches: events of one ordering group that a handler gets together. An event whose delivery asks for it
 * waits as the first one of its group until no other has joined for a while. When it is leased for the first
 * time, its record notes the position up to which the others belong to it, so that each attempt is at the
 * same events. What joins later is for the next batch.
 *
 * Only the first event is leased, retried, put off or released. The others stay as they are, queued and off
 * the schedule, until the commit that settles the first one settles them in the same way. It checks the
 * group and not each of them: any other change of theirs changes the group too.
 *
 * Each of those that die takes over what is done of the handling: a replay goes on there. If that is too much for
 * one commit, some of the others die before, in other commits, each of which checks that the first one is still the
 * same. The latest one is never among them, because its id is part of the idempotency key. If the process dies in
 * between, the rest is handled or dies by itself.
 *
 * An event of another type or action ends a batch, since it has handlers of its own. So does an event with
 * other progress, from an earlier run, and one that cannot be read.
 *
 * @module
 */
import type { EventRecord } from "../event_record.ts";
import type { Lease } from "../event_store.ts";
import { batched, waiting } from "../claims.ts";
import { progressBytes } from "../record_notes.ts";
import {
  behindFirst,
  firstInGroup,
  type Group,
  MAX_BATCH,
  type Member,
  readGroup,
} from "./_ordering_groups.ts";
import { together } from "./_limits.ts";
import type { StoreParts } from "./_parts.ts";

/** The number of bytes of the payloads of events that are handled together, at most. */
const MAX_PAYLOAD_BYTES = 8_000_000;

/**
 * The number of bytes of what is done of their handling that the events of a batch take over in one commit, at
 * most: in the one that settles all of them, and in one before it in which some of them die.
 */
const [MAX_PROGRESS_BYTES, MAX_PROGRESS_BYTES_AHEAD] = [100_000, 200_000] as const;

/** The number of events that die in a commit before. */
const MAX_AHEAD = 25;

/**
 * Determines the batch of the first event of a group, unless it has to wait.
 *
 * @param parts The store.
 * @param record The record of the first event. It is due.
 * @param now The time, milliseconds since the epoch.
 * @returns The record with its batch, or with a later time in the schedule.
 */
export async function beginBatch(
  parts: StoreParts,
  record: EventRecord,
  now: number,
): Promise<EventRecord> {
  const { next, joinedAt } = await readGroup(parts, record.group!.key);
  const waitMs = waitOf(record, next, joinedAt, now);
  if (waitMs > 0) return waiting(record, waitMs, next, now);
  const behind = await behindFirst(parts, record.group!, next, MAX_BATCH - 1);
  const meant = [record];
  let bytes = record.payload?.size ?? 0;
  for (const member of behind) {
    if (!belongsTo(record, member)) break;
    bytes += member.record!.payload!.size;
    if (bytes > MAX_PAYLOAD_BYTES) break;
    meant.push(member.record!);
  }
  const events = together(parts.keys, meant);
  return batched(record, { last: meant[events - 1]!.group!.position, events });
}

/** Reads the other events of a batch, in their order. One that was cancelled meanwhile is left out. */
export async function membersOf(
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

/**
 * Reads the first event of the batch that another one belongs to.
 *
 * @param parts The store.
 * @param record The record of the other one.
 * @returns The first event; undefined if the other one is in no batch, or is its first one.
 */
export async function firstOf(
  parts: StoreParts,
  { group, dueAt }: EventRecord,
): Promise<Lease | undefined> {
  if (!group || dueAt !== null) return undefined;
  const first = await firstInGroup(parts, group.key);
  const { record, versionstamp } = first ?? {};
  const isIn = first?.isThere && group.position <= (record?.batch?.last ?? -1);
  return isIn ? { record: record!, version: versionstamp! } : undefined;
}

/** Calculates for how long the first event of a group has to wait until it is quiet, in milliseconds. */
function waitOf(
  { quiet }: EventRecord,
  next: number,
  joinedAt: number | undefined,
  now: number,
): number {
  const { quietMs, maxWaitMs, since, waitedMs } = quiet!;
  // Nobody joined during the wait, so no clock is needed.
  if (quiet!.next === next) return 0;
  const quietFor = joinedAt === undefined ? 0 : Math.max(0, now - joinedAt);
  return Math.max(0, Math.min(quietMs - quietFor, maxWaitMs - Math.max(now - since, waitedMs)));
}

/** Checks whether an event can be handled together with the first one of its group, by the same handlers. */
function belongsTo(first: EventRecord, { record, isThere }: Member): boolean {
  if (!isThere || !record) return false;
  const { state, quiet, payload, type, action, platform } = record;
  const isOpen = state === "queued" && quiet !== undefined && payload !== null;
  // What is done of the first one's handling counts for all of them.
  const isAsFar = String(record.progress ?? []) === String(first.progress ?? []);
  const isSame = type === first.type && action === first.action && platform === first.platform;
  return isOpen && isAsFar && isSame;
}
