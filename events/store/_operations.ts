/**
 * The operations of somebody who runs a store, also while apps use it: counts, and changes of many events. Each
 * event is changed by a change of its own, if it is still as it was found.
 *
 * @module
 */
import { Pool } from "../../core/pool.ts";
import { untilDone } from "../../core/tries.ts";
import type { Acceptance } from "./_acceptance.ts";
import { firstOf } from "./_batches.ts";
import type { KeptPayloads } from "./_kept_payloads.ts";
import { checkChoice, find, type FoundEvent, listEvents, matches } from "./_lists.ts";
import { countCancelled, NEXT_IS_DUE, settle, type SettleOptions } from "./_settlement.ts";
import { deleteResults, forgetStep, listSteps, resultsToDelete, setStep } from "./_steps.ts";
import { leavingName } from "./_waits.ts";
import { checkBoolean, checkOptions, checkString } from "../../core/check_options.ts";
import type { Engine, Scan, Stored, Visit } from "./engine.ts";
import { type EventFilter, type EventRecord, isOpen } from "./event_record.ts";
import type { BulkOptions, BulkResult, EventOperations } from "./event_store.ts";
import {
  cancelled,
  cancelledAlone,
  cancelRequested,
  intervened,
  isCancelRequested,
} from "./settlement.ts";
import { findEvent, type StoreCore } from "./store_core.ts";

/** The number of events that are changed at the same time: so many share a commit. */
const CONCURRENCY = 100;

/** Changes an event that was found; false if it is not meant, or not any more. */
type ChangeFound = (found: FoundEvent) => boolean | Promise<boolean>;

/** Puts a settled event back, if it is still meant. */
type Replay = Acceptance["replay"];

/**
 * Makes the operations on the events of a store.
 *
 * @param core The store.
 * @param kept The payloads that it keeps.
 * @param replay Puts an event back.
 * @returns The operations.
 */
export function eventOperations(core: StoreCore, kept: KeptPayloads, replay: Replay) {
  const { engine } = core;

  async function changeAll(
    doing: string,
    filter: EventFilter,
    options: BulkOptions,
    change: ChangeFound,
    way?: Partial<Scan>,
  ): Promise<BulkResult> {
    checkChoice(doing, filter, options);
    const work = new Work(options, filter.ids);
    await changeEach(find(engine, filter, work, way), change, work);
    return work.result;
  }

  return {
    list: ((options = {}) => listEvents(engine, options)) as EventOperations["list"],
    async replay(id, options = {}) {
      checkOptions("replay the event", options, { fresh: checkBoolean, by: checkString });
      return await replay(id, options);
    },

    steps: (id) => listSteps(core, id),
    forgetStep: (id, name, { by } = {}) => forgetStep(core, id, name, by),
    setStep: (id, name, result, { by } = {}) => setStep(core, id, name, result, by),

    async get(id) {
      const found = await findEvent(engine, id);
      if (!found || found.record) return found?.record ?? null;
      throw new Error(
        `Cannot read the record of event ${id}: another version wrote it, or it is damaged`,
      );
    },

    async stats(filter = {}, options = {}) {
      checkChoice("count the events", filter, options);
      const counts = { queued: 0, running: 0, parked: 0, done: 0, dead: 0, unreadable: 0 };
      let oldestWaitingAt: number | null = null;
      let dueLater = 0;
      for await (const { event } of find(engine, filter, new Work(options))) {
        counts[event.state]++;
        if (event.state !== "queued") continue;
        const now = engine.now();
        if ((event.dueAt ?? 0) > now) dueLater++;
        else oldestWaitingAt = Math.min(oldestWaitingAt ?? Infinity, waitsSince(event, now));
      }
      return { ...counts, dueLater, oldestWaitingAt };
    },

    async replayAll(filter, { fresh, by, ...options } = {}) {
      checkOptions("replay events", { fresh, by }, { fresh: checkBoolean, by: checkString });
      checkChoice("replay events", filter, options);
      const work = new Work(options, filter.ids);
      const meant = replayableOf(filter);
      const found = find(engine, meant, work);
      const isMeant = (record: EventRecord) => matches(record, meant);
      const choice = { fresh, by, isMeant };
      if (options.dryRun) await changeEach(found, (each) => canBeReplayed(kept, each), work);
      else await replayEach(found, (id) => replay(id, choice), work);
      return work.result;
    },

    cancel: (id, { by } = {}) => cancelEvent(core, id, {}, by),

    async cancelAll(filter, { by, ...options } = {}) {
      checkOptions("cancel events", { by }, { by: checkString });
      const change: ChangeFound = (found) =>
        options.dryRun ? canBeCancelled(found) : cancelFound(core, filter, found, by);
      return await changeAll("cancel events", filter, options, change, { onlyOpen: true });
    },

    async purge(filter, options = {}) {
      const change: ChangeFound = (found) =>
        options.dryRun ? canBePurged(filter, found) : purgeFound(core, kept, filter, found);
      const result = await changeAll("purge events", filter, options, change);
      // Their positions are not known, and the groups that they have held go on.
      const mayHaveHeld = filter.state === "unreadable" && result.changed > 0 && !options.dryRun;
      if (mayHaveHeld) await engine.tidy({ groups: true });
      return result;
    },
  } satisfies Partial<EventOperations>;
}

/** Finds the time since which a queued event waits that is due: planned waits do not count. */
function waitsSince({ receivedAt, plannedMs = 0, quiet }: EventRecord, now: number): number {
  return Math.min(receivedAt + plannedMs + (quiet?.waitedMs ?? 0), now);
}

/** The progress of an operation on many events. */
class Work {
  readonly #options: BulkOptions;
  readonly #left: Set<string>;
  #seen = 0;
  #changed = 0;

  /** @param ids The ids of the filter, of which the result names the unchanged ones. */
  constructor(options: BulkOptions = {}, ids: readonly string[] = []) {
    this.#options = options;
    this.#left = new Set(ids);
  }

  /** True once it is to end. */
  get ended(): boolean {
    return this.#options.signal?.aborted ?? false;
  }

  /** The result so far. */
  get result(): BulkResult {
    return { changed: this.#changed, left: [...this.#left] };
  }

  /** Counts an event that was read; false once the work is to end. */
  add({ event }: Visit): boolean {
    if (this.ended) return false;
    if (event) {
      this.#seen++;
      this.#report();
    }
    return true;
  }

  /** Counts an event that was changed. */
  hasChanged(id: string): void {
    this.#left.delete(id);
    this.#changed++;
    this.#report();
  }

  #report(): void {
    this.#options.onProgress?.({ seen: this.#seen, changed: this.#changed });
  }
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
        if (!work.ended && await change(found)) work.hasChanged(found.event.id);
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

async function canBeReplayed(kept: KeptPayloads, { event }: FoundEvent): Promise<boolean> {
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
        if (await replay(id)) work.hasChanged(id);
      }
    });
  }
  await pool.done();
}

/** Cancels a queued event, or flags a running one, as long as it matches a filter. */
async function cancelEvent(
  core: StoreCore,
  id: string,
  filter: EventFilter = {},
  by?: string,
): Promise<boolean> {
  return await untilDone(async () => {
    const found = await findEvent(core.engine, id);
    if (!found?.record || !isOpen(found.record) || !matches(found.record, filter)) return false;
    return await tryToCancel(core, found, by) || undefined;
  });
}

/** Cancels an event that was found, if it is queued or runs, and was not cancelled before. */
async function cancelFound(
  core: StoreCore,
  filter: EventFilter,
  found: FoundEvent,
  by?: string,
): Promise<boolean> {
  const { stored, event: { id } } = found;
  if (!stored.record || !canBeCancelled(found)) return false;
  return await tryToCancel(core, stored, by) || await cancelEvent(core, id, filter, by) ||
    await isCancelledWithBatch(core, id);
}

function canBeCancelled({ event }: FoundEvent): boolean {
  return isOpen(event) && !isCancelRequested(event);
}

/** Checks whether an event was cancelled meanwhile together with the first one of its batch. */
async function isCancelledWithBatch({ engine }: StoreCore, id: string): Promise<boolean> {
  const [found] = await engine.get([id]);
  return found?.record?.outcome === "cancelled" && found.record.handledWith !== undefined;
}

/** Tries once; false if the event has changed meanwhile, or something else on which the change depends. */
async function tryToCancel(core: StoreCore, event: Stored, by?: string): Promise<boolean> {
  const { record: before } = event;
  const now = core.engine.now();
  const isFlagged = isCancelRequested(before);
  const record = isFlagged ? before : intervened(before, { is: "cancelled", at: now, by });
  if (record.state === "queued") {
    const first = record.quiet && await firstOf(core.engine, record);
    if (!first) return await settleAsCancelled(core, event, cancelled(record, now));
    // It might note a part meanwhile, and that part would be this event's, too.
    const after = cancelledAlone(record, first.record, now);
    return await settleAsCancelled(core, event, after, { unchanged: [first] });
  }
  if (record.state === "parked") {
    const cells = await leavingName(core, record);
    return await settleAsCancelled(core, event, cancelled(record, now), { cells });
  }
  if (!isFlagged && !await settle(core, event, cancelRequested(record, now))) return false;
  // Again if it was flagged before: by another process, or in a change whose answer was lost.
  for (const listener of core.listeners) listener.onCancelRequested?.(record.id);
  return true;
}

/** Settles an event that waits as cancelled, and counts it: no attempt of it ends by that. */
async function settleAsCancelled(
  core: StoreCore,
  event: Stored,
  after: EventRecord,
  options?: SettleOptions,
): Promise<boolean> {
  const isDone = Boolean(await settle(core, event, after, options));
  if (isDone) countCancelled(core, event.record);
  return isDone;
}

/** Checks whether an event is settled, or unreadable and meant as such. */
function canBePurged(filter: EventFilter, { event }: FoundEvent): boolean {
  return !isOpen(event) && (event.state !== "unreadable" || filter.state === "unreadable");
}

/** Deletes an event with its payload. */
async function purgeFound(
  core: StoreCore,
  kept: KeptPayloads,
  filter: EventFilter,
  found: FoundEvent,
): Promise<boolean> {
  if (!canBePurged(filter, found)) return false;
  // Again if only its kept payload was dropped meanwhile.
  const isPurged = await tryToPurge(core.engine, kept, found) ||
    (found.event.state === "done" && await tryToPurge(core.engine, kept, found));
  const { record } = found.stored;
  if (isPurged && record && !resultsToDelete(record)) await deleteResults(core, record);
  return isPurged;
}

async function tryToPurge(
  engine: Engine,
  kept: KeptPayloads,
  { stored, event }: FoundEvent,
): Promise<boolean> {
  const dropped = event.state === "done" ? await kept.drop(event) : undefined;
  const puts = [{ before: stored, after: null }];
  const results = stored.record && resultsToDelete(stored.record);
  const cells = results ? [...dropped?.cells ?? [], ...results] : dropped?.cells;
  // One that cannot be read may be in a group.
  const change = { ...dropped, puts, cells, leave: NEXT_IS_DUE, urgency: "work" } as const;
  return (await engine.apply(change)).ok;
}
