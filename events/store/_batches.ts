/**
 * Batches: the events of one ordering group that a handler gets together. An event whose delivery asks for it
 * waits as the first one of its group until no other has joined for a while. When it is leased for the first
 * time, its record notes the position up to which the others belong to it, so that each attempt is at the
 * same events. What joins later is for the next batch.
 *
 * Only the first event is leased, retried, put off or released. The others stay as they are, queued and not due,
 * until the change that settles the first one settles them in the same way. It checks the group and not each of
 * them: any other change of theirs changes the group too.
 *
 * Each of those that die takes over what is done of the handling: a replay goes on there. If that is too much for
 * one commit of an engine, some of the others die before, in other commits, each of which checks that the first one
 * is still the same. The latest one is never among them, because its id is part of the idempotency key. If the
 * process dies in between, the rest is handled or dies by itself.
 *
 * An event of another type or action ends a batch, since it has handlers of its own. So does an event with
 * other progress, from an earlier run, or with steps, and one that cannot be read.
 *
 * @module
 */
import { batched, waiting } from "./arrival.ts";
import type { Engine, GroupMember, Stored } from "./engine.ts";
import type { EventRecord } from "./event_record.ts";

/** The number of events that are handled together, at most: they are settled in one commit. */
const MAX_BATCH = 100;

/** The number of bytes of the payloads of events that are handled together, at most. */
const MAX_PAYLOAD_BYTES = 8_000_000;

/**
 * Determines the batch of the first event of a group, unless it has to wait.
 *
 * @param engine The engine.
 * @param record The record of the first event. It is due.
 * @param now The time, milliseconds since the epoch.
 * @returns The record with its batch, or with a later time at which it is due.
 */
export async function beginBatch(
  engine: Engine,
  record: EventRecord,
  now: number,
): Promise<EventRecord> {
  const { key } = record.group!;
  const { next, joinedAt } = await engine.group(key, { from: 0, limit: 0 });
  const waitMs = waitOf(record, next, joinedAt, now);
  if (waitMs > 0) return waiting(record, waitMs, next, now);
  const behind = await behindFirst(engine, record, next);
  const meant = [record];
  let bytes = record.payload?.size ?? 0;
  for (const { event } of behind) {
    const member = event?.record;
    if (!member || !belongsTo(record, member)) break;
    bytes += member.payload!.size;
    if (bytes > MAX_PAYLOAD_BYTES) break;
    meant.push(member);
  }
  const events = Math.max(1, engine.limits.together(meant));
  return batched(record, { last: meant[events - 1]!.group!.position, events });
}

/** Reads the other events of a batch, in their order. One that was cancelled meanwhile is left out. */
export async function membersOf(engine: Engine, record: EventRecord): Promise<EventRecord[]> {
  const { group, batch } = record;
  if (!group || !batch || batch.last <= group.position) return [];
  return (await behindFirst(engine, record, batch.last)).flatMap(({ event }) =>
    event?.record ?? []
  );
}

/**
 * Reads the first event of the batch that another one belongs to.
 *
 * @param engine The engine.
 * @param record The record of the other one.
 * @returns The first event; undefined if the other one is in no batch, or is its first one.
 */
export async function firstOf(
  engine: Engine,
  { group, dueAt }: EventRecord,
): Promise<Stored | undefined> {
  if (!group || dueAt !== null) return undefined;
  const { members: [first] } = await engine.group(group.key, { from: 0, limit: 1 });
  const event = first?.event;
  return event?.record && group.position <= (event.record.batch?.last ?? -1) ? event : undefined;
}

/** Reads the events behind the first one of a group, up to a position; none if another event is the first one. */
async function behindFirst(
  engine: Engine,
  { group }: EventRecord,
  last: number,
): Promise<readonly GroupMember[]> {
  const { key, position } = group!;
  const { members: [first, ...behind] } = await engine.group(key, { from: 0, limit: MAX_BATCH });
  return first?.position === position ? behind.filter((each) => each.position <= last) : [];
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
function belongsTo(first: EventRecord, record: EventRecord): boolean {
  const { state, quiet, payload, type, action, platform } = record;
  const isOpen = state === "queued" && quiet !== undefined && payload !== null;
  // What is done of the first one's handling counts for all of them.
  const isAsFar = String(record.progress ?? []) === String(first.progress ?? []);
  // The results of steps are of one event alone.
  const hasSteps = (first.steps ?? []).length + (record.steps ?? []).length > 0;
  const isSame = type === first.type && action === first.action && platform === first.platform;
  return isOpen && isAsFar && !hasSteps && isSame;
}
