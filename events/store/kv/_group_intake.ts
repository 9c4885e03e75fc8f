import { NoTurnError } from "../engine.ts";
import type { EventRecord, GroupPosition } from "../event_record.ts";
import { MAX_WAIT_MS } from "./_concurrency.ts";
import type { Group } from "./_group_records.ts";
import { joinGroup, placeFor, readToJoin, withPlaces } from "./_ordering_groups.ts";
import type { StoreParts } from "./_parts.ts";
import { readAll } from "./_reads.ts";
import { hasTooManyChecks, isTooMuch, Write } from "./_write.ts";

/** The largest number of events that join in a commit, and of its checks: others need room beside them. */
const MAX_CHECKS = 90;

/** The bytes and mutations of a commit beyond which no further event joins in it. */
const [MAX_BYTES, MAX_MUTATIONS] = [500_000, 800] as const;

/**
 * The number of commits in a turn: the first event of the group waits meanwhile to leave it, but storing comes
 * before handling.
 */
const MAX_COMMITS = 3;

/** An event that is to join a group. */
export interface Joining {
  /** The key of the group. */
  readonly key: string;
  /** The number of places that the group has from then on. */
  readonly places: number;
  /** The checks and changes of its commit that do not depend on its position. */
  readonly base: Write;
  /** The number of bytes of its payload that its record adds to a write. */
  readonly bytes: number;
  /** The time from which on it waits, by the monotonic clock, if somebody waits for its answer. */
  readonly since?: number | undefined;
  /**
   * Adds its record to a write.
   *
   * @param write The write.
   * @param position Its position in the group.
   * @param hasPlace Set if it can be handled beside the others in the group.
   * @returns Its record in the group.
   */
  add(write: Write, position: GroupPosition, hasPlace: boolean): EventRecord;
}

/** An event that waits to join. */
interface Waiting extends Joining {
  readonly ended: PromiseWithResolvers<string | null>;
}

/** The events that wait to join one group. */
interface Queue {
  waiting: Waiting[];
  /** The number of them that join in a commit, at most. */
  max: number;
}

/** The events that join in one commit. */
interface Joined {
  readonly write: Write;
  readonly events: readonly Waiting[];
  /** The group with them, but for its version. */
  readonly after: Group;
}

/** A turn of a group's queue. */
interface Turn {
  /** The events whose commit is under way; undefined before the group is read. */
  events: readonly Waiting[] | undefined;
}

/**
 * The way into ordering groups. Each change of a group checks the group's record, so one commit follows the
 * other, and over a remote KV each takes the time of two answers. What comes meanwhile joins together, in one
 * commit: otherwise a group took in eight events a second, and the rest was answered 503 and stored later. Of a
 * thousand reminders that are due at once, each would wait for all before it.
 *
 * A commit fails for all of its events. Then the checks of each are read again: an event of which one does not
 * hold is refused, and the others join anew.
 */
export class GroupIntake {
  readonly #parts: StoreParts;
  readonly #queues = new Map<string, Queue>();

  constructor(parts: StoreParts) {
    this.#parts = parts;
  }

  /**
   * Adds an event to the end of the group of its ordering key.
   *
   * @param joining The event.
   * @returns The version of what was stored; null if one of its own checks did not hold.
   * @throws {NoTurnError} If it has waited for too long. Nothing of it is stored then.
   */
  join(joining: Joining): Promise<string | null> {
    const { key } = joining;
    const waiting: Waiting = { ...joining, ended: Promise.withResolvers() };
    const queue = this.#queues.get(key);
    if (queue) queue.waiting.push(waiting);
    else {
      this.#queues.set(key, { waiting: [waiting], max: MAX_CHECKS });
      this.#joinAll(key);
    }
    return waiting.ended.promise;
  }

  async #joinAll(key: string): Promise<void> {
    const queue = this.#queues.get(key)!;
    while (queue.waiting.length > 0) {
      const turn: Turn = { events: undefined };
      try {
        const again = await this.#parts.locks.run(key, () => this.#takeTurn(key, queue, turn));
        queue.waiting.unshift(...again);
      } catch (error) {
        const failed = turn.events ?? queue.waiting.splice(0, this.#maxChecks);
        for (const { ended } of failed) ended.reject(error);
      }
    }
    this.#queues.delete(key);
  }

  /** Makes the commits of a turn. Returns the events that are to join anew. */
  async #takeTurn(key: string, queue: Queue, turn: Turn): Promise<readonly Waiting[]> {
    let group = await readToJoin(this.#parts, key);
    for (let commits = 0; commits < MAX_COMMITS; commits++) {
      if (queue.waiting.some(({ places }) => places > 1)) {
        group = await withPlaces(this.#parts, group);
      }
      const some = this.#take(queue, group);
      turn.events = some.events;
      if (some.events.length === 0) return [];
      const { version, again } = await this.#commit(queue, some);
      if (version === null) return again;
      group = { ...some.after, versionstamp: version };
    }
    return [];
  }

  get #maxChecks(): number {
    return Math.min(MAX_CHECKS, this.#parts.commits.maxChecks);
  }

  /** Takes the events out of a queue that join in one commit. */
  #take(queue: Queue, group: Group): Joined {
    const write = new Write();
    const events: Waiting[] = [];
    const records: EventRecord[] = [];
    const left: Waiting[] = [];
    const checked = new Set<string>();
    const now = performance.now();
    let isFull = false;
    let { places } = group;
    for (const waiting of queue.waiting) {
      const { base, since, ended } = waiting;
      if (since !== undefined && now - since > MAX_WAIT_MS) {
        ended.reject(new NoTurnError(`the ordering group was busy for ${MAX_WAIT_MS} ms`));
        continue;
      }
      isFull ||= events.length > 0 &&
        (events.length >= queue.max || !fits(write, waiting, this.#maxChecks));
      // All checks see the state before the commit: of two events with the same id both would hold.
      const keys = base.checks.map(({ key }) => JSON.stringify(key));
      if (isFull || keys.some((key) => checked.has(key))) {
        left.push(waiting);
        continue;
      }
      for (const key of keys) checked.add(key);
      const [next, size] = [group.next + events.length, group.size + events.length];
      const [after, hasPlace] = placeFor({ ...group, next, size, places }, waiting.places);
      places = after;
      records.push(waiting.add(write.include(base), { key: group.key, position: next }, hasPlace));
      events.push(waiting);
    }
    queue.waiting = left;
    return { write, events, after: joinGroup(this.#parts, write, group, records, places) };
  }

  /** Commits events that join together. Without a version, some are to join anew. */
  async #commit(
    queue: Queue,
    { write, events }: Joined,
  ): Promise<{ readonly version: string | null; readonly again: readonly Waiting[] }> {
    const { commits } = this.#parts;
    let version: string | null;
    try {
      version = await commits.commit(write);
    } catch (error) {
      if (!isTooMuch(error) || events.length === 1) throw error;
      // By now it is known how many checks the KV takes.
      const isRemote = hasTooManyChecks(error) && write.checks.length > commits.maxChecks;
      if (!isRemote) queue.max = events.length >> 1;
      return { version: null, again: events };
    }
    if (version === null) return { version, again: await this.#unchanged(events) };
    for (const { ended } of events) ended.resolve(version);
    return { version, again: [] };
  }

  /** Refuses the events of which a check does not hold any more, and returns the others. */
  async #unchanged(events: readonly Waiting[]): Promise<readonly Waiting[]> {
    const checks = events.flatMap(({ base }) => base.checks);
    const entries = (await readAll(this.#parts.kv, checks.map(({ key }) => key))).values();
    return events.filter(({ base, ended }) => {
      // Of each check, since the entries are taken one after the other.
      const stale = base.checks.filter(({ versionstamp }) =>
        entries.next().value!.versionstamp !== versionstamp
      );
      if (stale.length > 0) ended.resolve(null);
      return stale.length === 0;
    });
  }
}

/** Checks whether an event fits a write in which others join. */
function fits(write: Write, { base, bytes }: Waiting, maxChecks: number): boolean {
  return write.checks.length + base.checks.length < maxChecks &&
    write.bytes + base.bytes + bytes <= MAX_BYTES && write.size + base.size <= MAX_MUTATIONS;
}
