import type { StoreKeys } from "./_keys.ts";
import { setDue } from "./_schedule.ts";
import { type EventRecord, type LanePlace, readRecord } from "./event_record.ts";

/** For how long an event is left alone whose record cannot be read. */
export const POSTPONE_MS = 3_600_000;

/** What is stored of a lane while events are in it. */
interface LaneRecord {
  /** The place of the next event that joins. */
  readonly next: number;
  /** How many events are in it. */
  readonly size: number;
}

/** A lane as it was read. */
export interface Lane {
  readonly key: string;
  readonly next: number;
  readonly size: number;
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
    const { value, versionstamp } = await this.#kv.get<LaneRecord>(this.#keys.lane(key));
    return { key, next: value?.next ?? 0, size: value?.size ?? 0, versionstamp };
  }

  /** Adds joining the end of a lane to a commit. */
  join(commit: Deno.AtomicOperation, lane: Lane, id: string): LanePlace {
    const { key, next, size, versionstamp } = lane;
    const record: LaneRecord = { next: next + 1, size: size + 1 };
    commit.check({ key: this.#keys.lane(key), versionstamp })
      .set(this.#keys.lane(key), record)
      .set(this.#keys.lanePlace(key, next), id);
    return { key, seq: next };
  }

  /**
   * Adds leaving a lane to a commit. If the event was the first, the next one is put on the schedule.
   * Returns the lane as it was.
   */
  async leave(
    commit: Deno.AtomicOperation,
    { key, seq }: LanePlace,
    nextNotBefore = 0,
  ): Promise<Lane> {
    const lane = await this.read(key);
    const laneKey = this.#keys.lane(key);
    commit.check({ key: laneKey, versionstamp: lane.versionstamp })
      .delete(this.#keys.lanePlace(key, seq));
    let left = 1;
    let isFirst: boolean | undefined;
    for await (const place of this.#kv.list<string>(this.#keys.lanePlaces(key), { batchSize: 2 })) {
      const isOwn = place.key.at(-1) === seq;
      isFirst ??= isOwn;
      if (!isFirst) break;
      if (isOwn) continue;
      if (await this.#schedule(commit, place.value, nextNotBefore)) break;
      // Its record is gone or unreadable: it would hold up the lane for ever.
      commit.delete(place.key);
      left++;
    }
    const size = lane.size - left;
    if (size <= 0) commit.delete(laneKey);
    else commit.set(laneKey, { next: lane.next, size } satisfies LaneRecord);
    return lane;
  }

  async #schedule(
    commit: Deno.AtomicOperation,
    id: string,
    notBefore: number,
  ): Promise<boolean> {
    const key = this.#keys.event(id);
    const { record, versionstamp } = await readRecord(this.#kv, key);
    if (!record) {
      // Another version may be able to read it, later.
      if (versionstamp !== null) commit.set(this.#keys.due(Date.now() + POSTPONE_MS, id), null);
      return false;
    }
    const due: EventRecord = { ...record, dueAt: Math.max(Date.now(), notBefore) };
    commit.check({ key, versionstamp }).set(key, due);
    setDue(commit, this.#keys, due);
    return true;
  }
}
