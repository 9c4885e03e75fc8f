import { writeLog } from "../../core/mod.ts";
import { MAX_PLACES } from "./batch_options.ts";
import { readyBatch } from "./_batches.ts";
import { tellNewer } from "./_newer.ts";
import type { NotedAttempt, Problems } from "./_problems.ts";
import { applyChange, countCancelled, NEXT_IS_DUE } from "./_settlement.ts";
import { endOfWait, type WaitEnd } from "./_waits.ts";
import {
  beginsBatch,
  inIntake,
  joinedLate,
  leased,
  type LeaseRequest,
  placesOf,
} from "./arrival.ts";
import {
  type Due,
  type DuePage,
  type Moment,
  type Move,
  type Put,
  type Stored,
  TooLargeError,
} from "./engine.ts";
import type { EventRecord } from "./event_record.ts";
import type { EventStore } from "./event_store.ts";
import { cancelled, isCancelRequested } from "./settlement.ts";
import type { Lease, StoreCore } from "./store_core.ts";

/** A change that is too large is refused fast; anything slower is a failure of the engine. In milliseconds. */
const SLOW_MS = 1_000;

/** The number of times in a row that an event fails to be leased before that counts as its own fault. */
const MAX_FAILURES = 3;

/** Delay of that event, unless it is too large, in milliseconds. */
const PUT_OFF_MS = 60_000;

/**
 * Delay of an event that is too large or whose record cannot be read: another version that runs beside this one finds
 * it then. Each is one write.
 */
const POSTPONE_MS = 300_000;

/** The number of events that are remembered as failed. */
const MAX_REMEMBERED = 1_000;

/** The number of events that are read and leased together, those among them that only join their groups. */
const MAX_PAGE = 100;

/** The longest time that an event waits to join its group, in milliseconds. It stays due for the next claim. */
const MAX_WAIT_MS = 4_500;

/** The time after which a claim ends whose events have joined groups: those that are leased wait for it. */
const MAX_JOIN_MS = 200;

/**
 * Time after which what is due and could not be leased is looked at again, in milliseconds: it is left to another
 * worker, its change failed, or another worker was faster.
 */
export const LOOK_AGAIN_MS = 1_000;

/** Reads the first positions of a group: it has no more places. */
const FIRST_POSITIONS = { from: 0, limit: MAX_PLACES, onlyPositions: true } as const;

type ClaimOptions = Parameters<EventStore["claim"]>[0];

/** A claim under way. */
interface Claiming extends ClaimOptions {
  /** Set once events have joined their groups. */
  hasJoined: boolean;
  /** Set once events were found due that were not changed. */
  hasLeft: boolean;
  /** The number of events of the current page that may be leased when they join their groups. */
  room: number;
  /** The events that have become the first of their groups by it: they are left to the next claim. */
  readonly movedUp: Set<string>;
}

/** The indexes of the events of a page that are leased together. */
interface Round {
  readonly meant: readonly number[];
  /** Those without room. */
  readonly left: readonly number[];
  /** The room that is left for those that join their groups. */
  readonly room: number;
}

/** An event that is to be leased. */
interface Claimed {
  readonly due: Due;
  readonly event: Stored;
  /** The end of its wait, if it was parked. */
  readonly end: WaitEnd | undefined;
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
  readonly #core: StoreCore;
  readonly #problems: Problems;
  /** The number of times that events have failed to be leased. */
  readonly #failed = new Map<string, number>();

  constructor(core: StoreCore, problems: Problems) {
    this.#core = core;
    this.#problems = problems;
  }

  /** Leases events that are due. If the engine fails meanwhile, returns those that were leased before. */
  async claim(options: ClaimOptions): Promise<Lease[]> {
    const leases: Lease[] = [];
    try {
      const claiming = { ...options, hasJoined: false, hasLeft: false, room: 0 };
      await this.#claim({ ...claiming, movedUp: new Set() }, leases);
    } catch (error) {
      if (leases.length === 0) throw error;
      writeLog(this.#core.log, "error", "claim failed", { error });
    }
    return leases;
  }

  /** Reads the time since which the longest-waiting event is due; null if none is due. */
  async oldestDueAt(): Promise<number | null> {
    const { engine } = this.#core;
    const now = engine.now();
    const { next } = await engine.due({ until: now, limit: 0 });
    return next != null && next <= now ? next : null;
  }

  async #claim(options: Claiming, leases: Lease[]): Promise<void> {
    const { engine, local } = this.#core;
    const start = performance.now();
    const until = engine.now();
    let limit = options.limit;
    let cursor: string | undefined;
    let next: number | null | undefined;
    // Beyond the first events too: another worker may have been faster with those.
    do {
      const page = await engine.due({ until, limit: Math.min(limit, MAX_PAGE), cursor });
      await this.#putOff(await this.#leaseAll(page, options, leases));
      if (leases.length >= options.limit) return;
      if (options.hasJoined && performance.now() - start > MAX_JOIN_MS) {
        // The rest stays due for the next claim.
        local.listener?.wake();
        return;
      }
      ({ cursor, next } = page);
      limit = options.hasJoined ? MAX_PAGE : 2 * limit;
    } while (cursor !== undefined);
    const later = Math.min(next ?? Infinity, options.hasLeft ? until + LOOK_AGAIN_MS : Infinity);
    if (later < Infinity) local.listener?.onDueLater?.(later);
  }

  /**
   * Leases as many events of a page as there is room for. One that fails does not fail the others.
   *
   * @returns The failures that are the fault of their events.
   */
  async #leaseAll(
    { events, bodies }: DuePage,
    options: Claiming,
    leases: Lease[],
  ): Promise<Failure[]> {
    // Read meanwhile: one by one, and when their turn comes, the payloads would hold up the handlers.
    const reading = bodies.catch(() => []);
    const failures: Failure[] = [];
    // Those that turn out not to be due any more leave their room to others.
    for (
      let left: readonly number[] = [...events.keys()];
      left.length > 0 && leases.length < options.limit;
    ) {
      const round = withinRoom(events, left, options.limit - leases.length);
      options.room = round.room;
      failures.push(...await this.#leaseSome(events, round.meant, reading, options, leases));
      left = round.left;
    }
    return failures;
  }

  /** Leases events at the same time. */
  async #leaseSome(
    events: readonly Due[],
    meant: readonly number[],
    reading: DuePage["bodies"],
    options: Claiming,
    leases: Lease[],
  ): Promise<Failure[]> {
    const start = performance.now();
    const failures: Failure[] = [];
    const tried = await Promise.all(
      meant.map((i) =>
        this.#leaseDue(events[i]!, options).catch((error) => {
          failures.push({ due: events[i]!, error, ms: performance.now() - start });
          return null;
        })
      ),
    );
    const bodies = await reading;
    let count = 0;
    for (const [at, lease] of tried.entries()) {
      if (!lease) continue;
      const i = meant[at]!;
      const event = events[i]!.event as Stored;
      leases.push({ ...lease, body: event.body ?? bodies[i] });
      if (this.#failed.size > 0) this.#failed.delete(lease.record.id);
      count++;
    }
    const own = failures.filter((failure) => this.#isOwn(failure));
    options.hasLeft ||= own.length < failures.length;
    const isEngines = own.length + count === 0 || failures.some(isSlow);
    if (failures.length > 0 && isEngines) throw failures[0]!.error;
    return own;
  }

  /** Checks whether an event itself is at fault, and not the engine: that may fail once or twice. */
  #isOwn({ due: { id }, error }: Failure): boolean {
    const times = (this.#failed.get(id) ?? 0) + 1;
    this.#failed.delete(id);
    if (times >= MAX_FAILURES || error instanceof TooLargeError) return true;
    if (this.#failed.size >= MAX_REMEMBERED) this.#failed.clear();
    this.#failed.set(id, times);
    return false;
  }

  async #leaseDue(due: Due, options: Claiming): Promise<Lease | null> {
    const { event } = due;
    if (!event?.record) return await this.#postpone(due);
    const { record } = event;
    const { engine } = this.#core;
    // If the clock steps back, an event that was found due would look as if it were not, and would be lost.
    const now = Math.max(engine.now(), due.at);
    const isParked = record.state === "parked";
    const isDue = isParked ||
      (record.dueAt === null ? await this.#isStranded(record) : record.dueAt <= now);
    if (!isDue) return await this.#takeOff(due);
    if (options.movedUp.has(due.id)) return null;
    const { takeOver = true, holds } = options;
    const takenOver = record.state === "running";
    const dueSince = isParked ? now : record.dueAt ?? now;
    if ((takenOver && !takeOver) || holds?.(record.id, dueSince)) {
      options.hasLeft = true;
      return null;
    }
    const end = isParked ? await endOfWait(this.#core, record, now) : undefined;
    if (isParked && !end) return await this.#takeOff(due);
    if (isCancelRequested(record)) {
      const applied = await applyChange(this.#core, event, cancelled(record, now), { via: due });
      if (applied.ok) countCancelled(this.#core, record);
      if (applied.ok && applied.head) options.movedUp.add(applied.head.record.id);
      return null;
    }
    const open = end?.record ?? record;
    // Those that join their groups only now do so in this order: none of them waits for another call before.
    const ready = open.quiet && open.group
      ? await readyBatch(engine, open, now, options.handlersOf)
      : open;
    if (ready.dueAt !== null && ready.dueAt > now) {
      const isMoved = await this.#put({ before: event, after: () => ready, via: due });
      options.hasLeft ||= !isMoved;
      return null;
    }
    const claimed = { due, event, end };
    const lease = ready.joinsLater && !takenOver
      ? await this.#joinLate(claimed, ready, options)
      : await this.#lease(claimed, ready, options);
    options.hasLeft ||= !lease;
    if (!lease) return null;
    const since = isParked ? undefined : record.dueAt;
    return { ...lease, takenOver, dueSince: since ?? due.at };
  }

  async #lease(
    { due, event, end }: Claimed,
    ready: EventRecord,
    request: LeaseRequest,
  ): Promise<Stored | null> {
    const after = ({ now }: Moment) => leased(ready, request, now);
    // The attempt that has expired has failed.
    const failed = ready.state === "running"
      ? await this.#problems.attempt(leased(ready, request, this.#core.engine.now()))
      : undefined;
    return await this.#put({ before: event, after, via: due }, end, failed);
  }

  /**
   * Adds an event to its ordering group now that it is claimed: it was stored for later, and its group did not wait
   * for it. If there is a place for it the event is leased in the same change, unless it waits for others to be handled
   * with; otherwise it waits for its turn like any other.
   *
   * @param claimed The event. It is due.
   * @param ready Its record before it joins.
   * @param claiming The claim.
   * @returns The lease; null if the event waits in its group now, or another change was faster.
   */
  async #joinLate(
    { due, event, end }: Claimed,
    ready: EventRecord,
    claiming: Claiming,
  ): Promise<Stored | null> {
    claiming.hasJoined = true;
    let isLeased = false;
    const reserve = (isMeant: boolean) => {
      if (isMeant !== isLeased) claiming.room += isMeant ? -1 : 1;
      isLeased = isMeant;
    };
    const after = ({ now, group, hasPlace = false }: Moment) => {
      const joined = joinedLate(ready, group!, hasPlace, now);
      const canBeLeased = hasPlace && !beginsBatch(joined);
      // Reserved before the change is made: other groups join meanwhile.
      reserve(canBeLeased && (isLeased || claiming.room > 0));
      return isLeased ? leased(joined, claiming, now) : joined;
    };
    const joins = inIntake(ready.intake, ready.orderingKey ?? "");
    let stored: Stored | null = null;
    try {
      const put = { before: event, after, joins, places: placesOf(ready), via: due };
      stored = await this.#put(put, end);
    } finally {
      if (!stored) reserve(false);
    }
    if (isLeased) return stored;
    tellNewer(this.#core, stored);
    return null;
  }

  /** Changes an event; null if another change was faster. */
  async #put(put: Put, end?: WaitEnd, failed?: NotedAttempt): Promise<Stored | null> {
    const turn = put.joins === undefined ? undefined : { withinMs: MAX_WAIT_MS };
    const change = { ...failed, puts: [put], cells: end?.cells, turn, urgency: "work" } as const;
    const applied = await this.#core.engine.apply(change);
    if (!applied.ok) return null;
    end?.onMade?.();
    return applied.written[0]!;
  }

  /** Lets nothing lead to an event any more that is not due. */
  async #takeOff(due: Due): Promise<null> {
    await this.#move(due, null);
    return null;
  }

  /**
   * Checks whether nothing will move an event up that waits in its group: it has lost its position, which happens
   * to one that cannot be leased, or its turn came while its record could not be read.
   */
  async #isStranded({ id, group, settledAt }: EventRecord): Promise<boolean> {
    if (!group || settledAt !== null) return false;
    const { key, position } = group;
    const { engine } = this.#core;
    const { members: [at] } = await engine.group(key, { from: position, limit: 1 });
    if (at?.position !== position || !at.event) return true;
    const other = at.event.record ?? at.event;
    // A position that cannot be read has no id, and holds its group.
    if (other.id !== id) return other.id !== "";
    const { places, members: firsts } = await engine.group(key, FIRST_POSITIONS);
    return firsts.slice(0, places).some((first) => first.position === position);
  }

  /** Puts an event off whose record this version cannot read: another one may read it. */
  async #postpone(due: Due): Promise<null> {
    const isThere = due.event !== undefined;
    // It keeps its position: the events behind it must not come before it.
    const isMoved = await (isThere ? this.#move(due, POSTPONE_MS) : this.#move(due, null, true));
    if (isMoved && isThere) {
      writeLog(this.#core.log, "error", "event record unreadable, left unhandled", {
        eventId: due.id,
      });
    }
    return null;
  }

  /**
   * Puts events off that cannot be leased: they would be the first ones due for ever. If not even that can
   * be written, it is the engine that fails.
   */
  async #putOff(failures: readonly Failure[]): Promise<void> {
    const [first] = failures;
    if (!first) return;
    const moved = await Promise.allSettled(failures.map(async ({ due, error }) => {
      const isTooLarge = error instanceof TooLargeError;
      const delayMs = isTooLarge ? POSTPONE_MS : PUT_OFF_MS;
      if (isTooLarge && await this.#move(due, delayMs, true).catch(() => false)) return;
      await this.#move(due, delayMs);
    }));
    if (moved.every(({ status }) => status === "rejected")) throw first.error;
    const fields = { eventId: first.due.id, events: failures.length, error: first.error };
    writeLog(this.#core.log, "error", "event not leased, put off", fields);
  }

  /**
   * Has an event due at another time.
   *
   * @param due The event.
   * @param afterMs The time until it is due again; null if nothing leads to it any more.
   * @param leavesGroup Set if it leaves its ordering group, so that the next event can be handled.
   * @returns False if what led to it has changed meanwhile.
   */
  async #move(due: Due, afterMs: number | null, leavesGroup = false): Promise<boolean> {
    const move: Move = { event: due, afterMs, via: due, leavesGroup };
    const change = { moves: [move], leave: NEXT_IS_DUE, urgency: "work" } as const;
    return (await this.#core.engine.apply(change)).ok;
  }
}

/**
 * Chooses the events that fit the room. Events that join their groups first take none: most of
 * them are not leased yet.
 */
function withinRoom(events: readonly Due[], indexes: readonly number[], room: number): Round {
  let free = room;
  const [meant, left]: number[][] = [[], []];
  for (const i of indexes) {
    (isJoining(events[i]!.event?.record) || free-- > 0 ? meant! : left!).push(i);
  }
  return { meant: meant!, left: left!, room: Math.max(0, free) };
}

function isJoining(record: EventRecord | undefined): boolean {
  if (!record) return false;
  const { state, joinsLater = false, orderingKey } = record;
  return (joinsLater && state === "queued") || (state === "parked" && orderingKey !== null);
}

/** Checks whether a failure took longer than a refusal does. */
function isSlow({ error, ms }: Failure): boolean {
  return ms > SLOW_MS && !(error instanceof TooLargeError);
}
