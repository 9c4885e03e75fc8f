import type { BoundedCount, Counts } from "../engine.ts";
import { type EventRef, isOpen, type OpenState } from "../event_record.ts";
import { type KvParts, readEvents, refOf } from "./_layout.ts";
import { sizeOfGroup } from "./_ordering_groups.ts";
import { list } from "./_reads.ts";
import { isShared, readableEntry } from "./_schedule.ts";

/** The number of entries read at a time. */
const BATCH_SIZE = 500;

/** The number of records read at a time. */
const RECORDS = 100;

/** The lease that nearly no worker exceeds, in milliseconds: the leases of running events end within it. */
const MAX_LEASE_MS = 3_600_000;

/** The numbers of open events. */
type OpenCounts = Omit<Counts, "dead">;

/**
 * Counts events by their indexes.
 *
 * @param parts The store.
 * @param max The largest number that is counted, of events of a state and of entries read.
 * @param signal Ends the counting of open events.
 * @returns The numbers.
 */
export async function countEvents(
  parts: KvParts,
  max: number,
  signal?: AbortSignal,
): Promise<Counts> {
  const open = await new OpenCounter(parts, max, signal).count();
  return { ...open, dead: await countKeys(parts.kv, parts.keys.deadIndex, max) };
}

/** Counts keys, up to a largest number. */
async function countKeys(
  kv: Deno.Kv,
  selector: Deno.KvListSelector,
  max: number,
): Promise<BoundedCount> {
  let count = 0;
  for await (const _ of list(kv, selector, { batchSize: Math.min(max + 1, BATCH_SIZE) })) {
    if (++count > max) break;
  }
  return bounded(count, max);
}

function bounded(count: number, max: number, isMore = false): BoundedCount {
  return { count: Math.min(count, max), isMore: isMore || count > max };
}

/**
 * A count of open events by the schedule and the ordering groups. Records are read only of events that share a
 * schedule entry, or have two.
 */
class OpenCounter {
  readonly #parts: KvParts;
  readonly #max: number;
  readonly #signal: AbortSignal | undefined;
  /** The states of the events that the schedule names. */
  readonly #states = new Map<string, OpenState>();
  /** The events whose records are read. */
  #unknown: EventRef[] = [];
  #inGroups = 0;
  #oldestDueAt: number | null = null;

  constructor(parts: KvParts, max: number, signal: AbortSignal | undefined) {
    this.#parts = parts;
    this.#max = max;
    this.#signal = signal;
  }

  async count(): Promise<OpenCounts> {
    const now = Date.now();
    const groupsAreMore = await this.#countGroups();
    let cutAt = await this.#walk(0, now);
    const isDueMore = cutAt !== undefined && cutAt <= now;
    // There may be more due events than are counted, so that the running ones are not reached.
    if (isDueMore) cutAt = await this.#walk(now + 1, now);
    await this.#readUnknown();
    const counts = { queued: this.#inGroups, running: 0, parked: 0 };
    for (const state of this.#states.values()) {
      counts[state]++;
    }
    const max = this.#max;
    const isMoreLater = cutAt !== undefined;
    return {
      queued: bounded(counts.queued, max, groupsAreMore || isDueMore || isMoreLater),
      running: bounded(counts.running, max, isMoreLater && cutAt! < now + MAX_LEASE_MS),
      parked: bounded(counts.parked, max, isMoreLater),
      oldestDueAt: this.#oldestDueAt,
    };
  }

  /** Counts those that wait behind the first one of their group. Returns true if there may be more. */
  async #countGroups(): Promise<boolean> {
    let count = 0;
    const { kv, keys } = this.#parts;
    for await (const { value } of list(kv, keys.orderingGroups, { batchSize: BATCH_SIZE })) {
      if (this.#isEnded || count++ >= this.#max || this.#inGroups > this.#max) return true;
      this.#inGroups += Math.max(0, sizeOfGroup(value) - 1);
    }
    return false;
  }

  /** Walks the schedule, for as many that are due as for those that are not. Returns the time at which it was cut. */
  async #walk(from: number, now: number): Promise<number | undefined> {
    let [left, isLater] = [this.#max, from > now];
    const { kv, keys } = this.#parts;
    const selector = keys.dueBetween(from, Infinity);
    for await (const entry of list(kv, selector, { batchSize: BATCH_SIZE })) {
      const { receivedAt: dueAt, id } = refOf(entry.key);
      if (!isLater && dueAt > now) [left, isLater] = [this.#max, true];
      if (this.#isEnded || left <= 0) return dueAt;
      const due = readableEntry(entry);
      if (!due) continue;
      if (!isLater) this.#oldestDueAt ??= dueAt;
      const { value } = due;
      left -= isShared(value) ? value.events.length : 1;
      if (isShared(value)) this.#unknown.push(...value.events);
      // A parked event that was woken has two entries.
      else if (this.#states.has(id)) this.#unknown.push({ ...value, id });
      else this.#states.set(id, value.state ?? "queued");
      if (this.#unknown.length >= BATCH_SIZE) await this.#readUnknown();
    }
    return undefined;
  }

  async #readUnknown(): Promise<void> {
    const refs = this.#unknown;
    this.#unknown = [];
    for (let i = 0; i < refs.length && !this.#isEnded; i += RECORDS) {
      for (const event of await readEvents(this.#parts, refs.slice(i, i + RECORDS))) {
        const record = event?.record;
        if (record && isOpen(record)) this.#states.set(record.id, record.state);
      }
    }
  }

  get #isEnded(): boolean {
    return this.#signal?.aborted ?? false;
  }
}
