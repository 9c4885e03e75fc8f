import { commit } from "./_commit.ts";
import type { Draft } from "./_draft.ts";
import { readAll } from "./_reads.ts";
import type { StoreKeys } from "./_keys.ts";
import { setDue, setEntry } from "./_schedule.ts";
import { type EventRecord, type EventRef, type LanePlace, readRecord } from "./event_record.ts";

/** For how long an event is left alone whose record cannot be read. */
export const POSTPONE_MS = 3_600_000;

/**
 * For how long those that join a lane leave it to one that leaves. Over a remote KV it takes four
 * answers to leave, and two to join: while others joined without a pause it never came to it.
 */
const HOLD_MS = 500;

/** How often a lane that is held is looked at again. */
const HELD_PAUSE_MS = 20;

/** How many events in a row that cannot be read are passed over at a time: a commit has limits. */
const MAX_PASSED_OVER = 50;

/** What is stored of a lane while events are in it. */
interface LaneRecord {
  /** The place of the next event that joins. */
  readonly next: number;
  /** How many events are in it. */
  readonly size: number;
  /** Until when the handler of one that was cancelled may run, milliseconds since the epoch. */
  readonly busyUntil?: number | undefined;
  /** Until when nobody is to join, for one leaves, milliseconds since the epoch. */
  readonly heldUntil?: number | undefined;
}

/** How an event leaves a lane. */
interface Leaving {
  /** Until when its handler may run, milliseconds since the epoch. */
  readonly busyUntil?: number | undefined;
  /** What becomes of the next one, which is due. */
  readonly goOn?: (next: EventRecord) => EventRecord;
}

/** A lane as it was read. */
export interface Lane {
  readonly key: string;
  readonly next: number;
  readonly size: number;
  readonly busyUntil: number;
  readonly heldUntil: number;
  readonly versionstamp: string | null;
}

/**
 * The lanes of a store: events of one ordering key stand in line, and only the first of them is on the
 * schedule. Each change checks the lane's version, so the changes of a lane happen one after the other.
 */
export class Lanes {
  readonly #kv: Deno.Kv;
  readonly #keys: StoreKeys;

  constructor(kv: Deno.Kv, keys: StoreKeys) {
    this.#kv = kv;
    this.#keys = keys;
  }

  /** Reads a lane. */
  async read(key: string): Promise<Lane> {
    return laneOf(key, await this.#kv.get<LaneRecord>(this.#keys.lane(key)));
  }

  /** Reads a lane that is to be joined, once it is not held any more. */
  async readToJoin(key: string): Promise<Lane> {
    const start = performance.now();
    for (;;) {
      const lane = await this.read(key);
      // Both clocks: that of another machine may be ahead.
      if (lane.heldUntil <= Date.now() || performance.now() - start > HOLD_MS) return lane;
      await new Promise((resolve) => setTimeout(resolve, HELD_PAUSE_MS));
    }
  }

  /** Has those that want to join a lane wait for a moment, so that an event can leave it. */
  async hold(key: string): Promise<void> {
    const { next, size, busyUntil, versionstamp } = await this.read(key);
    if (versionstamp === null) return;
    const record: LaneRecord = { next, size, busyUntil, heldUntil: Date.now() + HOLD_MS };
    await commit(
      this.#kv.atomic().check({ key: this.#keys.lane(key), versionstamp })
        .set(this.#keys.lane(key), record),
    );
  }

  /** Adds joining the end of a lane to a draft. */
  join(draft: Draft, lane: Lane, { id, receivedAt }: EventRef): LanePlace {
    const { key, next, size, busyUntil, versionstamp } = lane;
    const record: LaneRecord = { next: next + 1, size: size + 1, busyUntil };
    draft.check({ key: this.#keys.lane(key), versionstamp })
      .set(this.#keys.lane(key), record)
      .set(this.#keys.lanePlace(key, next), { id, receivedAt } satisfies EventRef);
    return { key, seq: next };
  }

  /**
   * Adds leaving a lane to a draft. If the event was the first, the next one is put on the schedule.
   * Returns the lane as it was.
   */
  async leave(
    draft: Draft,
    place: LanePlace,
    id: string,
    { busyUntil = 0, goOn = (next) => next }: Leaving = {},
  ): Promise<Lane> {
    const { key, seq } = place;
    const [lane, isThere] = await this.#find(place, id);
    // An event that nobody could read for a while may have lost its place to another.
    if (!isThere) return lane;
    const laneKey = this.#keys.lane(key);
    const now = Date.now();
    const notBefore = Math.max(now, busyUntil, lane.busyUntil);
    draft.check({ key: laneKey, versionstamp: lane.versionstamp })
      .delete(this.#keys.lanePlace(key, seq));
    // Of 10,000 keys most have one event at a time: without the reading ×1.1 as many are handled.
    const passedOver = lane.size === 1 ? 0 : await this.#next(draft, place, notBefore, goOn);
    const size = lane.size - 1 - passedOver;
    const record: LaneRecord = { next: lane.next, size: Math.max(0, size), busyUntil: notBefore };
    if (size > 0) draft.set(laneKey, record);
    else if (notBefore > now) draft.set(laneKey, record, { expireIn: notBefore - now });
    else draft.delete(laneKey);
    return lane;
  }

  /**
   * Has the event behind the first one of a lane go on. Returns how many were passed over before: none
   * if it is not the first one that leaves.
   */
  async #next(
    draft: Draft,
    { key, seq }: LanePlace,
    notBefore: number,
    goOn: (next: EventRecord) => EventRecord,
  ): Promise<number> {
    let passedOver = 0;
    let isFirst: boolean | undefined;
    for await (
      const next of this.#kv.list<EventRef>(this.#keys.lanePlaces(key), { batchSize: 2 })
    ) {
      const isOwn = next.key.at(-1) === seq;
      isFirst ??= isOwn;
      if (!isFirst) break;
      if (isOwn) continue;
      if (await this.#goOn(draft, next.value, notBefore, goOn)) break;
      if (passedOver >= MAX_PASSED_OVER) {
        // More do not fit a commit: who looks at this one next goes on.
        const place = { key, seq: Number(next.key.at(-1)) };
        setEntry(draft, this.#keys, Date.now(), next.value, place);
        break;
      }
      // Its record is gone or unreadable: it would hold up the lane for ever.
      draft.delete(next.key);
      passedOver++;
    }
    return passedOver;
  }

  /** Reads a lane, and whether an event has a place in it. */
  async #find({ key, seq }: LanePlace, id: string): Promise<[Lane, boolean]> {
    const keys = [this.#keys.lane(key), this.#keys.lanePlace(key, seq)];
    const [lane, place] = await readAll(this.#kv, keys);
    const isThere = (place?.value as EventRef | null)?.id === id;
    return [laneOf(key, lane as Deno.KvEntryMaybe<LaneRecord>), isThere];
  }

  async #goOn(
    draft: Draft,
    ref: EventRef,
    notBefore: number,
    goOn: (next: EventRecord) => EventRecord,
  ): Promise<boolean> {
    const key = this.#keys.event(ref);
    const { record, versionstamp } = await readRecord(this.#kv, key);
    if (!record) {
      // Another version may be able to read it, later.
      if (versionstamp !== null) {
        setEntry(draft, this.#keys, Date.now() + POSTPONE_MS, ref, null);
      }
      return false;
    }
    const next = goOn({ ...record, dueAt: Math.max(notBefore, record.busyUntil ?? 0) });
    draft.check({ key, versionstamp }).set(key, next);
    setDue(draft, this.#keys, next);
    return true;
  }
}

function laneOf(key: string, { value, versionstamp }: Deno.KvEntryMaybe<LaneRecord>): Lane {
  const { next = 0, size = 0, busyUntil = 0, heldUntil = 0 } = value ?? {};
  return { key, next, size, busyUntil, heldUntil, versionstamp };
}
