import { writeLog } from "../../../core/mod.ts";
import type { EventRecord } from "../event_record.ts";
import type { EventStore, Lease } from "../event_store.ts";
import { isEventRef } from "../record_shape.ts";
import { inIntake } from "../arrival.ts";
import { beginsBatch, joinedLate } from "../claims.ts";
import { isCancelRequested } from "../record_notes.ts";
import { cancelled } from "../settlement.ts";
import { applyChange, type ChangeOptions, leaseOf, startOfJoining } from "./_apply.ts";
import { beginBatch } from "./_batches.ts";
import type { GroupIntake, JoiningEnd } from "./_group_intake.ts";
import type { StoreKeys } from "./_layout.ts";
import { firstInGroup, leaveGroup, POSTPONE_MS } from "./_ordering_groups.ts";
import type { StoreParts } from "./_parts.ts";
import { readSmallPayloads } from "./_payload.ts";
import { read } from "./_reads.ts";
import { isUnreadable, type Known } from "./_layout.ts";
import {
  deferEntry,
  type Due,
  type DueEntry,
  dueOf,
  isAtEntry,
  isShared,
  payloadReaderOf,
  readDue,
  type Schedule,
} from "./_schedule.ts";
import { endOfWait } from "./_waits.ts";
import { isTooMuch, LeasedRecord, Write, writeNew } from "./_write.ts";

/** A size refusal is fast; anything slower is a failure of the KV. In milliseconds. */
const SLOW_MS = 1_000;

/** The number of times in a row that an event fails to be leased before that counts as its own fault. */
const MAX_FAILURES = 3;

/** Delay of that event, unless it fails by its size, in milliseconds. */
const PUT_OFF_MS = 60_000;

/** The number of events that are remembered as failed. */
const MAX_REMEMBERED = 1_000;

/** The number of events that are read and leased together, those among them that only join their groups. */
const MAX_PAGE = 100;

/** The time after which a claim ends whose events have joined groups: those that are leased wait for it. */
const MAX_JOIN_MS = 200;

type ClaimOptions = Parameters<EventStore["claim"]>[0];

/** A claim under way. */
interface Claiming extends ClaimOptions {
  /** Set once events have joined their groups. */
  hasJoined: boolean;
  /** The number of events of the current page that may be leased when they join their groups. */
  room: number;
}

/** Events that are leased together. */
interface Page {
  readonly events: readonly Due[];
  readonly known: readonly Known[];
  /** The room that is left for those that join their groups. */
  readonly room: number;
  /** The events without room. */
  readonly left: readonly Due[];
}

/** An event that could not be leased. */
interface Failure {
  readonly due: Due;
  readonly error: unknown;
  /** The time after which it failed, in milliseconds. */
  readonly ms: number;
}

/**
 * Leases the events that are due. An event that cannot be leased must not keep the others waiting: what is
 * unreadable or too large is put off for five minutes, what fails otherwise three times in a row for a minute.
 */
export class Claims {
  readonly #parts: StoreParts;
  readonly #kv: Deno.Kv;
  readonly #keys: StoreKeys;
  readonly #joins: GroupIntake;
  readonly #schedule: Schedule;
  /** The number of times that events have failed to be leased. */
  readonly #failed = new Map<string, number>();

  constructor(parts: StoreParts, joins: GroupIntake, schedule: Schedule) {
    this.#parts = parts;
    this.#kv = parts.kv;
    this.#keys = parts.keys;
    this.#joins = joins;
    this.#schedule = schedule;
  }

  /** Leases events that are due. If the KV fails meanwhile, returns those that were leased before. */
  async claim(options: ClaimOptions): Promise<Lease[]> {
    const leases: Lease[] = [];
    try {
      await this.#claim({ ...options, hasJoined: false, room: 0 }, leases);
    } catch (error) {
      if (leases.length === 0) throw error;
      writeLog(this.#parts.log, "error", "claim failed", { error });
    }
    return leases;
  }

  async #claim(options: Claiming, leases: Lease[]): Promise<void> {
    const { limit } = options;
    const start = performance.now();
    let page: Due[] = [];
    let joining = 0;
    const take = async () => {
      await this.#putOff(await this.#leaseAll(page, options, leases));
      page = [];
      joining = 0;
    };
    // Beyond the first entries too: another worker may have been faster with those.
    for await (const entry of this.#schedule.until(Date.now())) {
      if (isShared(entry.value)) {
        await take();
        await this.#leaseShared(entry, options, leases);
      } else {
        page.push(...dueOf(entry));
        if (entry.value.joinsLater) joining++;
        const isFull = page.length - joining >= limit - leases.length;
        if (isFull || page.length >= MAX_PAGE) await take();
      }
      if (leases.length >= limit) return;
      if (options.hasJoined && performance.now() - start > MAX_JOIN_MS) {
        // The rest stays on the schedule for the next claim.
        this.#parts.local.listener?.wake();
        return;
      }
    }
    await take();
  }

  /** Takes over the events that are left of a shared entry: nobody has settled them or renewed a lease. */
  async #leaseShared(entry: DueEntry, options: Claiming, leases: Lease[]): Promise<void> {
    const events = dueOf(entry);
    const known = await readDue(this.#parts, events);
    const left = events.filter((_, i) => isAtEntry(entry, known[i]!));
    const before = leases.length;
    const failures = await this.#leaseAll(left.slice(0, options.limit - before), options, leases);
    const leased = new Set(leases.slice(before).map(({ record }) => record.id));
    const waiting = left.filter(({ id }) => !leased.has(id));
    if (waiting.length > 0 && failures.length === 0) return;
    const write = new Write().check(entry).delete(entry.key);
    const unreadable = events.filter((_, i) => isUnreadable(known[i]!));
    for (const ref of unreadable) deferEntry(write, this.#keys, ref, POSTPONE_MS);
    // An event that cannot be leased gets its own entry: the others would wait for it.
    for (const ref of waiting) {
      const failure = failures.find(({ due }) => due.id === ref.id);
      deferEntry(write, this.#keys, ref, failure ? delayOf(failure.error) : 0);
    }
    if (await this.#parts.commits.commit(write) === null) return;
    for (const { id } of unreadable) this.#reportUnreadable(id);
    this.#reportFailures(failures);
  }

  /**
   * Leases as many events as there is room for. One that fails does not fail the others.
   *
   * @returns The failures that are the fault of their events.
   */
  async #leaseAll(
    events: readonly Due[],
    options: Claiming,
    leases: Lease[],
  ): Promise<Failure[]> {
    const failures: Failure[] = [];
    // Those that turn out not to be due any more leave their room to others.
    for (let left = events; left.length > 0 && leases.length < options.limit;) {
      const known = await readDue(this.#parts, left);
      const page = withinRoom(left, known, options.limit - leases.length);
      failures.push(...await this.#leasePage(page, options, leases));
      left = page.left;
    }
    return failures;
  }

  /** Leases events in one commit. */
  async #leasePage(
    { events, known, room }: Page,
    options: Claiming,
    leases: Lease[],
  ): Promise<Failure[]> {
    options.room = room;
    // Meanwhile: one by one, and when their turn comes, the payloads would hold up the handlers.
    const records = known.map(({ record }) => record);
    const reading = readSmallPayloads(this.#kv, this.#keys, records, payloadReaderOf(events))
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

  /** Checks whether an event itself is at fault, and not the KV: that may fail once or twice. */
  #isOwn({ due: { id }, error }: Failure): boolean {
    const times = (this.#failed.get(id) ?? 0) + 1;
    this.#failed.delete(id);
    if (times >= MAX_FAILURES || isTooMuch(error)) return true;
    if (this.#failed.size >= MAX_REMEMBERED) this.#failed.clear();
    this.#failed.set(id, times);
    return false;
  }

  async #leaseDue(due: Due, known: Known, options: Claiming): Promise<Lease | null> {
    const { owner, leaseMs, takeOver = true, holds } = options;
    const { record } = known;
    if (!record) return await this.#postpone(due, known);
    const now = timeAt(due);
    const { entry } = due;
    const isParked = record.state === "parked";
    const isDue = isParked ||
      (record.dueAt === null
        ? !due.isShared && await this.#isStranded(record)
        : record.dueAt <= now);
    if (!isDue) return await this.#takeOff(due);
    const takenOver = record.state === "running";
    const dueSince = isParked ? now : record.dueAt ?? now;
    if ((takenOver && !takeOver) || holds?.(record.id, dueSince)) return null;
    const end = isParked ? await endOfWait(this.#parts, record, now) : undefined;
    if (isParked && !end) return await this.#takeOff(due);
    const held = leaseOf(known);
    const change: ChangeOptions = {
      ...end?.options,
      lease: { owner, leaseMs },
      add: (write) => {
        end?.options.add?.(write);
        // Otherwise the entry belongs to the event alone, and is deleted in any case.
        if (!due.isShared && !isAtEntry(entry, known)) write.delete(entry.key);
      },
    };
    if (isCancelRequested(record)) {
      await applyChange(this.#parts, held, cancelled(record, now), { add: change.add });
      return null;
    }
    const open = end?.record ?? record;
    const ready = beginsBatch(open) ? await beginBatch(this.#parts, open, now) : open;
    if (ready.dueAt !== null && ready.dueAt > now) {
      await applyChange(this.#parts, held, ready, { add: change.add });
      return null;
    }
    const lease = ready.joinsLater && !takenOver
      ? await this.#joinLate(held, ready, change, options)
      : await applyChange(this.#parts, held, ready, change);
    if (!lease) return null;
    const since = isParked ? undefined : record.dueAt;
    return { ...lease, takenOver, dueSince: since ?? Number(entry.key.at(-2)) };
  }

  /**
   * Adds an event to its ordering group now that it is claimed: it was stored for later, and its group did not wait
   * for it. If the group is empty the event is leased in the same commit, otherwise it waits for
   * its turn like any other.
   *
   * @param held The event. It is due.
   * @param ready Its record before it joins.
   * @param change The lease that it gets, and what else the commit holds.
   * @param claiming The claim.
   * @returns The lease; null if the event waits in its group now, or another change was faster.
   */
  async #joinLate(
    held: Lease,
    ready: EventRecord,
    change: ChangeOptions,
    claiming: Claiming,
  ): Promise<Lease | null> {
    claiming.hasJoined = true;
    const { write: base, record } = await startOfJoining(this.#parts, held, ready, change);
    let lease: Lease | null = null;
    await this.#joins.join({
      key: inIntake(record.intake, record.orderingKey ?? ""),
      ...{ base, bytes: 0, since: performance.now() },
      add: (write, position, isFirst) => {
        // Reserved before the commit: other groups join meanwhile.
        const isLeased = isFirst && claiming.room > 0;
        if (isLeased) claiming.room--;
        const after = joinedLate(record, position, isFirst);
        const leased = isLeased
          ? new LeasedRecord(this.#parts, after, change.lease!).record
          : undefined;
        writeNew(write, this.#parts, leased ?? after);
        const giveBack = () => {
          if (isLeased) claiming.room++;
        };
        const end: JoiningEnd = {
          endUnknown: giveBack,
          end: (version) => {
            if (version === null) return giveBack();
            change.onCommit?.();
            if (leased) lease = { record: leased, version };
          },
        };
        return { record: after, end };
      },
    });
    return lease;
  }

  /** Deletes an entry that leads to an event which is not due any more. */
  async #takeOff(due: Due): Promise<null> {
    if (!due.isShared) await this.#move(due, null);
    return null;
  }

  /**
   * Checks whether nothing will move an event up that waits in its group: it has lost its position, which happens
   * to one that cannot be leased, or its turn came while its record could not be read.
   */
  async #isStranded({ id, group, settledAt }: EventRecord): Promise<boolean> {
    if (!group || settledAt !== null) return false;
    const { key, position } = group;
    const { value, versionstamp } = await read(this.#kv, this.#keys.position(key, position));
    if (versionstamp === null) return true;
    if (!isEventRef(value)) return false;
    return value.id !== id || (await firstInGroup(this.#parts, key))?.position === position;
  }

  /** Puts an event off whose record this version cannot read: another one may read it. */
  async #postpone(due: Due, known: Known): Promise<null> {
    const isThere = isUnreadable(known);
    // It keeps its position: the events behind it must not come before it.
    const isMoved = await (isThere ? this.#move(due, POSTPONE_MS) : this.#move(due, null, true));
    if (isMoved && isThere) this.#reportUnreadable(due.id);
    return null;
  }

  /**
   * Puts events off that cannot be leased: they would be the first ones due for ever. If not even that can
   * be written, it is the KV that fails.
   */
  async #putOff(failures: readonly Failure[]): Promise<void> {
    if (failures.length === 0) return;
    const moved = await Promise.allSettled(failures.map(async ({ due, error }) => {
      const delayMs = delayOf(error);
      if (isTooMuch(error) && await this.#move(due, delayMs, true).catch(() => false)) return;
      await this.#move(due, delayMs);
    }));
    if (moved.every(({ status }) => status === "rejected")) throw failures[0]!.error;
    this.#reportFailures(failures);
  }

  /**
   * Moves the schedule entry of an event that does not share it.
   *
   * @param due The event.
   * @param delayMs The time until it is due again; null takes it off the schedule.
   * @param leavesGroup Set if it leaves its ordering group, so that the next event can be handled.
   * @returns False if its entry has changed meanwhile.
   */
  async #move(due: Due, delayMs: number | null, leavesGroup = false): Promise<boolean> {
    const { id, entry, group } = due;
    const write = new Write().check(entry).delete(entry.key);
    if (group && leavesGroup) await leaveGroup(this.#parts, write, group, id);
    if (delayMs !== null) deferEntry(write, this.#keys, due, delayMs, leavesGroup ? null : group);
    return await this.#parts.commits.commit(write) !== null;
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
}

/**
 * Reads the time, which is at least that of an entry that was found due: if the clock steps back, the entry would
 * look stale and the event would be lost.
 */
function timeAt({ entry }: Due): number {
  return Math.max(Date.now(), Number(entry.key.at(-2)));
}

/**
 * Chooses the events that fit the room. Events that join their groups first take none: most of
 * them are not leased yet.
 *
 * @param events The events.
 * @param known Their records.
 * @param room The number of events that may be leased.
 * @returns The first ones.
 */
function withinRoom(events: readonly Due[], known: readonly Known[], room: number): Page {
  let free = room;
  const isMeant = known.map(({ record }) => isJoining(record) || free-- > 0);
  if (free >= 0) return { events, known, room: free, left: [] };
  return {
    events: events.filter((_, i) => isMeant[i]),
    known: known.filter((_, i) => isMeant[i]),
    room: 0,
    left: events.filter((_, i) => !isMeant[i]),
  };
}

function isJoining(record: EventRecord | undefined): boolean {
  if (!record) return false;
  const { state, joinsLater = false, orderingKey } = record;
  return (joinsLater && state === "queued") || (state === "parked" && orderingKey !== null);
}

/** Checks whether a failure took longer than a refusal does. */
function isSlow({ error, ms }: Failure): boolean {
  return ms > SLOW_MS && !isTooMuch(error);
}

/** Returns the delay of an event that could not be leased: one that is too large may stay so. */
function delayOf(error: unknown): number {
  return isTooMuch(error) ? POSTPONE_MS : PUT_OFF_MS;
}
