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
 * is still the same. The latest one is never among them, because its payload is what the handler gets. If the
 * process dies in between, the rest is handled or dies by itself.
 *
 * An event of another type or action ends a batch, since it may have handlers of its own, unless both have the rule
 * `together` and the claimer says that the same handlers take both. So does an event with other progress, from an
 * earlier run, or with steps, and one that cannot be read. Another version of the code may have other handlers: it cuts
 * a batch that is tried again where they begin to differ, and the rest is the next batch.
 *
 * A run that newer events have interrupted has lost its batch, and the next claim makes another one: of the same events
 * and the newer ones (`_newer.ts`).
 *
 * @module
 */
import { batched, beginsBatch, waiting } from "./arrival.ts";
import type { Engine, GroupMember, Stored } from "./engine.ts";
import type { Batch, EventRecord } from "./event_record.ts";
import { hasBegun } from "./settlement.ts";

/** The number of events that are handled together, at most: they are settled in one commit. */
const MAX_BATCH = 100;

/** The number of bytes of the payloads of events that are handled together, at most. */
const MAX_PAYLOAD_BYTES = 8_000_000;

/** The number of events of a batch that are read anew to find what is behind them: that saves a read. */
const SMALL_BATCH = 10;

/** Lists the handlers that take an event: equal lists mean the same handlers. Undefined if that is not known. */
export type HandlersOf = ((event: EventRecord) => readonly unknown[]) | undefined;

/**
 * Determines the batch of the first event of a group, unless it has to wait. One that was determined before is cut if
 * the handlers of the claimer do not take it as a whole.
 *
 * @param engine The engine.
 * @param record The record of the first event. It is due.
 * @param now The time, milliseconds since the epoch.
 * @param handlersOf Lists the claimer's handlers of an event.
 * @returns The record with its batch, or with a later time at which it is due.
 */
export function readyBatch(
  engine: Engine,
  record: EventRecord,
  now: number,
  handlersOf: HandlersOf,
): EventRecord | Promise<EventRecord> {
  if (beginsBatch(record)) return beginBatch(engine, record, now, handlersOf);
  const { batch, quiet } = record;
  const mayBeMixed = handlersOf && quiet?.together && batch && batch.events > 1;
  return mayBeMixed ? cutBatch(engine, record, handlersOf) : record;
}

async function beginBatch(
  engine: Engine,
  record: EventRecord,
  now: number,
  handlersOf: HandlersOf,
): Promise<EventRecord> {
  const { key } = record.group!;
  const { next, joinedAt } = await engine.group(key, { from: 0, limit: 0 });
  const waitMs = waitOf(record, next, joinedAt, now);
  if (waitMs > 0) return waiting(record, waitMs, next, now);
  return batched(record, batchOf(await togetherWith(engine, record, next, handlersOf)));
}

/** Makes the note of a batch. */
function batchOf(events: readonly EventRecord[]): Batch {
  return { last: events.at(-1)!.group!.position, events: events.length };
}

/** Finds the events that make a batch with the first one of a group, up to a position. */
async function togetherWith(
  engine: Engine,
  first: EventRecord,
  last: number,
  handlersOf: HandlersOf,
): Promise<EventRecord[]> {
  const meant = [first];
  let bytes = first.payload?.size ?? 0;
  for (const { event } of await behindFirst(engine, first, last)) {
    const member = event?.record;
    if (!member || !belongsTo(first, member, handlersOf)) break;
    bytes += member.payload!.size;
    if (bytes > MAX_PAYLOAD_BYTES) break;
    meant.push(member);
  }
  return meant.slice(0, Math.max(1, engine.limits.together(meant)));
}

/**
 * Finds the events behind the batch of a leased one that the batch would have if it were made now.
 *
 * @param engine The engine.
 * @param record The record of the leased one.
 * @param handlersOf Lists the claimer's handlers of an event.
 * @returns Their records, and the batch with them; undefined if there are none. To find none takes one read.
 */
export async function joinedSince(
  engine: Engine,
  { steps: _, ...record }: EventRecord,
  handlersOf: HandlersOf,
): Promise<{ readonly newer: readonly EventRecord[]; readonly batch: Batch } | undefined> {
  const { key, position } = record.group!;
  const last = record.batch?.last ?? position;
  if (record.batch && record.batch.events > SMALL_BATCH) {
    const behind = { from: last + 1, limit: 1, onlyPositions: true };
    if ((await engine.group(key, behind)).members.length === 0) return undefined;
  }
  const events = await togetherWith(engine, record, Infinity, handlersOf);
  const newer = events.filter(({ group }) => group!.position > last);
  return newer.length === 0 ? undefined : { newer, batch: batchOf(events) };
}

/** Cuts a batch before the first event that other handlers take than the first one. */
async function cutBatch(
  engine: Engine,
  record: EventRecord,
  handlersOf: NonNullable<HandlersOf>,
): Promise<EventRecord> {
  const own = handlersOf(record);
  // Without a handler here, what has begun is put off or given up, and never ignored: it stays as it is.
  const isMeant = own.length > 0 || hasBegun(record) || record.state === "running";
  const kept = [record];
  for (const member of await membersOf(engine, record)) {
    const isKept = isSameName(record, member) || (isMeant && isSame(own, handlersOf(member)));
    if (!isKept) {
      return batched(record, { last: kept.at(-1)!.group!.position, events: kept.length });
    }
    kept.push(member);
  }
  return record;
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
function belongsTo(first: EventRecord, record: EventRecord, handlersOf: HandlersOf): boolean {
  const { state, quiet, payload, platform, dueAt } = record;
  // One that is due has a place of its own.
  const isOpen = state === "queued" && dueAt === null && quiet !== undefined && payload !== null;
  // What is done of the first one's handling counts for all of them.
  const isAsFar = String(record.progress ?? []) === String(first.progress ?? []);
  // The results of steps are of one event alone, unless they are what its interrupted run has left.
  const left = first.interrupted || first.newer?.mode === "steer" ? [] : first.steps ?? [];
  const hasSteps = left.length + (record.steps ?? []).length > 0;
  if (!isOpen || !isAsFar || hasSteps || platform !== first.platform) return false;
  return isSameName(first, record) || takesBoth(first, record, handlersOf);
}

function isSameName(first: EventRecord, { type, action }: EventRecord): boolean {
  return type === first.type && action === first.action;
}

/** Checks whether two events with different names are handled by one call: both ask for it, and their handlers allow it. */
function takesBoth(first: EventRecord, record: EventRecord, handlersOf: HandlersOf): boolean {
  if (!handlersOf || !first.quiet?.together || !record.quiet!.together) return false;
  const handlers = handlersOf(first);
  // Without a handler here each is ignored, or left to another version, by its own name.
  return handlers.length > 0 && isSame(handlers, handlersOf(record));
}

function isSame(handlers: readonly unknown[], others: readonly unknown[]): boolean {
  return handlers.length === others.length && handlers.every((each, i) => each === others[i]);
}
