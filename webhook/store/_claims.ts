import { writeLog } from "../../middleware/mod.ts";
import { type Change, changeRecord } from "./_changes.ts";
import { Draft } from "./_draft.ts";
import type { StoreKeys } from "./_keys.ts";
import { Lanes, POSTPONE_MS } from "./_lanes.ts";
import { readSmallPayloads } from "./_payload.ts";
import { readAll, type ReadKeys, readNear } from "./_reads.ts";
import { type DueEntry, isShared, Schedule, setEntry } from "./_schedule.ts";
import {
  type EventRecord,
  type EventRef,
  type Known,
  knownOf,
  type LanePlace,
  withError,
} from "./event_record.ts";
import type { StoreParts } from "./_parts.ts";
import type { ClaimOptions, Lease } from "./event_store.ts";

/** How many events are looked at together. */
const BATCH_SIZE = 100;

/** What stands for an attempt whose worker neither settled its event nor renewed its lease. */
const LEASE_EXPIRED = "Lease expired: the process died, was frozen, or lost the KV";

/** An event that the schedule names. */
interface Due extends EventRef {
  /** The entry that names it. */
  readonly entry: DueEntry;
  /** Its place in its lane. */
  readonly lane: LanePlace | null;
  /** Whether the entry is that of others as well. */
  readonly isShared: boolean;
}

/** Takes events off the schedule: those that are due are leased, and misplaced ones put right. */
export class Claims {
  readonly #parts: StoreParts;
  readonly #kv: Deno.Kv;
  readonly #keys: StoreKeys;
  readonly #lanes: Lanes;
  readonly #schedule: Schedule;

  constructor(parts: StoreParts) {
    this.#parts = parts;
    this.#kv = parts.kv;
    this.#keys = parts.keys;
    this.#lanes = new Lanes(this.#kv, this.#keys);
    this.#schedule = new Schedule(parts);
  }

  /** When the event that has been due the longest was due; null if none is. */
  oldestDueAt(): Promise<number | null> {
    return this.#schedule.first(Date.now());
  }

  /** Leases events that are due. */
  async claim(options: ClaimOptions): Promise<Lease[]> {
    const { limit } = options;
    const leases: Lease[] = [];
    let page: Due[] = [];
    const take = async () => {
      leases.push(...await this.#leaseAll(page, options));
      page = [];
    };
    // Beyond the first entries too: another worker may have been faster with those.
    for await (const entry of this.#schedule.until(Date.now())) {
      if (isShared(entry.value)) {
        await take();
        leases.push(...await this.#leaseGroup(entry, limit - leases.length, options));
      } else if (page.push(...dueOf(entry)) === limit - leases.length) await take();
      if (leases.length >= limit) return leases;
    }
    await take();
    return leases;
  }

  /** Takes over what is left of a group: nobody has settled it, nor renewed its lease. */
  async #leaseGroup(entry: DueEntry, limit: number, options: ClaimOptions): Promise<Lease[]> {
    const events = dueOf(entry);
    const known = await this.#read(events);
    const left = events.filter((_, i) => isOf(entry, known[i]!));
    const leases = await this.#leaseAll(left.slice(0, limit), options);
    if (leases.length < left.length) return leases;
    const draft = new Draft().check(entry).delete(entry.key);
    const unreadable = events.filter((_, i) => isUnreadable(known[i]!));
    for (const ref of unreadable) this.#addPostponed(draft, ref);
    const { ok } = await this.#parts.commits.commit(draft);
    if (ok) { for (const { id } of unreadable) this.#reportUnreadable(id); }
    return leases;
  }

  /**
   * Makes events due that are scheduled later than anything can be: by a clock that has been set back
   * since.
   */
  async repair(latestMs: number): Promise<number> {
    let repaired = 0;
    let page: Due[] = [];
    const mend = async () => {
      const changes = (await this.#read(page)).map((known, i) =>
        this.#mend(page[i]!, known, latestMs)
      );
      for (const mended of await Promise.all(changes)) if (mended) repaired++;
      page = [];
    };
    for await (const entry of this.#schedule.after(Date.now())) {
      if (page.push(...dueOf(entry)) >= BATCH_SIZE) await mend();
    }
    await mend();
    return repaired;
  }

  async #mend({ entry }: Due, known: Known, latestMs: number): Promise<boolean> {
    const { record, versionstamp, body } = known;
    if (!record || !isOf(entry, known) || !isMisplaced(record, latestMs)) return false;
    const { lease } = record;
    // Who holds a lease has to have its length to renew it by the clock as it is now.
    const dueAt = Date.now() + (lease?.ms ?? 0);
    const set = { dueAt, lease: lease && { ...lease, until: dueAt } };
    return await this.#change({ record, versionstamp: versionstamp!, body }, { set }) !== null;
  }

  async #read(events: readonly Due[]): Promise<Known[]> {
    const keys = events.map((due) => this.#keys.event(due));
    return (await readerOf(events)(this.#kv, keys)).map(knownOf);
  }

  /** Leases events in one commit. One that fails does not lose what was leased beside it. */
  async #leaseAll(events: readonly Due[], options: ClaimOptions): Promise<Lease[]> {
    const known = await this.#read(events);
    // Meanwhile: one by one, and when their turn comes, the payloads would hold up the handlers.
    const reading = readSmallPayloads(this.#kv, this.#keys, known, readerOf(events))
      .catch(() => []);
    const tried = await Promise.allSettled(
      events.map((due, i) => this.#leaseDue(due, known[i]!, options)),
    );
    const bodies = await reading;
    const leases = tried.flatMap((each, i) =>
      each.status === "fulfilled" && each.value
        ? [{ ...each.value, body: known[i]!.body ?? bodies[i] }]
        : []
    );
    const failed = tried.find((each) => each.status === "rejected");
    if (failed && leases.length === 0) throw failed.reason;
    return leases;
  }

  async #leaseDue(due: Due, known: Known, options: ClaimOptions): Promise<Lease | null> {
    const { owner, leaseMs, takeOver = true } = options;
    const now = Date.now();
    const { entry } = due;
    const { record, versionstamp, body } = known;
    if (!record) return await this.#postpone(due, known);
    if (record.dueAt === null || record.dueAt > now) {
      return due.isShared ? null : await this.#drop(entry);
    }
    const takenOver = record.state === "running";
    if (takenOver && !takeOver) return null;
    const errors = takenOver ? withError(record, LEASE_EXPIRED, now) : record.errors;
    const lease = await this.#change({ record, versionstamp: versionstamp!, body }, {
      set: { attempt: record.attempt + 1, errors },
      lease: { owner, leaseMs },
      // Else it is the event's own, and deleted in any case.
      add: (draft) => void (due.isShared || isOf(entry, known) || draft.delete(entry.key)),
    });
    return lease && { ...lease, takenOver };
  }

  /** Deletes an entry of the schedule that is not its event's any more. */
  async #drop({ key, versionstamp }: DueEntry): Promise<null> {
    await this.#parts.commits.commit(new Draft().check({ key, versionstamp }).delete(key));
    return null;
  }

  /**
   * Leaves an event whose record this version cannot read to a later time: another version may read it.
   * It would be the first one due for ever, and hold up its lane.
   */
  async #postpone(due: Due, known: Known): Promise<null> {
    const { lane, entry } = due;
    const isThere = isUnreadable(known);
    if (!isThere && !lane) return await this.#drop(entry);
    const draft = new Draft().check(entry).delete(entry.key);
    if (lane) await this.#lanes.leave(draft, lane, due.id);
    if (isThere) this.#addPostponed(draft, due);
    const { ok } = await this.#parts.commits.commit(draft);
    if (ok && isThere) this.#reportUnreadable(due.id);
    return null;
  }

  #addPostponed(draft: Draft, ref: EventRef): void {
    setEntry(draft, this.#keys, Date.now() + POSTPONE_MS, ref, null);
  }

  #reportUnreadable(eventId: string): void {
    writeLog(this.#parts.log, "error", "event record unreadable, left unhandled", { eventId });
  }

  #change(lease: Lease, change: Change): Promise<Lease | null> {
    return changeRecord(this.#parts, lease, change);
  }
}

/** The events that an entry of the schedule names. */
function dueOf(entry: DueEntry): Due[] {
  const { key, value } = entry;
  if (isShared(value)) {
    return value.events.map((ref) => ({ ...ref, entry, lane: null, isShared: true }));
  }
  const { receivedAt, lane } = value;
  return [{ id: String(key.at(-1)), receivedAt, lane, entry, isShared: false }];
}

/** How events are read: those that wait since they were received lie together. */
function readerOf(events: readonly Due[]): ReadKeys {
  return events.every(({ entry, receivedAt }) => entry.key.at(-2) === receivedAt)
    ? readNear
    : readAll;
}

/** Whether there is a record that this version cannot read. */
function isUnreadable({ record, versionstamp }: Known): boolean {
  return !record && versionstamp !== null;
}

/** Whether an event is where an entry of the schedule says: it may have another place by now. */
function isOf({ key, value }: DueEntry, { record }: Known): boolean {
  if (!record || record.dueAt !== key.at(-2)) return false;
  return record.dueGroup === (isShared(value) ? key.at(-1) : undefined);
}

/** Whether an event waits for longer than its clock can have meant, as far as the record tells. */
function isMisplaced(record: EventRecord, latestMs: number): boolean {
  const { dueAt, lease, state, attempt, lane, receivedAt } = record;
  const inMs = dueAt! - Date.now();
  if (state === "running" && lease) return inMs > lease.ms;
  return inMs > latestMs || (attempt === 0 && lane === null && dueAt === receivedAt);
}
