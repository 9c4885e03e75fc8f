import { checkInteger, checkObject, met } from "../../../core/check_options.ts";
import { Pool } from "../../../core/pool.ts";
import type { StoreCore } from "../_core.ts";
import { portableEntries, restoreEntry } from "../_portable_entries.ts";
import { listProcesses } from "../_processes.ts";
import { listStates } from "../_states.ts";
import type {
  BulkOptions,
  BulkResult,
  EventFilter,
  EventList,
  EventOperations,
  ListOptions,
} from "../event_operations.ts";
import { type EventRecord, type EventRef, isOpen, type StoredEvent } from "../event_record.ts";
import type { Lease } from "../event_store.ts";
import { isGroupPosition, isPayloadRef } from "../record_shape.ts";
import { cancelRequested, isCancelRequested } from "../record_notes.ts";
import { cancelled, cancelledAlone } from "../settlement.ts";
import { wakeOf } from "../waits.ts";
import { applyChange, leaseOf } from "./_apply.ts";
import { firstOf } from "./_batches.ts";
import { checkChoice, checkFilter, matches } from "./_filter.ts";
import { restoreEvent } from "./_import.ts";
import type { GroupIntake } from "./_group_intake.ts";
import { leaveGroup, repairGroups } from "./_ordering_groups.ts";
import type { StoreParts } from "./_parts.ts";
import { deleteChunks } from "./_payload.ts";
import { read } from "./_reads.ts";
import { knownOf, lookUp } from "./_layout.ts";
import { placeIn, textOfPlace } from "./_open_events.ts";
import { EventScan, type FoundEvent, type Place, Reads, type Way, Work } from "./_scan.ts";
import { answers, leavingName, portableWaits, wake } from "./_waits.ts";
import { untilDone, Write } from "./_write.ts";

/** The number of events that are changed at the same time: so many share a commit. */
const CONCURRENCY = 100;

const LISTING = "list the events";

/** Changes an event that was found; false if it is not meant, or not any more. */
type ChangeFound = (found: FoundEvent) => boolean | Promise<boolean>;

/** Puts a settled event back, if it is still meant. */
type Replay = (id: string, isMeant?: (record: EventRecord) => boolean) => Promise<boolean>;

/** Makes the operations of somebody who runs a store. */
export function storeOperations(
  parts: StoreParts,
  core: StoreCore,
  joins: GroupIntake,
  replay: Replay,
): EventOperations {
  const { kv, keys } = parts;
  const waits = portableWaits(parts);
  const scan = new EventScan(parts);

  async function changeAll(
    doing: string,
    filter: EventFilter,
    options: BulkOptions,
    change: ChangeFound,
    way?: Way,
  ): Promise<BulkResult> {
    checkChoice(doing, filter, options);
    const work = new Work(options, filter.ids);
    await changeEach(scan.find(filter, work, way), change, work);
    return work.result;
  }

  return {
    list: ((options = {}) => listEvents(scan, options)) as EventOperations["list"],
    replay: (id) => replay(id),

    async get(id) {
      const { record, versionstamp } = await lookUp(kv, keys, id);
      if (record || versionstamp === null) return record ?? null;
      throw new Error(
        `Cannot read the record of event ${id}: another version wrote it, or it is damaged`,
      );
    },

    async stats(filter = {}, options = {}) {
      checkChoice("count the events", filter, options);
      const counts = { queued: 0, running: 0, parked: 0, done: 0, dead: 0, unreadable: 0 };
      let oldestWaitingAt: number | null = null;
      let dueLater = 0;
      for await (const { event } of scan.find(filter, new Work(options))) {
        counts[event.state]++;
        if (event.state !== "queued") continue;
        if ((event.dueAt ?? 0) > Date.now()) dueLater++;
        else oldestWaitingAt = Math.min(oldestWaitingAt ?? Infinity, waitsSince(event));
      }
      return { ...counts, dueLater, oldestWaitingAt };
    },

    async replayAll(filter, options = {}) {
      checkChoice("replay events", filter, options);
      const work = new Work(options, filter.ids);
      const meant = replayableOf(filter);
      const found = scan.find(meant, work);
      if (options.dryRun) await changeEach(found, (each) => canBeReplayed(parts, each), work);
      else await replayEach(found, (id) => replay(id, (record) => matches(record, meant)), work);
      return work.result;
    },

    answers: (options) => answers(parts, options),
    wake: async (name, value) => await wake(parts, wakeOf(name, value)),
    states: (options) => listStates(core, options),
    processes: () => listProcesses(core),
    cancel: (id) => cancelEvent(parts, id),
    restore: (event) => restoreEvent(parts, joins, event),
    portableEntries: () => portableEntries(core, waits),
    restoreEntry: (entry) => restoreEntry(core, waits, entry),

    cancelAll(filter, options = {}) {
      return changeAll(
        "cancel events",
        filter,
        options,
        (found) => options.dryRun ? canBeCancelled(found) : cancelFound(parts, filter, found),
        { onlyOpen: true },
      );
    },

    async purge(filter, options = {}) {
      const change: ChangeFound = (found) =>
        options.dryRun ? canBePurged(filter, found) : purgeFound(parts, filter, found);
      const result = await changeAll("purge events", filter, options, change);
      // Their positions are not known, and the groups that they have held go on.
      const mayHaveHeld = filter.state === "unreadable" && result.changed > 0 && !options.dryRun;
      if (mayHaveHeld && await repairGroups(parts) > 0) parts.local.listener?.wake();
      return result;
    },
  };
}

function listEvents(scan: EventScan, options: ListOptions): EventList {
  checkObject(LISTING, options);
  checkFilter(LISTING, options, ["order", "limit", "maxReads", "maxMs", "cursor"]);
  const { order = "oldest", limit = Infinity, maxReads = Infinity, maxMs = Infinity, cursor } =
    options;
  for (const [name, value] of Object.entries({ limit, maxReads, maxMs })) {
    if (value !== Infinity) checkInteger(LISTING, name, value, { max: Number.MAX_SAFE_INTEGER });
  }
  if (order !== "oldest" && order !== "newest") {
    throw new TypeError(
      `Cannot ${LISTING}: 'order' must be "oldest" or "newest", got ${met(order)}`,
    );
  }
  const reads = new Reads(maxReads, maxMs);
  const way = { isNewestFirst: order === "newest", after: placeAt(cursor), reads };
  return new EventPage(scan.find(options, undefined, way), limit, reads, cursor || undefined);
}

const END: IteratorReturnResult<undefined> = { done: true, value: undefined };

/** The events of one list, and the place where another one can continue it. */
class EventPage implements EventList {
  cursor: string | undefined;
  readonly #found: AsyncGenerator<FoundEvent>;
  readonly #reads: Reads;
  #left: number;
  #isEnded = false;

  constructor(
    found: AsyncGenerator<FoundEvent>,
    limit: number,
    reads: Reads,
    cursor: string | undefined,
  ) {
    this.cursor = cursor;
    this.#found = found;
    this.#reads = reads;
    this.#left = limit;
  }

  get reachedAt(): number | undefined {
    const { last } = this.#reads;
    return last && "id" in last ? last.receivedAt : undefined;
  }

  async next(): Promise<IteratorResult<StoredEvent, undefined>> {
    if (this.#isEnded) return END;
    const { done, value } = await this.#found.next().catch((error) => {
      // The list is not at its end: its cursor stays.
      this.#isEnded = true;
      throw error;
    });
    // Behind the last event of a full page, one more tells whether there are any.
    if (done) this.cursor = this.#reads.isCut ? cursorAt(this.#reads.last) : undefined;
    if (done || this.#left-- <= 0) return await this.return();
    const { event, place } = value;
    this.cursor = cursorAt(place);
    return { done: false, value: event };
  }

  async return(): Promise<IteratorReturnResult<undefined>> {
    this.#isEnded = true;
    await this.#found.return(undefined);
    return END;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** Makes the cursor of a list that continues behind a place. */
function cursorAt(place: Place | undefined): string | undefined {
  if (!place) return undefined;
  return "id" in place ? `${place.receivedAt}:${place.id}` : textOfPlace(place);
}

/** Reads a cursor: an event that it names may be gone. */
function placeAt(cursor: unknown): Place | undefined {
  if (cursor === undefined || cursor === "") return undefined;
  const [, time, id] = /^(-?\d{1,16}(?:\.\d{1,16})?):(.*)$/s.exec(String(cursor)) ?? [];
  if (typeof cursor === "string" && id !== undefined) return { id, receivedAt: Number(time) };
  const place = typeof cursor === "string" ? placeIn(cursor) : undefined;
  if (place) return place;
  throw new TypeError(
    `Cannot ${LISTING}: 'cursor' must be the cursor of another list, got ${met(cursor)}`,
  );
}

/** Finds the time since which a queued event waits that is due: planned waits do not count. */
function waitsSince({ receivedAt, plannedMs = 0, quiet }: EventRecord): number {
  return Math.min(receivedAt + plannedMs + (quiet?.waitedMs ?? 0), Date.now());
}

/** Changes events until the work is ended. Throws what a change throws, once those beside it are done. */
async function changeEach(
  events: AsyncIterable<FoundEvent>,
  change: ChangeFound,
  work: Work,
): Promise<void> {
  const pool = new Pool(CONCURRENCY);
  try {
    for await (const found of events) {
      await pool.add(async () => {
        if (!work.ended && await change(found)) work.hasChanged([found.event.id]);
      });
    }
  } finally {
    await pool.done();
  }
}

/** Makes the filter of events that are to be put back: what a person has cancelled has to be named. */
function replayableOf(filter: EventFilter): EventFilter {
  const { state = "dead", outcome, ids } = filter;
  const isAnyDead = state === "dead" && outcome === undefined && ids === undefined;
  return { ...filter, state, ...(isAnyDead && { outcome: "failed" }) };
}

async function canBeReplayed({ kept }: StoreParts, { event }: FoundEvent): Promise<boolean> {
  if (event.state === "done") return await kept.has(event);
  return event.state === "dead" && event.payload !== null;
}

/**
 * Puts settled events back. Those with an ordering key come after the others, in the order in which they
 * were received, because they join their ordering groups in that order.
 */
async function replayEach(
  events: AsyncIterable<FoundEvent>,
  replay: Replay,
  work: Work,
): Promise<void> {
  const groups = new Map<string, { readonly id: string; readonly receivedAt: number }[]>();
  const change = async ({ event }: FoundEvent) => {
    if (event.state !== "done" && (event.state !== "dead" || !event.payload)) return false;
    const { id, orderingKey, receivedAt } = event;
    if (orderingKey === null) return await replay(id);
    const group = groups.get(orderingKey);
    if (group) group.push({ id, receivedAt });
    else groups.set(orderingKey, [{ id, receivedAt }]);
    return false;
  };
  await changeEach(events, change, work);
  const pool = new Pool(CONCURRENCY);
  for (const group of groups.values()) {
    await pool.add(async () => {
      for (const { id } of group.sort((a, b) => a.receivedAt - b.receivedAt)) {
        if (work.ended) return;
        if (await replay(id)) work.hasChanged([id]);
      }
    });
  }
  await pool.done();
}

/** Cancels a queued event, or flags a running one, as long as it matches a filter. */
async function cancelEvent(
  parts: StoreParts,
  id: string,
  filter: EventFilter = {},
): Promise<boolean> {
  return await untilDone(async () => {
    const known = await lookUp(parts.kv, parts.keys, id);
    const { record } = known;
    if (!record || !isOpen(record) || !matches(record, filter)) return false;
    return await tryToCancel(parts, leaseOf(known)) || undefined;
  });
}

/** Cancels an event that was found, if it is queued or runs, and was not cancelled before. */
async function cancelFound(
  parts: StoreParts,
  filter: EventFilter,
  found: FoundEvent,
): Promise<boolean> {
  const { event } = found;
  if (!canBeCancelled(found)) return false;
  return await tryToCancel(parts, leaseOf(knownOf(found))) ||
    await cancelEvent(parts, event.id, filter) || await isCancelledWithBatch(parts, event);
}

function canBeCancelled({ event }: FoundEvent): boolean {
  return isOpen(event) && !isCancelRequested(event);
}

/** Checks whether an event was cancelled meanwhile together with the first one of its batch. */
async function isCancelledWithBatch({ kv, keys }: StoreParts, { id }: EventRef): Promise<boolean> {
  const { record } = await lookUp(kv, keys, id);
  return record?.outcome === "cancelled" && record.handledWith !== undefined;
}

async function tryToCancel(parts: StoreParts, known: Lease): Promise<boolean> {
  const { record } = known;
  const now = Date.now();
  if (record.state === "queued") {
    const first = record.quiet && await firstOf(parts, record);
    if (!first) return await applyChange(parts, known, cancelled(record, now)) !== null;
    // It might note a part meanwhile, and that part would be this event's, too.
    const { versionstamp } = first;
    const checks = [{ key: parts.keys.event(first.record), versionstamp }];
    const after = cancelledAlone(record, first.record, now);
    return await applyChange(parts, known, after, { checks }) !== null;
  }
  if (record.state === "parked") {
    const options = await leavingName(parts, record);
    return await applyChange(parts, known, cancelled(record, now), options) !== null;
  }
  const isFlagged = isCancelRequested(record);
  if (!isFlagged && !await applyChange(parts, known, cancelRequested(record, now))) return false;
  // Again if it was flagged before: by another process, or in a commit whose answer was lost.
  for (const listener of parts.listeners) listener.onCancelRequested?.(record.id);
  return true;
}

/** Checks whether an event is settled, or unreadable and meant as such. */
function canBePurged(filter: EventFilter, { event }: FoundEvent): boolean {
  return !isOpen(event) && (event.state !== "unreadable" || filter.state === "unreadable");
}

/** Deletes an event with its payload. */
async function purgeFound(
  parts: StoreParts,
  filter: EventFilter,
  found: FoundEvent,
): Promise<boolean> {
  if (!canBePurged(filter, found)) return false;
  // Again if only its kept payload was dropped meanwhile.
  return await tryToPurge(parts, found) ||
    (found.event.state === "done" && await tryToPurge(parts, found));
}

async function tryToPurge(parts: StoreParts, found: FoundEvent): Promise<boolean> {
  const { event, event: { state } } = found;
  const { key, versionstamp } = found;
  const write = new Write().check({ key, versionstamp }).delete(key);
  if (event.state === "done") await parts.kept.drop(write, event);
  else write.delete(parts.keys.dead(event));
  const id = await read(parts.kv, parts.keys.id(event.id));
  // The id may be another event's by now, if its entry had expired.
  if (id.value === key.at(-2)) write.check(id).delete(id.key);
  const { payload, group } = Object(found.value);
  if (isPayloadRef(payload)) deleteChunks(write, parts.keys, payload);
  if (state === "unreadable" && isGroupPosition(group)) {
    await leaveGroup(parts, write, group, event.id);
  }
  return await parts.commits.commit(write) !== null;
}
