import { writeLog } from "../../../core/mod.ts";
import { commit } from "./_commit.ts";
import { Write } from "./_write.ts";
import { LAST, NumberedEntries } from "./_numbered_entries.ts";
import type { StoreParts } from "./_parts.ts";
import { Pool } from "./_pool.ts";
import { listAround, read, readAll, UNKNOWN_VERSION } from "./_reads.ts";
import { isEventRef, isGroupRecord, isSeq } from "../_record_shape.ts";
import { busyUntil as busyUntilOf } from "./_revive.ts";
import { setDue, setEntry } from "./_schedule.ts";
import {
  type EventRecord,
  type EventRef,
  type GroupPosition,
  readRecord,
} from "../event_record.ts";

/** For how long an event is left alone whose record cannot be read. */
export const POSTPONE_MS = 3_600_000;

/**
 * For how long those that join a group leave it to one that leaves. Over a remote KV it takes four
 * answers to leave, and two to join: while others joined without a pause it never came to it.
 */
const HOLD_MS = 500;

/** How often a group that is held is looked at again. */
const HELD_PAUSE_MS = 20;

/** How many events in a row that cannot be read are passed over at a time: a commit has limits. */
const MAX_PASSED_OVER = 50;

/** How many places are read at a time when all are, and when the next one is wanted. */
const [ALL, NEXT] = [500, 2];

/** How many orderingGroups are looked at at the same time. */
const CONCURRENCY = 10;

/** What is stored of a group while events are in it. */
export interface GroupRecord {
  /** The place of the next event that joins. */
  readonly next: number;
  /** How many events are in it. */
  readonly size: number;
  /** Until when the handler of one that was cancelled may run, milliseconds since the epoch. */
  readonly busyUntil?: number | undefined;
  /** How far ahead that was when it was noted, in milliseconds: a clock may have been set back since. */
  readonly busyMs?: number | undefined;
  /** Until when nobody is to join, for one leaves, milliseconds since the epoch. */
  readonly heldUntil?: number | undefined;
}

/** A place as it is stored. */
type Place = Deno.KvEntry<unknown>;

/** How an event leaves a group. */
interface Leaving {
  /** Until when its handler may run, milliseconds since the epoch. */
  readonly busyUntil?: number | undefined;
  /** What becomes of the next one, which is due. */
  readonly goOn?: (next: EventRecord) => EventRecord;
}

/** A group as it was read. */
export interface Group {
  readonly key: string;
  readonly next: number;
  readonly size: number;
  readonly busyUntil: number;
  readonly heldUntil: number;
  readonly versionstamp: string | null;
}

/**
 * The orderingGroups of a store: events of one ordering key stand in line, and only the first of them is on the
 * schedule. Each change checks the group's version, so the changes of a group happen one after the other.
 */
export class OrderingGroups {
  readonly #parts: StoreParts;

  constructor(parts: StoreParts) {
    this.#parts = parts;
  }

  get #kv() {
    return this.#parts.kv;
  }

  get #keys() {
    return this.#parts.keys;
  }

  /** Reads a group. One that is damaged is put right before. */
  async read(key: string): Promise<Group> {
    const groupKey = this.#keys.group(key);
    const group = groupOf(key, await read(this.#kv, groupKey));
    if (group) return group;
    await this.#mend(key);
    const mended = groupOf(key, await read(this.#kv, groupKey));
    if (mended) return mended;
    throw new Error("Cannot read an ordering group: it is damaged, and could not be put right");
  }

  /** Puts orderingGroups right that hold up their keys. Returns how many. */
  async repair(): Promise<number> {
    const orderingGroups = new Set<string>();
    for (const prefix of [this.#keys.orderingGroups, this.#keys.places]) {
      for await (const { key } of listAround(this.#kv, prefix, ALL)) {
        orderingGroups.add(String(key[2]));
      }
    }
    let mended = 0;
    const pool = new Pool(CONCURRENCY);
    for (const key of orderingGroups) {
      await pool.add(async () => {
        if (await this.#mend(key)) mended++;
      });
    }
    await pool.done();
    return mended;
  }

  /** Reads a group that is to be joined, once it is not held any more. */
  async readToJoin(key: string): Promise<Group> {
    const start = performance.now();
    for (;;) {
      const group = await this.read(key);
      // Both clocks: that of another machine may be ahead.
      if (group.heldUntil <= Date.now() || performance.now() - start > HOLD_MS) return group;
      await new Promise((resolve) => setTimeout(resolve, HELD_PAUSE_MS));
    }
  }

  /** Has those that want to join a group wait for a moment, so that an event can leave it. */
  async hold(key: string): Promise<void> {
    const { next, size, busyUntil, versionstamp } = await this.read(key);
    if (versionstamp === null) return;
    const now = Date.now();
    const busyMs = Math.max(0, busyUntil - now);
    const record: GroupRecord = { next, size, busyUntil, busyMs, heldUntil: now + HOLD_MS };
    await commit(
      this.#kv.atomic().check({ key: this.#keys.group(key), versionstamp })
        .set(this.#keys.group(key), record),
    );
  }

  /** Adds joining the end of a group to a write. */
  join(write: Write, group: Group, { id, receivedAt }: EventRef): GroupPosition {
    const { key, next, size, busyUntil, versionstamp } = group;
    const busyMs = Math.max(0, busyUntil - Date.now());
    const record: GroupRecord = { next: next + 1, size: size + 1, busyUntil, busyMs };
    write.check({ key: this.#keys.group(key), versionstamp })
      .set(this.#keys.group(key), record)
      .set(this.#keys.position(key, next), { id, receivedAt } satisfies EventRef);
    return { key, seq: next };
  }

  /**
   * Adds leaving a group to a write. If the event was the first, the next one is put on the schedule.
   * Returns the group as it was.
   */
  async leave(
    write: Write,
    place: GroupPosition,
    id: string,
    { busyUntil = 0, goOn = (next) => next }: Leaving = {},
  ): Promise<Group> {
    const { key, seq } = place;
    const now = Date.now();
    const [group, isThere] = await this.#find(place, id);
    if (!isThere) {
      // An event that nobody could read for a while may have lost its place to another. Or it was lost.
      await this.#mend(key, Math.max(now, busyUntil));
      return group;
    }
    const notBefore = Math.max(now, busyUntil, group.busyUntil);
    write.check({ key: this.#keys.group(key), versionstamp: group.versionstamp })
      .delete(this.#keys.position(key, seq));
    // Of 10,000 keys most have one event at a time: without the reading ×1.1 as many are handled.
    const passedOver = group.size === 1 ? 0 : await this.#next(write, place, notBefore, goOn);
    const size = Math.max(0, group.size - 1 - passedOver);
    this.#set(write, key, { next: group.next, size, busyUntil: notBefore }, now);
    return group;
  }

  #set(
    write: Write,
    key: string,
    { next, size, busyUntil }: Pick<Group, "next" | "size" | "busyUntil">,
    now: number,
  ): void {
    const groupKey = this.#keys.group(key);
    const busyMs = Math.max(0, busyUntil - now);
    const group: GroupRecord = { next, size, busyUntil, busyMs };
    if (size > 0) write.set(groupKey, group);
    else if (busyMs > 0) write.set(groupKey, group, { expireIn: busyMs });
    else write.delete(groupKey);
  }

  /**
   * Puts a group right whose record is not what its places say, or whose first event nobody would look at.
   *
   * @param key The group.
   * @param notBefore Before when its first event must not start, milliseconds since the epoch.
   * @returns Whether there was something to put right.
   */
  async #mend(key: string, notBefore = Date.now()): Promise<boolean> {
    const groupKey = this.#keys.group(key);
    const { versionstamp, value } = await read(this.#kv, groupKey);
    const places = await Array.fromAsync(this.#places(key, ALL));
    const known = isGroupRecord(value) ? value : undefined;
    const next = Math.max(known?.next ?? 0, 1 + seqOf(places.at(-1)));
    const isRight = versionstamp === null ? places.length === 0 : known?.size === places.length;
    if (isRight && (known?.next ?? 0) === next && await this.#goesOn(places[0])) return false;
    const write = new Write();
    // No check holds of what cannot be decoded: that nobody has joined since tells the same.
    if (versionstamp !== UNKNOWN_VERSION) write.check({ key: groupKey, versionstamp });
    else write.check({ key: this.#keys.position(key, next), versionstamp: null });
    const busyUntil = Math.max(notBefore, known ? busyUntilIn(known) : 0);
    const passedOver = await this.#goOnAt(write, key, places, busyUntil, (event) => event);
    this.#set(write, key, { next, size: places.length - passedOver, busyUntil }, Date.now());
    write.notifies = true;
    const { ok } = await this.#parts.commits.commit(write);
    if (ok) this.#report(places);
    return ok;
  }

  /** The key itself may be from a payload, which no log has. */
  #report(places: readonly Place[]): void {
    const first = places.find(({ value }) => isEventRef(value))?.value as EventRef | undefined;
    const fields = { events: places.length, eventId: first?.id ?? null };
    writeLog(this.#parts.log, "error", "ordering group damaged, put right", fields);
  }

  /** Whether somebody will look at the first event of a group; true if there is none. */
  async #goesOn(first: Place | undefined): Promise<boolean> {
    if (!first) return true;
    // Twice: it may have been moved between the two readings.
    return await this.#isOnSchedule(first) || await this.#isOnSchedule(first);
  }

  async #isOnSchedule(place: Place): Promise<boolean> {
    const { value: ref } = place;
    if (!isEventRef(ref)) return false;
    const { record, versionstamp } = await readRecord(this.#kv, this.#keys.event(ref));
    // Another version may be at it, and its entry in the schedule is where that has put it.
    if (!record) return versionstamp !== null;
    if (!isAt(place, record) || record.dueAt === null) return false;
    return (await read(this.#kv, this.#keys.due(record.dueAt, record.id))).versionstamp !== null;
  }

  /**
   * Has the event behind the first one of a group go on. Returns how many were passed over before: none
   * if it is not the first one that leaves.
   */
  async #next(
    write: Write,
    { key, seq }: GroupPosition,
    notBefore: number,
    goOn: (next: EventRecord) => EventRecord,
  ): Promise<number> {
    const places = this.#places(key, NEXT);
    const { value: first } = await places.next();
    const isFirst = seqOf(first) === seq;
    const passedOver = isFirst ? await this.#goOnAt(write, key, places, notBefore, goOn) : 0;
    await places.return(undefined);
    return passedOver;
  }

  /** Has the first event at places go on that can. Returns how many were passed over before. */
  async #goOnAt(
    write: Write,
    key: string,
    places: AsyncIterable<Place> | Iterable<Place>,
    notBefore: number,
    goOn: (next: EventRecord) => EventRecord,
  ): Promise<number> {
    let passedOver = 0;
    let isDamaged = false;
    for await (const place of places) {
      if (await this.#goOn(write, place, notBefore, goOn)) break;
      if (passedOver >= MAX_PASSED_OVER) {
        // More do not fit a commit: who looks at this one next goes on.
        const { value: ref } = place;
        const at = { key, seq: seqOf(place) };
        if (isEventRef(ref)) setEntry(write, this.#keys, Date.now(), ref, at);
        break;
      }
      // Its record is gone or unreadable: it would hold up the group for ever.
      write.delete(place.key);
      passedOver++;
      isDamaged ||= !isEventRef(place.value);
    }
    if (isDamaged) this.#report([]);
    return passedOver;
  }

  /** The places in a group, in their order. */
  async *#places(key: string, batchSize: number): AsyncGenerator<Place> {
    const places = new NumberedEntries(this.#kv, this.#keys.positionsIn(key));
    for await (const place of places.list(0, LAST, batchSize)) {
      if (place.key.length === 4 && isSeq(place.key.at(-1))) yield place;
    }
  }

  /** Reads a group, and whether an event has a place in it. */
  async #find({ key, seq }: GroupPosition, id: string): Promise<[Group, boolean]> {
    const keys = [this.#keys.group(key), this.#keys.position(key, seq)];
    const [entry, place] = await readAll(this.#kv, keys);
    const isThere = isEventRef(place!.value) && place!.value.id === id;
    const isLost = isThere && entry!.versionstamp === null;
    const group = isLost ? undefined : groupOf(key, entry!);
    if (isLost) await this.#mend(key);
    return [group ?? await this.read(key), isThere];
  }

  async #goOn(
    write: Write,
    place: Place,
    notBefore: number,
    goOn: (next: EventRecord) => EventRecord,
  ): Promise<boolean> {
    const { value: ref } = place;
    if (!isEventRef(ref)) return false;
    const key = this.#keys.event(ref);
    const { record, versionstamp } = await readRecord(this.#kv, key);
    if (!record) {
      // Another version may be able to read it, later.
      if (versionstamp !== null) {
        setEntry(write, this.#keys, Date.now() + POSTPONE_MS, ref, null, POSTPONE_MS);
      }
      return false;
    }
    if (!isAt(place, record)) return false;
    if (record.dueAt !== null) {
      write.check({ key, versionstamp });
      setDue(write, this.#keys, record);
      return true;
    }
    const dueAt = Math.max(notBefore, busyUntilOf(record));
    const next = goOn({ ...record, dueAt, delayMs: Math.max(0, dueAt - Date.now()) });
    write.check({ key, versionstamp }).set(key, next);
    setDue(write, this.#keys, next);
    return true;
  }
}

/** Takes what was read of a group; undefined if it is none. */
function groupOf(
  key: string,
  { value, versionstamp }: Deno.KvEntryMaybe<unknown>,
): Group | undefined {
  if (versionstamp === null) {
    return { key, next: 0, size: 0, busyUntil: 0, heldUntil: 0, versionstamp };
  }
  if (!isGroupRecord(value)) return undefined;
  const { next, size, heldUntil = 0 } = value;
  const busyUntil = busyUntilIn(value);
  return { key, next, size, busyUntil, heldUntil, versionstamp };
}

/** Until when a group is busy: no longer than was meant, whatever a clock has said that was set back since. */
function busyUntilIn({ busyUntil = 0, busyMs = Infinity }: GroupRecord): number {
  return Math.min(busyUntil, Date.now() + busyMs);
}

/** The number of a place; -1 for none. */
function seqOf(place: Place | undefined): number {
  return place ? Number(place.key.at(-1)) : -1;
}

/** Whether an event that is not settled stands at a place. */
function isAt({ key }: Place, { group, settledAt }: EventRecord): boolean {
  return settledAt === null && group?.key === key.at(-2) && group?.seq === key.at(-1);
}
