import { Tries } from "../../../core/tries.ts";
import {
  type Applied,
  type Change,
  type Engine,
  type Leave,
  type Moment,
  type Move,
  type Put,
  type Stored,
  TooLargeError,
  type Unreadable,
} from "../engine.ts";
import type { EventRecord, EventRef, GroupPosition, PayloadRef } from "../event_record.ts";
import { MAX_WAIT_MS } from "./_concurrency.ts";
import { EventWrite } from "./_event_write.ts";
import type { GroupIntake } from "./_group_intake.ts";
import type { Group } from "./_group_records.ts";
import { forEffects } from "./_kv_guard.ts";
import { RecentIds, takeIds, TURN } from "./_ids.ts";
import { eventIn, findEvents, refOf, remainsOf } from "./_layout.ts";
import { holdGroup, leaveBehind, leaveGroup } from "./_ordering_groups.ts";
import type { StoreParts } from "./_parts.ts";
import { deleteParts, MAX_BODY_BYTES } from "./_payload.ts";
import { type Entry, read, readAll } from "./_reads.ts";
import { deferEntry, type FoundDue, isShared } from "./_schedule.ts";
import { hasTooManyChecks, isTooMuch, Write, type WriteCheck } from "./_write.ts";
import { encodeValue } from "./value_codec.ts";

type KvChange = Change<Deno.AtomicOperation>;

type Refused = Extract<Applied, { readonly ok: false }>;

/** The bytes of a commit in which events leave their group together: it holds 819,200, with what the KV adds. */
const MAX_LEAVING_BYTES = 700_000;

/** The bytes of a commit in which some of them leave it ahead of the others: a smaller one keeps others waiting less. */
const MAX_AHEAD_BYTES = 225_000;

/** The time after which an event that has waited for its turn was probably changed meanwhile, in milliseconds. */
const OLD_MS = 1_000;

/** The number of checks of an event's record and its id, and of its ordering group. */
const [RECORD_CHECKS, GROUP_CHECKS] = [2, 2] as const;

const COVERED = { isCovered: true, isPart: true } as const;

const PART = { isPart: true } as const;

const NONE: readonly never[] = [];

/** The versions of the entries of ids that lead to no event. */
type Freed = Map<string, string | null>;

/** An event that leaves its group together with the first one. */
interface LeavingEvent {
  readonly record: EventRecord;
  /** The bytes that it has added to the write. */
  readonly bytes: number;
}

/** A group that an event leaves by a change. */
interface LeftGroup {
  readonly key: string;
  /** Set if it was handled: the others wait for that. */
  readonly isUrgent: boolean;
}

/** An event that joins an ordering group. */
interface Joining {
  readonly event: EventWrite;
  readonly key: string;
  readonly places: number;
}

/** Makes the method that changes a store. */
export function applying(
  parts: StoreParts,
  joins: GroupIntake,
): Pick<Engine<Deno.AtomicOperation, Deno.Kv>, "apply"> {
  const changes = new Changes(parts, joins);
  return { apply: (change) => changes.apply(change) };
}

/** The changes of a store: each is tried until it is made or refused. */
class Changes {
  readonly #parts: StoreParts;
  readonly #joins: GroupIntake;
  readonly #recent = new RecentIds();

  constructor(parts: StoreParts, joins: GroupIntake) {
    this.#parts = parts;
    this.#joins = joins;
  }

  apply(change: KvChange): Promise<Applied> {
    const { puts = [], urgency } = change;
    const [first] = puts;
    if (first && urgency === "intake" && this.#recent.has(idOf(first))) {
      return this.#takeInAgain(change);
    }
    let chosen = 0;
    for (const put of puts) if (isChosen(put)) chosen++;
    return chosen === 0 ? this.#apply(change) : this.#applyInTurn(change, chosen);
  }

  /** Takes a delivery in, unless its id is known. It was taken in before, but may be forgotten. */
  async #takeInAgain(change: KvChange): Promise<Applied> {
    const [put] = change.puts!;
    const [found] = "must" in put!.before ? await findEvents(this.#parts, [idOf(put!)]) : [];
    return found ? { ok: false, why: "id", found } : await this.#apply(change);
  }

  /** Applies a change with ids that the caller chose: one at a time if they are many. */
  async #applyInTurn(change: KvChange, chosen: number): Promise<Applied> {
    const { locks, commits } = this.#parts;
    if (chosen <= Math.max(1, commits.maxChecks - otherChecks(change))) {
      const applied = await this.#applyUnlessTooMuch(change, chosen);
      if (applied) return applied;
    }
    const { withinMs = MAX_WAIT_MS, signal } = change.turn ?? {};
    const options = { withinMs, signal };
    return await locks.run(TURN, (waitedMs = 0) => this.#applyNow(change, waitedMs), options);
  }

  /** Applies a change that checks each id; undefined if these are too many checks, with those of the effects. */
  async #applyUnlessTooMuch(change: KvChange, chosen: number): Promise<Applied | undefined> {
    try {
      const applied = await this.#apply(change, false);
      const isTooMuch = !applied.ok && applied.why === "effects" && hasTooManyChecks(applied.error);
      return isTooMuch && chosen > 1 ? undefined : applied;
    } catch (error) {
      if (chosen <= 1 || !hasTooManyChecks(error)) throw error;
      return undefined;
    }
  }

  /** Applies a change that has its turn: meanwhile its event may have another version. */
  async #applyNow(change: KvChange, waitedMs: number): Promise<Applied> {
    const [{ before }, ...others] = change.puts as [Put, ...Put[]];
    const again = change.turn?.again;
    const record = "record" in before ? before.record : undefined;
    // A try with an old version takes others the time of four answers.
    const isOld = record !== undefined && again !== undefined && waitedMs > OLD_MS;
    const applied = isOld ? await this.#read(record) : await this.#apply(change, true);
    if (applied.ok || applied.why !== "event" || !applied.found?.record) return applied;
    const put = again?.(applied.found);
    return put ? await this.#apply({ ...change, puts: [put, ...others] }, true) : applied;
  }

  /** Reads an event, as if a change of it had been refused. */
  async #read(record: EventRecord): Promise<Refused> {
    const entry = await read(this.#parts.kv, this.#parts.keys.event(record));
    return { ok: false, why: "event", found: eventIn(entry, record) };
  }

  /**
   * Applies a change. Those of a group are made one at a time: leaving takes more steps than joining, and would lose
   * each race. Settling goes first, because the events that have joined wait for it.
   *
   * @param change The change.
   * @param hasTurn Set if it has its turn to take ids that the caller chose, false if it takes them without, and
   * undefined if there are none.
   * @returns The outcome.
   */
  #apply(change: KvChange, hasTurn?: boolean): Promise<Applied> {
    const left = groupLeftBy(change);
    if (left) return this.#applyLeaving(change, hasTurn, left);
    // Nothing leaves a group ahead of the rest.
    return this.#untilDone(change, hasTurn) as Promise<Applied>;
  }

  /** Applies a change of a group. Each commit ahead of the last one has a turn of its own. */
  async #applyLeaving(
    change: KvChange,
    hasTurn: boolean | undefined,
    { key, isUrgent }: LeftGroup,
  ): Promise<Applied> {
    for (;;) {
      const run = () => this.#untilDone(change, hasTurn);
      const applied = await this.#parts.locks.run(key, run, { isUrgent });
      if (applied) return applied;
    }
  }

  /**
   * Tries a change, anew while others change what it depends on.
   *
   * @returns The outcome; undefined if some events have left their group ahead of the others.
   */
  #untilDone(change: KvChange, hasTurn: boolean | undefined): Promise<Applied | undefined> {
    const attempt = new Attempt(this.#parts, this.#joins, change, hasTurn);
    let preparing: Preparing;
    try {
      preparing = attempt.prepare();
    } catch (error) {
      return Promise.reject(error);
    }
    if (preparing) return this.#goOn(attempt, preparing);
    // Nearly all changes end here. An async function takes half a kilobyte more for each that waits for its commit.
    return attempt.commit().then(
      (version) => version === null ? this.#goOn(attempt) : this.#ended(attempt, version),
      (error) => attempt.failed(error),
    );
  }

  /** Goes on with a change that waits for reads, or whose commit was refused. */
  async #goOn(attempt: Attempt, preparing?: Preparing): Promise<Applied | undefined> {
    let isRefused = preparing === undefined;
    for (const tries = new Tries();;) {
      try {
        const refused = await preparing;
        if (refused) return refused;
        const version = isRefused || attempt.endedBy ? null : await attempt.commit();
        if (version !== null) return this.#ended(attempt, version);
        const refusal = attempt.endedBy ? undefined : await attempt.refusal();
        if (refusal) return refusal;
      } catch (error) {
        return attempt.failed(error);
      }
      if (attempt.endedBy === "ahead") return undefined;
      await tries.next();
      isRefused = false;
      attempt = attempt.again();
      preparing = attempt.prepare();
    }
  }

  /** Ends a change that was made. The ids of deliveries are remembered. */
  #ended(attempt: Attempt, version: string): Applied {
    const { puts, urgency } = attempt.change;
    if (puts && urgency === "intake") { for (const put of puts) this.#recent.add(idOf(put)); }
    return attempt.applied(version);
  }
}

/** The reads that a try needs before its commit, if it does: they may find a reason for which it is refused. */
type Preparing = Promise<Refused | undefined> | undefined;

/** A try to make a change. */
class Attempt {
  readonly change: KvChange;
  /** The ids that lead to no event, as this try and earlier ones have found them; undefined in the first one. */
  freed: Freed | undefined;
  /** Set if it has no commit of its own: some events have left their group ahead of the others, or others were faster. */
  endedBy: "ahead" | "others" | undefined;
  readonly #parts: StoreParts;
  readonly #joins: GroupIntake;
  readonly #hasTurn: boolean | undefined;
  readonly #isFirst: boolean;
  readonly #at: Moment = { now: Date.now() };
  readonly #write = new Write();
  /** The events of the puts; null for one that is left out. */
  #events: readonly (EventWrite | null)[] = NONE;
  /** Reads that the events need before. */
  #readings: Promise<void>[] | undefined;
  /** The event that joins an ordering group. */
  #joining: Joining | undefined;
  /** Set if an event leaves its ordering group. */
  #isLeaving = false;
  /** The next event of the group that is left. */
  #head: EventRecord | undefined;
  /** The error that the effects have thrown. */
  #thrown: { readonly error: unknown } | undefined;

  constructor(
    parts: StoreParts,
    joins: GroupIntake,
    change: KvChange,
    hasTurn: boolean | undefined,
    freed?: Freed,
  ) {
    this.#parts = parts;
    this.#joins = joins;
    this.change = change;
    this.#hasTurn = hasTurn;
    this.freed = freed;
    this.#isFirst = freed === undefined;
  }

  /** Makes the next try of the same change. */
  again(): Attempt {
    const { change, freed = new Map() } = this;
    return new Attempt(this.#parts, this.#joins, change, this.#hasTurn, freed);
  }

  /** Adds the change to a write. */
  prepare(): Preparing {
    if (this.#hasTurn !== undefined) return this.#prepareInTurn();
    this.#addEvents();
    if (this.#readings || this.#isLeaving || this.change.moves) return this.#prepareRest();
    this.#addRest();
    return undefined;
  }

  async #prepareInTurn(): Promise<Refused | undefined> {
    this.#addEvents(await this.#takeIds(this.change.puts!));
    return await this.#prepareRest();
  }

  async #prepareRest(): Promise<Refused | undefined> {
    const { moves } = this.change;
    if (this.#readings) await Promise.all(this.#readings);
    this.#addRest();
    if (moves) { for (const move of moves) await this.#addMove(move); }
    for (let i = 0; i < this.#events.length; i++) {
      const event = this.#events[i];
      if (!event?.left) continue;
      const refused = await this.#leave(event, event.left, i === 0);
      if (refused || this.endedBy) return refused;
    }
    return undefined;
  }

  /** Commits the write. Returns its version; null if a check did not hold. */
  commit(): Promise<string | null> {
    return this.#joining
      ? this.#join(this.#joining)
      : this.#parts.commits.commit(this.#write, this.#hasTurn ? 0 : this.change.withinMs);
  }

  #join({ event, key, places }: Joining): Promise<string | null> {
    const { urgency, turn } = this.change;
    const since = turn || urgency === "intake" ? performance.now() : undefined;
    return this.#joins.join({
      ...{ key, places, base: this.#write, bytes: event.bytes, since },
      add: (write, group, hasPlace) => {
        event.join(write, { now: Date.now(), group, hasPlace });
        return event.record;
      },
    });
  }

  /** Takes the ids that the caller chose. Returns those that are known. */
  #takeIds(puts: readonly Put[]): Promise<Set<string>> {
    const ids = puts.filter(isChosen).map(({ before }) => (before as EventRef).id);
    const turn = { isTaken: this.#hasTurn!, isFirst: this.#isFirst };
    return takeIds(this.#parts, this.#write, [...new Set(ids)], turn);
  }

  /** Adds the events of the puts, but for those whose ids the caller chose and are known. */
  #addEvents(known?: Set<string>): void {
    const { puts } = this.change;
    if (!puts) return;
    const options = puts.some(isJoining) ? PART : undefined;
    this.#events = puts.map((put) => this.#addEvent(put, options, known));
  }

  #addEvent(
    put: Put,
    options: typeof PART | undefined,
    known: Set<string> | undefined,
  ): EventWrite | null {
    const { joins, places = 1 } = put;
    const event = new EventWrite(this.#parts, this.change, put, this.#write, options);
    if (known && isChosen(put)) {
      if (known.has(event.id)) return null;
      // The same id may come again, in the same change.
      known.add(event.id);
    }
    if (joins !== undefined) this.#joining = { event, key: joins, places };
    const at = joins === undefined ? this.#at : behindOthers(this.#at, joins);
    this.#read(event.start(at, this.freed?.get(event.id) ?? null));
    this.#isLeaving ||= event.left !== undefined;
    return event;
  }

  #read(reading: Promise<void> | void): void {
    if (reading) (this.#readings ??= []).push(reading);
  }

  /** Adds a move of an event in the schedule. */
  async #addMove({ event, afterMs, via, leavesGroup = false }: Move): Promise<void> {
    const { keys } = this.#parts;
    const write = this.#write;
    const entry = (via as FoundDue | undefined)?.entry;
    if (entry) write.check({ key: entry.key, versionstamp: entry.versionstamp, why: "via" });
    if (entry) write.delete(entry.key);
    const group = entry && !isShared(entry.value) ? entry.value.group : null;
    if (group && leavesGroup) {
      const { head } = neededLeave(this.change);
      await leaveGroup(this.#parts, write, group, event.id, { onNext: head });
    }
    if (afterMs !== null) deferEntry(write, keys, event, afterMs, leavesGroup ? null : group);
  }

  /** Adds that an event leaves its group, with those that leave it as well. */
  async #leave(
    event: EventWrite,
    place: GroupPosition,
    isFirstPut: boolean,
  ): Promise<Refused | undefined> {
    const leave = neededLeave(this.change);
    if (!this.#isFirst) await holdGroup(this.#parts, place.key);
    if (!isFirstPut) {
      await leaveGroup(this.#parts, this.#write, place, event.id, { onNext: leave.head });
      return undefined;
    }
    const members: LeavingEvent[] = [];
    const group = await leaveGroup(this.#parts, this.#write, place, event.id, {
      last: leave.through,
      onMember: (record) => {
        members.push({ record, bytes: this.#addMember(this.#write, record, leave) });
      },
      onNext: (next, now, at) => {
        const moved = leave.head(next, now, at);
        this.#head ??= moved ?? undefined;
        return moved;
      },
    });
    if (this.#readings) await Promise.all(this.#readings);
    if (this.#write.bytes <= MAX_LEAVING_BYTES || members.length < 2) return undefined;
    return await this.#leaveAhead(group, members.slice(0, -1), leave);
  }

  /**
   * Has some events leave their group ahead of the others, since all of them do not fit one commit. It checks that the
   * first one is still the same. If the process dies in between, the rest is handled by itself.
   */
  async #leaveAhead(
    group: Group,
    members: readonly LeavingEvent[],
    leave: Leave,
  ): Promise<Refused | undefined> {
    const write = new Write().check(this.#write.checks.find(({ why }) => why === "event")!);
    const positions: number[] = [];
    let taken = 0;
    for (const { record, bytes } of members) {
      if (taken > 0 && taken + bytes > MAX_AHEAD_BYTES) break;
      taken += bytes;
      positions.push(record.group!.position);
      this.#addMember(write, record, leave);
    }
    leaveBehind(this.#parts, write, group, positions);
    if (this.#readings) await Promise.all(this.#readings);
    const isMade = await this.#parts.commits.commit(write) !== null;
    this.endedBy = isMade ? "ahead" : "others";
    return isMade ? undefined : await this.#refusal(write);
  }

  /** Adds an event that leaves its group together with the first one. Returns the bytes that it takes. */
  #addMember(write: Write, record: EventRecord, { member }: Leave): number {
    if (!member) return 0;
    const before = write.bytes;
    const { after, keeps, forMs, puts = [], cells, sums } = member(record);
    const put: Put = { before: { record, version: "" }, after: () => after, keeps, forMs };
    this.#read(
      new EventWrite(this.#parts, this.change, put, write, COVERED).start(this.#at, null),
    );
    for (const each of puts) {
      this.#read(
        new EventWrite(this.#parts, this.change, each, write, PART).start(this.#at, null),
      );
    }
    addCells(write, this.#parts, { cells, sums });
    return write.bytes - before;
  }

  /** Adds what stands beside the events. */
  #addRest(): void {
    const { cells, sums, unchanged, drops, effects, urgency, announce } = this.change;
    const { keys } = this.#parts;
    const write = this.#write;
    if (unchanged) {
      for (const { record, version } of unchanged) {
        write.check({ key: keys.event(record), versionstamp: version, why: "event" });
      }
    }
    if (cells || sums) addCells(write, this.#parts, { cells, sums });
    if (drops) { for (const payload of drops) dropPayload(write, this.#parts, payload); }
    if (effects) {
      write.effects = (commit) => {
        try {
          effects(forEffects(commit, keys.namespaces));
        } catch (error) {
          this.#thrown = { error };
          throw error;
        }
      };
    }
    write.isIntake = urgency === "intake";
    write.notifies = announce ?? false;
  }

  /** Returns the outcome of a commit that was made. */
  applied(version: string): Applied {
    const written = this.#events.map((event) => event && event.written(version));
    const record = this.#head;
    return { ok: true, version, written, head: record && { record, version } };
  }

  /** Refuses the change if its effects are to blame for an error: then nothing was made. Throws any other error. */
  failed(error: unknown): Refused {
    // A KV refuses what it cannot store before it begins.
    const isOfEffects = this.change.effects !== undefined &&
      (this.#thrown !== undefined || hasTooManyChecks(error) ||
        (error instanceof TypeError && !isTooMuch(error)));
    if (!isOfEffects) throw isTooMuch(error) ? tooLarge(error) : error;
    return { ok: false, why: "effects", error: this.#thrown ? this.#thrown.error : error };
  }

  /** Finds out why the change was refused; undefined if it is to be made anew. */
  refusal(): Promise<Refused | undefined> {
    return this.#refusal(this.#write);
  }

  async #refusal({ checks }: Write): Promise<Refused | undefined> {
    const entries = await readAll(this.#parts.kv, checks.map(({ key }) => key));
    let isOvertaken = false;
    for (const [i, check] of checks.entries()) {
      if (entries[i]!.versionstamp === check.versionstamp) continue;
      const refused = await this.#reasonOf(check, entries[i]!);
      if (refused) return refused;
      isOvertaken = true;
    }
    if (isOvertaken || !this.change.effects) return undefined;
    const error = new Error("A check among the effects does not hold");
    return { ok: false, why: "effects", error };
  }

  /** Finds out why a change is refused of which a check does not hold. */
  async #reasonOf({ why, key }: WriteCheck, entry: Entry): Promise<Refused | undefined> {
    switch (why) {
      case undefined:
        return undefined;
      case "id": {
        const found = await this.#holderOf(key, entry);
        return found && { ok: false, why, found };
      }
      case "event":
        return { ok: false, why, found: eventIn(entry, refOf(key)) };
      default:
        return { ok: false, why };
    }
  }

  /** Finds the event that has an id. Without one the next try takes the id over. */
  async #holderOf(key: Deno.KvKey, entry: Entry): Promise<Stored | Unreadable | undefined> {
    const ref = refOf(key);
    const [found] = await findEvents(this.#parts, [ref.id]);
    if (found) return found;
    if (key.length > this.#parts.keys.id(ref.id).length) return eventIn(entry, ref);
    (this.freed ??= new Map()).set(ref.id, entry.versionstamp);
    return undefined;
  }
}

/** Returns the id of the event of a put. */
function idOf({ before }: Put): string {
  return "record" in before && before.record ? before.record.id : (before as EventRef).id;
}

/** Checks for a put that is left out if its id is known. */
function isChosen({ before }: Put): boolean {
  return "must" in before && before.must === "skip";
}

/** Checks for a put whose event joins an ordering group. */
function isJoining({ joins }: Put): boolean {
  return joins !== undefined;
}

/** Counts the checks of a change beside those of the ids that the caller chose. */
function otherChecks({ puts = [], cells = [], unchanged = [] }: KvChange): number {
  const isInGroup = puts.some(({ before }) => "record" in before && before.record?.group);
  const events = puts.filter(({ before }) => !("must" in before)).length;
  const absent = puts.filter(({ before }) => "must" in before && before.must === "absent").length;
  const checked = cells.filter(({ version }) => version !== undefined).length;
  return RECORD_CHECKS * events + absent + checked + unchanged.length +
    (isInGroup ? GROUP_CHECKS : 0);
}

/** Finds the group that an event leaves by a change. */
function groupLeftBy(
  { puts }: KvChange,
): LeftGroup | undefined {
  if (!puts) return undefined;
  for (const { before, after } of puts) {
    if ("must" in before) continue;
    const { group } = before.record ?? remainsOf(before);
    if (!group || after?.({ now: Date.now() }).group) continue;
    return { key: group.key, isUrgent: before.record?.state === "running" };
  }
  return undefined;
}

/** Returns what becomes of the groups that events leave. Throws a `TypeError` if the change does not say so. */
function neededLeave({ leave }: KvChange): Leave {
  if (!leave) {
    throw new TypeError("Cannot apply the change: an event leaves its group without a 'leave'");
  }
  return leave;
}

/** Makes a moment for finding out what follows from joining a group, before the position is known. */
function behindOthers({ now }: Moment, key: string): Moment {
  return { now, group: { key, position: 0 }, hasPlace: false };
}

function addCells(
  write: Write,
  { keys }: StoreParts,
  { cells = [], sums = [] }: Pick<KvChange, "cells" | "sums">,
): void {
  for (const { key, version, after, forMs } of cells) {
    const stored = keys.cell(key);
    if (version !== undefined) write.check({ key: stored, versionstamp: version, why: "cell" });
    const options = forMs === undefined ? undefined : { expireIn: forMs };
    if (after === null) write.delete(stored);
    else if (after !== undefined) write.set(stored, encodeValue(after), options);
  }
  for (const sum of sums) {
    if ("by" in sum) write.sum(keys.cell(sum.key), sum.by);
    else write.setSum(keys.cell(sum.key), sum.to);
  }
}

/** Deletes a payload that no record names. */
function dropPayload(write: Write, { keys }: StoreParts, ref: PayloadRef): void {
  deleteParts(write, keys, ref);
  // It may have been uploaded in vain.
  if (ref.size > MAX_BODY_BYTES) write.delete(keys.upload(ref.id));
}

function tooLarge(cause: unknown): TooLargeError {
  return new TooLargeError(cause instanceof Error ? cause.message : String(cause), { cause });
}
