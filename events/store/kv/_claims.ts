import { writeLog } from "../../../core/mod.ts";
import { type Change, changeRecord } from "./_changes.ts";
import { isTooMuch } from "./_commit.ts";
import { Write } from "./_write.ts";
import type { StoreKeys } from "./_keys.ts";
import { OrderingGroups, POSTPONE_MS } from "./_ordering_groups.ts";
import { readSmallPayloads } from "./_payload.ts";
import { readAll, type ReadKeys, readNear } from "./_reads.ts";
import { type DueEntry, isShared, plannedDelay, Schedule, setEntry } from "./_schedule.ts";
import {
  type EventRef,
  type GroupPosition,
  type Known,
  knownOf,
  withError,
} from "../event_record.ts";
import type { StoreParts } from "./_parts.ts";
import type { ClaimOptions, Lease } from "../event_store.ts";

/** How many events are looked at together. */
const BATCH_SIZE = 100;

/** What a KV refuses for what is in it, it refuses at once: what takes longer fails by the KV. */
const SLOW_MS = 1_000;

/** How often in a row an event fails to be leased before that is taken to be its own fault. */
const MAX_FAILURES = 3;

/** For how long it is left alone then, unless it fails by its size. */
const PUT_OFF_MS = 60_000;

/** How many events are remembered that have failed. */
const MAX_REMEMBERED = 1_000;

/** By how much the clocks of two machines may differ until what one schedules is put right by the other. */
const CLOCK_SLACK_MS = 1_000;

/** What stands for an attempt whose worker neither settled its event nor renewed its lease. */
const LEASE_EXPIRED = "Lease expired: the process died, was frozen, or lost the KV";

/** An event that the schedule names. */
interface Due extends EventRef {
  /** The entry that names it. */
  readonly entry: DueEntry;
  /** Its place in its group. */
  readonly group: GroupPosition | null;
  /** Whether the entry is that of others as well. */
  readonly isShared: boolean;
}

/** An event that could not be leased. */
interface Failure {
  readonly due: Due;
  readonly error: unknown;
  /** After what time it failed, in milliseconds. */
  readonly ms: number;
}

/** Takes events off the schedule: those that are due are leased, and misplaced ones put right. */
export class Claims {
  readonly #parts: StoreParts;
  readonly #kv: Deno.Kv;
  readonly #keys: StoreKeys;
  readonly #orderingGroups: OrderingGroups;
  readonly #schedule: Schedule;
  /** How often events have failed to be leased. */
  readonly #failed = new Map<string, number>();

  constructor(parts: StoreParts) {
    this.#parts = parts;
    this.#kv = parts.kv;
    this.#keys = parts.keys;
    this.#orderingGroups = new OrderingGroups(parts);
    this.#schedule = new Schedule(parts);
  }

  /** When the event that has been due the longest was due; null if none is. */
  oldestDueAt(): Promise<number | null> {
    return this.#schedule.first(Date.now());
  }

  /** Leases events that are due. Where the KV fails, those that were leased before are not forgotten. */
  async claim(options: ClaimOptions): Promise<Lease[]> {
    const leases: Lease[] = [];
    try {
      await this.#claim(options, leases);
    } catch (error) {
      if (leases.length === 0) throw error;
      writeLog(this.#parts.log, "error", "claim failed", { error });
    }
    return leases;
  }

  async #claim(options: ClaimOptions, leases: Lease[]): Promise<void> {
    const { limit } = options;
    let page: Due[] = [];
    const take = async () => {
      await this.#putOff(await this.#leaseAll(page, options, leases));
      page = [];
    };
    // Beyond the first entries too: another worker may have been faster with those.
    for await (const entry of this.#schedule.until(Date.now())) {
      if (isShared(entry.value)) {
        await take();
        await this.#leaseGroup(entry, options, leases);
      } else if (page.push(...dueOf(entry)) === limit - leases.length) await take();
      if (leases.length >= limit) return;
    }
    await take();
  }

  /** Takes over what is left of a group: nobody has settled it, nor renewed its lease. */
  async #leaseGroup(entry: DueEntry, options: ClaimOptions, leases: Lease[]): Promise<void> {
    const events = dueOf(entry);
    const known = await this.#read(events);
    const left = events.filter((_, i) => isOf(entry, known[i]!));
    const before = leases.length;
    const failures = await this.#leaseAll(left.slice(0, options.limit - before), options, leases);
    const leased = new Set(leases.slice(before).map(({ record }) => record.id));
    const waiting = left.filter(({ id }) => !leased.has(id));
    if (waiting.length > 0 && failures.length === 0) return;
    const write = new Write().check(entry).delete(entry.key);
    const unreadable = events.filter((_, i) => isUnreadable(known[i]!));
    for (const ref of unreadable) this.#defer(write, ref, POSTPONE_MS);
    // Those that cannot be leased part from the others, who would wait for them.
    for (const ref of waiting) {
      const failure = failures.find(({ due }) => due.id === ref.id);
      this.#defer(write, ref, failure ? delayOf(failure) : 0);
    }
    const { ok } = await this.#parts.commits.commit(write);
    if (!ok) return;
    for (const { id } of unreadable) this.#reportUnreadable(id);
    this.#reportFailures(failures);
  }

  /** Schedules events anew that would wait for longer than they were meant to. */
  async repair(): Promise<number> {
    let repaired = 0;
    let page: Due[] = [];
    let failed: PromiseRejectedResult | undefined;
    const mend = async () => {
      const changes = (await this.#read(page)).map((known, i) => this.#mend(page[i]!, known));
      const tried = await Promise.allSettled(changes);
      repaired += tried.filter((each) => each.status === "fulfilled" && each.value).length;
      failed ??= tried.find((each) => each.status === "rejected");
      page = [];
    };
    for await (const entry of this.#schedule.after(Date.now())) {
      const { delayMs = 0 } = entry.value;
      if (isMisplaced(Number(entry.key.at(-2)), delayMs)) page.push(...dueOf(entry));
      if (page.length >= BATCH_SIZE) await mend();
    }
    await mend();
    // One that cannot be put right does not keep the others.
    if (failed) throw failed.reason;
    return repaired;
  }

  async #mend(due: Due, known: Known): Promise<boolean> {
    const { record, versionstamp, body } = known;
    if (!record || !isOf(due.entry, known)) return await this.#bringForward(due);
    const delayMs = plannedDelay(record);
    if (!isMisplaced(record.dueAt!, delayMs)) return false;
    // Who holds a lease has to have its length to renew it by the clock as it is now.
    const dueAt = Date.now() + delayMs;
    const { lease, busyUntil } = record;
    const set = {
      dueAt,
      ...(lease ? { lease: { ...lease, until: dueAt } } : { delayMs }),
      ...(busyUntil !== undefined && { busyUntil: Math.min(busyUntil, dueAt) }),
    };
    return await this.#change({ record, versionstamp: versionstamp!, body }, { set }) !== null;
  }

  /** Moves an entry that an event was put off by: its record has another place in the schedule. */
  async #bringForward({ entry, isShared, ...due }: Due): Promise<boolean> {
    if (isShared) return false;
    const write = new Write().check(entry).delete(entry.key);
    this.#defer(write, due, entry.value.delayMs ?? 0, due.group);
    return (await this.#parts.commits.commit(write)).ok;
  }

  async #read(events: readonly Due[]): Promise<Known[]> {
    const keys = events.map((due) => this.#keys.event(due));
    return (await readerOf(events)(this.#kv, keys)).map(knownOf);
  }

  /**
   * Leases events in one commit. One that fails does not lose what is leased beside it.
   *
   * @returns The failures that are their events' own.
   */
  async #leaseAll(
    events: readonly Due[],
    options: ClaimOptions,
    leases: Lease[],
  ): Promise<Failure[]> {
    if (events.length === 0) return [];
    const known = await this.#read(events);
    // Meanwhile: one by one, and when their turn comes, the payloads would hold up the handlers.
    const reading = readSmallPayloads(this.#kv, this.#keys, known, readerOf(events))
      .catch(() => []);
    const start = performance.now();
    const failures: Failure[] = [];
    const tried = await Promise.all(
      events.map((due, i) =>
        this.#leaseDue(due, known[i]!, options).catch((error) => {
          failures.push({ due, error, ms: performance.now() - start });
          return null;
        })
      ),
    );
    const bodies = await reading;
    const leased = tried.flatMap((lease, i) =>
      lease ? [{ ...lease, body: known[i]!.body ?? bodies[i] }] : []
    );
    leases.push(...leased);
    if (this.#failed.size > 0) { for (const { record } of leased) this.#failed.delete(record.id); }
    const own = failures.filter((failure) => this.#isOwn(failure));
    const isKvs = own.length + leased.length === 0 || failures.some(isSlow);
    if (failures.length > 0 && isKvs) throw failures[0]!.error;
    return own;
  }

  /** Whether an event fails by what it is, and not by the KV: that may well fail once or twice. */
  #isOwn({ due: { id }, error }: Failure): boolean {
    const times = (this.#failed.get(id) ?? 0) + 1;
    this.#failed.delete(id);
    if (times >= MAX_FAILURES || isTooMuch(error)) return true;
    if (this.#failed.size >= MAX_REMEMBERED) this.#failed.clear();
    this.#failed.set(id, times);
    return false;
  }

  async #leaseDue(due: Due, known: Known, options: ClaimOptions): Promise<Lease | null> {
    const { owner, leaseMs, takeOver = true, holds } = options;
    const now = Date.now();
    const { entry } = due;
    const { record, versionstamp, body } = known;
    if (!record) return await this.#postpone(due, known);
    if (record.dueAt === null || record.dueAt > now) {
      return due.isShared ? null : await this.#drop(entry);
    }
    const takenOver = record.state === "running";
    if (takenOver && (!takeOver || holds?.(record.id))) return null;
    const errors = takenOver ? withError(record, LEASE_EXPIRED, now) : record.errors;
    const lease = await this.#change({ record, versionstamp: versionstamp!, body }, {
      set: { attempt: record.attempt + 1, errors },
      lease: { owner, leaseMs },
      // Else it is the event's own, and deleted in any case.
      add: (write) => void (due.isShared || isOf(entry, known) || write.delete(entry.key)),
    });
    return lease && { ...lease, takenOver, dueSince: record.dueAt };
  }

  /** Deletes an entry of the schedule that is not its event's any more. */
  async #drop({ key, versionstamp }: DueEntry): Promise<null> {
    await this.#parts.commits.commit(new Write().check({ key, versionstamp }).delete(key));
    return null;
  }

  /** Leaves an event whose record this version cannot read to a later time: another may read it. */
  async #postpone(due: Due, known: Known): Promise<null> {
    const isThere = isUnreadable(known);
    if (!isThere && !due.group) return await this.#drop(due.entry);
    if (await this.#setAside(due, isThere) && isThere) this.#reportUnreadable(due.id);
    return null;
  }

  /** Has an event wait outside of its group: it would be the first one due for ever, and hold that up. */
  async #setAside({ id, receivedAt, group, entry }: Due, isThere: boolean): Promise<boolean> {
    const write = new Write().check(entry).delete(entry.key);
    if (group) await this.#orderingGroups.leave(write, group, id);
    if (isThere) this.#defer(write, { id, receivedAt }, POSTPONE_MS);
    return (await this.#parts.commits.commit(write)).ok;
  }

  /**
   * Has events wait that cannot be leased: they would be the first ones due for ever. If not even that can
   * be written, it is the KV that fails.
   */
  async #putOff(failures: readonly Failure[]): Promise<void> {
    if (failures.length === 0) return;
    const moved = await Promise.allSettled(failures.map((failure) => this.#move(failure)));
    if (moved.every(({ status }) => status === "rejected")) throw failures[0]!.error;
    this.#reportFailures(failures);
  }

  async #move(failure: Failure): Promise<void> {
    const { due, error } = failure;
    if (isTooMuch(error) && await this.#setAside(due, true).catch(() => false)) return;
    const write = new Write().check(due.entry).delete(due.entry.key);
    this.#defer(write, due, delayOf(failure), due.group);
    await this.#parts.commits.commit(write);
  }

  #defer(write: Write, ref: EventRef, ms: number, group: GroupPosition | null = null): void {
    setEntry(write, this.#keys, Date.now() + ms, ref, group, ms);
  }

  #reportFailures(failures: readonly Failure[]): void {
    const [first] = failures;
    if (!first) return;
    const fields = { eventId: first.due.id, events: failures.length, error: first.error };
    writeLog(this.#parts.log, "error", "event not leased, put off", fields);
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
    return value.events.map((ref) => ({ ...ref, entry, group: null, isShared: true }));
  }
  const { receivedAt, group } = value;
  return [{ id: String(key.at(-1)), receivedAt, group, entry, isShared: false }];
}

/** Whether a failure took longer than a refusal does. */
function isSlow({ error, ms }: Failure): boolean {
  return ms > SLOW_MS && !isTooMuch(error);
}

/** How long an event waits that could not be leased: one that is too large may stay so. */
function delayOf({ error }: Failure): number {
  return isTooMuch(error) ? POSTPONE_MS : PUT_OFF_MS;
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
  return record.sharedEntry === (isShared(value) ? key.at(-1) : undefined);
}

/** Whether an event waits for longer than it was to: one clock was ahead of another. */
function isMisplaced(dueAt: number, delayMs: number): boolean {
  return dueAt - Date.now() > delayMs + CLOCK_SLACK_MS;
}
