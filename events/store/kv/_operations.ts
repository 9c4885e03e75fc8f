import { Pool } from "../../../core/pool.ts";
import { firstOf } from "../_batches.ts";
import type { StoreCore } from "../_core.ts";
import { portableEntries, restoreEntry } from "../_portable_entries.ts";
import { listProcesses } from "../_processes.ts";
import { listStates } from "../_states.ts";
import type { BulkOptions, BulkResult, EventFilter, EventOperations } from "../event_operations.ts";
import { type EventRecord, type EventRef, isOpen } from "../event_record.ts";
import type { Lease } from "../event_store.ts";
import { isGroupPosition, isPayloadRef } from "../record_shape.ts";
import { cancelRequested, isCancelRequested } from "../record_notes.ts";
import { cancelled, cancelledAlone } from "../settlement.ts";
import { wakeOf } from "../waits.ts";
import { applyChange, leaseOf } from "./_apply.ts";
import { checkChoice, matches } from "../_filter.ts";
import { restoreEvent } from "./_import.ts";
import type { GroupIntake } from "./_group_intake.ts";
import { leaveGroup, repairGroups } from "./_ordering_groups.ts";
import type { StoreParts } from "./_parts.ts";
import { deleteChunks } from "./_payload.ts";
import { read } from "./_reads.ts";
import { knownOf, lookUp } from "./_layout.ts";
import { EventScan, type FoundEvent, type Way, Work } from "./_scan.ts";
import { answers, leavingName, wake } from "../_waits.ts";
import { untilDone, Write } from "./_write.ts";

/** The number of events that are changed at the same time: so many share a commit. */
const CONCURRENCY = 100;

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
): Omit<EventOperations, "list" | "get" | "stats"> {
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
    replay: (id) => replay(id),

    async replayAll(filter, options = {}) {
      checkChoice("replay events", filter, options);
      const work = new Work(options, filter.ids);
      const meant = replayableOf(filter);
      const found = scan.find(meant, work);
      if (options.dryRun) await changeEach(found, (each) => canBeReplayed(parts, each), work);
      else await replayEach(found, (id) => replay(id, (record) => matches(record, meant)), work);
      return work.result;
    },

    answers: (options) => answers(core, options),
    wake: async (name, value) => await wake(core, wakeOf(name, value)),
    states: (options) => listStates(core, options),
    processes: () => listProcesses(core),
    cancel: (id) => cancelEvent(parts, core, id),
    restore: (event) => restoreEvent(parts, core, joins, event),
    portableEntries: () => portableEntries(core),
    restoreEntry: (entry) => restoreEntry(core, entry),

    cancelAll(filter, options = {}) {
      return changeAll(
        "cancel events",
        filter,
        options,
        (found) => options.dryRun ? canBeCancelled(found) : cancelFound(parts, core, filter, found),
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
  core: StoreCore,
  id: string,
  filter: EventFilter = {},
): Promise<boolean> {
  return await untilDone(async () => {
    const known = await lookUp(parts.kv, parts.keys, id);
    const { record } = known;
    if (!record || !isOpen(record) || !matches(record, filter)) return false;
    return await tryToCancel(parts, core, leaseOf(known)) || undefined;
  });
}

/** Cancels an event that was found, if it is queued or runs, and was not cancelled before. */
async function cancelFound(
  parts: StoreParts,
  core: StoreCore,
  filter: EventFilter,
  found: FoundEvent,
): Promise<boolean> {
  const { event } = found;
  if (!canBeCancelled(found)) return false;
  return await tryToCancel(parts, core, leaseOf(knownOf(found))) ||
    await cancelEvent(parts, core, event.id, filter) || await isCancelledWithBatch(parts, event);
}

function canBeCancelled({ event }: FoundEvent): boolean {
  return isOpen(event) && !isCancelRequested(event);
}

/** Checks whether an event was cancelled meanwhile together with the first one of its batch. */
async function isCancelledWithBatch({ kv, keys }: StoreParts, { id }: EventRef): Promise<boolean> {
  const { record } = await lookUp(kv, keys, id);
  return record?.outcome === "cancelled" && record.handledWith !== undefined;
}

async function tryToCancel(
  parts: StoreParts,
  core: StoreCore,
  known: Lease,
): Promise<boolean> {
  const { record } = known;
  const now = Date.now();
  if (record.state === "queued") {
    const first = record.quiet && await firstOf(core.engine, record);
    if (!first) return await applyChange(parts, known, cancelled(record, now)) !== null;
    // It might note a part meanwhile, and that part would be this event's, too.
    const checks = [{ key: parts.keys.event(first.record), versionstamp: first.version }];
    const after = cancelledAlone(record, first.record, now);
    return await applyChange(parts, known, after, { checks }) !== null;
  }
  if (record.state === "parked") {
    const [name] = await leavingName(core, record);
    const after = cancelled(record, now);
    if (!name) return await applyChange(parts, known, after) !== null;
    const key = parts.keys.cell(name.key);
    const checks = [{ key, versionstamp: name.version! }];
    const add = (write: Write) => void write.delete(key);
    return await applyChange(parts, known, after, { checks, add }) !== null;
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
