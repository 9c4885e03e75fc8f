import type { Bytes, Change, Due, Moment, Put, Stored, Unreadable } from "../engine.ts";
import type { EventRecord, EventRef, GroupPosition, PayloadRef } from "../event_record.ts";
import {
  DAY_MS,
  MARGIN_MS,
  MARK,
  type Mutations,
  type Notes,
  notesOf,
  readEvent,
  remainsOf,
  UndecodableError,
} from "./_layout.ts";
import type { StoreParts } from "./_parts.ts";
import { deleteParts, fitsRecord, setParts } from "./_payload.ts";
import { isUndecodable, read } from "./_reads.ts";
import { deleteDue, type FoundDue, isAtEntry, setDue } from "./_schedule.ts";
import { type LateRecord, Write, type WriteCheck } from "./_write.ts";
import { encodeValue } from "./value_codec.ts";

/** Change of the entry of an event's id: it stays, is written, or is written once it is known whose it is. */
type IdStep = "leave" | "set" | "look";

/** Special cases of the put of an event. */
interface EventWriteOptions {
  /** Set if its version is not checked, because the check of its ordering group covers it. */
  readonly isCovered?: boolean | undefined;
  /** Set if its record is made at once, because its write becomes a part of another one. */
  readonly isPart?: boolean | undefined;
}

const PLAIN: EventWriteOptions = {};

/** A version that no entry has. */
const NO_VERSION = "0".repeat(20);

/**
 * Result of a put, in a write: the event's record, and all that follows from the record before and after. That
 * is its schedule entry, its id, the parts of its payload and its entry in the index of dead events.
 */
export class EventWrite implements LateRecord {
  /** The record after, as it was made last; null if the event is deleted. */
  #after: EventRecord | null = null;
  /** The record before, if there is one that can be read. */
  readonly #before: EventRecord | undefined;
  /** The position in its ordering group that the event leaves by this. */
  left: GroupPosition | undefined;
  /** Set if the event is new, or a settled one that is open again. */
  #isNew: boolean;
  #setsId = false;
  /** Set if the id is known to lead to the event for as long as that is open. */
  #idKept: true | undefined;
  /** The payload that was uploaded before. */
  #uploaded: PayloadRef | undefined;
  /** The payload, if it has to be written. */
  #body: Bytes | undefined;
  readonly #parts: StoreParts;
  readonly #change: Change<Deno.AtomicOperation>;
  readonly #put: Put;
  readonly #write: Write;
  readonly #options: EventWriteOptions;

  /**
   * @param parts The store.
   * @param change The change.
   * @param put The put of the change.
   * @param write The write, to which all is added.
   * @param options What is special about it.
   */
  constructor(
    parts: StoreParts,
    change: Change<Deno.AtomicOperation>,
    put: Put,
    write: Write,
    options: EventWriteOptions = PLAIN,
  ) {
    this.#parts = parts;
    this.#change = change;
    this.#put = put;
    this.#write = write;
    this.#options = options;
    this.#body = put.body;
    const { before } = put;
    this.#before = "record" in before ? before.record : undefined;
    this.#isNew = "must" in before;
  }

  /** The event's id. */
  get id(): string {
    const { before } = this.#put;
    return this.#before?.id ?? (before as EventRef).id;
  }

  /** The record after. */
  get record(): EventRecord {
    return this.#after!;
  }

  /** The number of bytes of its payload that its record adds to a write. */
  get bytes(): number {
    return this.#body?.byteLength ?? 0;
  }

  /**
   * Adds the put to its write: all of it unless the event joins an ordering group.
   *
   * @param at The moment.
   * @param idVersion The version of the entry that the id of a new event has, which leads to no event.
   * @returns A promise if something has to be read for that.
   */
  start(at: Moment, idVersion: string | null): Promise<void> | void {
    const { before, after, via } = this.#put;
    if ("must" in before) return this.#create(before, at, idVersion);
    if (via) removeVia(this.#write, via, before.record);
    if (!before.record) return this.#deleteUnreadable(before);
    return after ? this.#replace(before, after(at), at) : this.#delete(before);
  }

  /**
   * Adds the record of an event that joins an ordering group.
   *
   * @param write The write in which it joins.
   * @param at The moment, with its position.
   */
  join(write: Write, at: Moment): void {
    this.#make(this.#put.after!(at), at.now);
    this.addTo(write);
    if (this.#change.announce) write.notifies = true;
  }

  begin(now: number): number | undefined {
    this.#make(this.#put.after!({ now }), now);
    this.#write.notifies = this.#change.announce ?? false;
    const { group, lease } = this.record;
    return group === null && isLeasedAt(this.record, now) ? lease!.ms : undefined;
  }

  share(entry: string): void {
    // Its notes were made with it.
    (notesOf(this.record) as { sharedEntry?: string | undefined }).sharedEntry = entry;
  }

  addTo(commit: Mutations): void {
    const { keys } = this.#parts;
    const record = this.record;
    const { holdsPayload } = notesOf(record);
    if (this.#body && !holdsPayload) this.#setParts(commit, this.#body);
    const { forMs } = this.#put;
    const options = record.state === "done" && forMs !== undefined
      ? { expireIn: forMs }
      : undefined;
    commit.set(keys.event(record), encodeValue(record, holdsPayload && this.#body), options);
    setDue(commit, keys, record);
    if (record.state === "dead") commit.set(keys.dead(record), MARK);
    if (record.problem !== undefined) this.#setProblem(commit, record);
    if (this.#setsId) this.#setId(commit, record);
  }

  /** Adds the entry in the index of its problem, if that is not as it was. */
  #setProblem(commit: Mutations, record: EventRecord): void {
    const isThere = problemEntry(this.#before, record) === problemEntry(record, record);
    if (isThere || record.state === "done") return;
    commit.set(
      this.#parts.keys.failed(record.problem!, record),
      encodeValue(record.state === "dead"),
    );
  }

  /** Returns the event as a commit has written it; null if it was deleted. */
  written(version: string): Stored | null {
    if (this.#uploaded) this.#parts.uploads.forget(this.#uploaded);
    return this.#after && { record: this.#after, version, body: this.#put.body };
  }

  #setParts(commit: Mutations, body: Bytes): void {
    const payload = this.record.payload ?? this.#put.keeps;
    if (payload) setParts(commit, this.#parts.keys, payload, body);
  }

  /** Adds a new event. */
  #create(
    { id, must }: Extract<Put["before"], { readonly must: unknown }>,
    at: Moment,
    idVersion: string | null,
  ): void {
    const { keys } = this.#parts;
    if (must === "absent") {
      this.#write.check({ key: keys.id(id), versionstamp: idVersion, why: "id" });
    }
    this.#setsId = true;
    const isIntake = this.#change.urgency === "intake";
    const joins = this.#put.joins !== undefined;
    if (isIntake && this.#body) {
      if (joins) return;
      if (this.#mayBeLate) return void this.#write.lease(this, this.#body.byteLength);
    }
    const after = this.#put.after!(at);
    if (must === "absent" && !isIntake) {
      // An event from another store may be here already, although its id is forgotten.
      this.#write.check({ key: keys.event(after), versionstamp: null, why: "id" });
    }
    this.#takeUpload(after.payload ?? this.#put.keeps);
    if (joins) return;
    this.#make(after, at.now);
    this.addTo(this.#write);
  }

  /** Adds a change of an event. */
  #replace(before: Stored, after: EventRecord, at: Moment): Promise<void> | void {
    const { record } = before;
    this.#check(record, before.version);
    if (record.group && !after.group) this.left = record.group;
    this.#isNew = record.settledAt !== null && after.settledAt === null;
    this.#remove(record, after);
    if (record.payload?.id !== after.payload?.id) this.#takeUpload(after.payload);
    const step = this.#idStep(record, after);
    const packed = this.#packed(record, after);
    if (packed) this.#body = before.body;
    this.#setsId = step === "set";
    this.#idKept = notesOf(record).idKept || step === "set" ? true : undefined;
    if (step !== "look" && (!packed || this.#body)) return this.#finish(after, at);
    return this.#readAndFinish(after, at, step, packed);
  }

  /** Finds the payload that is in the record before, and stays, but in a part of its own. */
  #packed(before: EventRecord, after: EventRecord): PayloadRef | undefined {
    const { payload } = before;
    if (!payload || !notesOf(before).holdsPayload) return undefined;
    const stays = payload.id === after.payload?.id || payload.id === this.#put.keeps?.id;
    return stays ? payload : undefined;
  }

  async #readAndFinish(
    after: EventRecord,
    at: Moment,
    step: IdStep,
    packed: PayloadRef | undefined,
  ): Promise<void> {
    if (step === "look") await this.#takeId(this.#before!);
    // If the record has lost its payload, reading that fails later, and says so.
    if (packed) this.#body ??= await this.#readBody(this.#before!);
    this.#finish(after, at);
  }

  async #readBody(before: EventRecord): Promise<Bytes | undefined> {
    const event = await readEvent(this.#parts, before);
    return event?.record && event.body;
  }

  #finish(after: EventRecord, at: Moment): void {
    if (this.#put.joins !== undefined) return;
    // An event in a group has its own entry in the schedule: that names its position.
    if (this.#mayBeLate && after.group === null && isLeasedAt(after, at.now)) {
      this.#write.lease(this, this.bytes);
      return;
    }
    this.#make(after, at.now);
    this.addTo(this.#write);
  }

  get #mayBeLate(): boolean {
    return !this.#write.leased && !this.#options.isPart;
  }

  #check(event: EventRef, version: string): void {
    if (this.#options.isCovered) return;
    const key = this.#parts.keys.event(event);
    this.#write.check({ key, versionstamp: version, why: "event" });
  }

  /** Makes the record that is stored: the one that the put has made, with the notes of this engine. */
  #make(after: EventRecord, now: number): void {
    const record: { -readonly [K in keyof EventRecord]: EventRecord[K] } = after === this.#before
      ? { ...after }
      : after;
    record.engine = this.#notesOn(after, now);
    this.#after = record;
  }

  #notesOn(after: EventRecord, now: number): Notes | undefined {
    if (after.state === "done") return undefined;
    const holdsPayload = this.#holdsPayload(after, now) || undefined;
    return { sharedEntry: undefined, idKept: this.#idKeptOf(after), holdsPayload };
  }

  /**
   * Checks whether a payload that is written lies in the record. That saves work only if the event is settled at once,
   * or is one of many: otherwise each change of the record would write the payload again. One that will be kept
   * when the event is done would have to be written again then.
   */
  #holdsPayload(after: EventRecord, now: number): boolean {
    const { payload, group } = after;
    if (!payload || !this.#body || group !== null || !fitsRecord(payload)) return false;
    if (this.#before?.payload?.id === payload.id || !isFresh(after)) return false;
    if (isLeasedAt(after, now)) return !this.#parts.keepsPayloads;
    const isWork = this.#change.urgency === "work";
    return isWork && this.#before === undefined && after.state === "queued";
  }

  #idKeptOf({ state }: EventRecord): true | undefined {
    if (state === "done") return undefined;
    // Nearly all events that are leased in the commit that stores them are settled soon.
    if (this.#isNew) return state === "running" && this.#put.forMs !== undefined ? undefined : true;
    return this.#idKept;
  }

  #idStep(before: EventRecord, after: EventRecord): IdStep {
    const isKept = notesOf(before).idKept === true;
    // The id of an event that is covered is kept already.
    if (this.#options.isCovered) return after.state === "done" ? "set" : "leave";
    if (this.#isNew) return isKept && before.receivedAt === after.receivedAt ? "set" : "look";
    const mayBeOthers = !isKept && isOld(after.receivedAt);
    if (after.state === "done") return isKept ? "set" : mayBeOthers ? "look" : "leave";
    // A dead event's entry is written even if it should exist: operators find the event by its id.
    if (after.state === "dead" || mayBeOthers) return "look";
    return isKept ? "leave" : "set";
  }

  /** Takes an id whose entry may have expired: a redelivery may own it since. */
  async #takeId(before: EventRecord): Promise<void> {
    const { kv, keys } = this.#parts;
    const entry = await read(kv, keys.id(before.id));
    const isOthers = typeof entry.value === "number" && entry.value !== before.receivedAt;
    if (this.#isNew && isUndecodable(entry)) {
      throw new UndecodableError(`the entry of the id ${before.id}`);
    }
    // Then the change is refused: there is another event of this id.
    if (this.#isNew && isOthers) {
      this.#write.check({ key: entry.key, versionstamp: null, why: "id" });
    }
    if (isOthers || isUndecodable(entry)) return;
    this.#write.check(entry);
    this.#setsId = true;
    this.#idKept = true;
  }

  #setId(commit: Mutations, record: EventRecord): void {
    const { id, receivedAt } = record;
    const { forMs } = this.#put;
    const options = notesOf(record).idKept || forMs === undefined
      ? undefined
      : { expireIn: forMs + (this.#isNew ? MARGIN_MS : 0) };
    commit.set(this.#parts.keys.id(id), encodeValue(receivedAt), options);
  }

  /** Removes what the record before has led to. */
  #remove(before: EventRecord, after: EventRecord | null): void {
    const { keys } = this.#parts;
    const write = this.#write;
    const { sharedEntry, holdsPayload } = notesOf(before);
    if (sharedEntry) {
      write.leave(before);
      // Once it was due it may have been taken apart.
      if (before.dueAt! <= Date.now()) write.delete(keys.due(before.dueAt!, before.id));
    }
    deleteDue(write, keys, before);
    const isMoved = before.receivedAt !== after?.receivedAt;
    if (isMoved) write.delete(keys.event(before));
    const { payload } = before;
    const stays = payload?.id === after?.payload?.id || payload?.id === this.#put.keeps?.id;
    if (payload && !stays && !holdsPayload) deleteParts(write, keys, payload);
    if (before.state === "dead" && (isMoved || after?.state !== "dead")) {
      write.delete(keys.dead(before));
    }
    const { problem } = before;
    if (
      problem !== undefined && (isMoved || after?.problem !== problem || after.state === "done")
    ) {
      write.delete(keys.failed(problem, before));
    }
  }

  async #delete({ record, version }: Stored): Promise<void> {
    this.#check(record, version);
    if (record.group) this.left = record.group;
    this.#remove(record, null);
    await this.#deleteId(record);
  }

  async #deleteUnreadable(event: Unreadable): Promise<void> {
    const { keys } = this.#parts;
    const { group, payload, problem } = remainsOf(event);
    const write = this.#write;
    this.#check(event, event.version);
    write.delete(keys.event(event));
    write.delete(keys.dead(event));
    if (problem !== undefined) write.delete(keys.failed(problem, event));
    if (payload) deleteParts(write, keys, payload);
    if (group) this.left = group;
    await this.#deleteId(event);
  }

  /** Deletes the entry of an id, unless it is another event's by now, because it had expired. */
  async #deleteId({ id, receivedAt }: EventRef): Promise<void> {
    const { kv, keys } = this.#parts;
    const entry = await read(kv, keys.id(id));
    if (entry.value === receivedAt) this.#write.check(entry).delete(entry.key);
  }

  /** True if its payload, when it is not in the change, can only be one that was uploaded before. */
  get #isIncoming(): boolean {
    return "must" in this.#put.before || this.#change.urgency === "intake";
  }

  /** Takes over a payload that was uploaded before. */
  #takeUpload(payload: PayloadRef | null | undefined): void {
    if (!payload || this.#body) return;
    if (this.#parts.uploads.take(this.#write, payload)) this.#uploaded = payload;
    else if (this.#isIncoming) this.#write.check(deletedUpload(this.#parts, payload));
  }
}

/**
 * Changes an event outside of a change of the engine, as its upkeep does. It leaves no group, even if its record after
 * has none: it is not in one.
 *
 * @param parts The store.
 * @param before The event as it was read.
 * @param after Makes its record.
 * @returns False if another change was faster.
 */
export async function changeEvent(
  parts: StoreParts,
  before: Stored,
  after: (record: EventRecord, now: number) => EventRecord,
): Promise<boolean> {
  const put: Put = { before, after: ({ now }) => after(before.record, now) };
  const write = new Write();
  await new EventWrite(parts, { urgency: "work" }, put, write).start({ now: Date.now() }, null);
  return await parts.commits.commit(write) !== null;
}

/** Names the entry that an event has in the index of its problem, to be compared with that of another record of it. */
function problemEntry(
  record: EventRecord | undefined,
  { receivedAt }: EventRecord,
): string | undefined {
  if (record?.problem === undefined || record.receivedAt !== receivedAt) return undefined;
  return `${record.problem} ${record.state === "dead"}`;
}

/** Deletes what has led to an event, unless that belongs to the event: then it goes with the change of its record. */
function removeVia(write: Write, via: Due, record: EventRecord | undefined): void {
  const { entry } = via as FoundDue;
  if (!isAtEntry(entry, { record })) write.delete(entry.key);
}

/** Checks whether an event gets its lease at a time, and is due when that expires. */
function isLeasedAt({ state, lease, dueAt }: EventRecord, now: number): boolean {
  return state === "running" && lease?.startedAt === now && dueAt === now + lease.ms;
}

/** Checks whether a record holds nothing that may be large. */
function isFresh({ progress, woken, attempts }: EventRecord): boolean {
  return !progress && !woken && attempts.length === 0;
}

/** Makes the check that refuses an event: this process has deleted the upload of its payload. */
function deletedUpload({ keys }: StoreParts, { id }: PayloadRef): WriteCheck {
  return { key: keys.upload(id), versionstamp: NO_VERSION, why: "payload" };
}

function isOld(receivedAt: number): boolean {
  return Date.now() - receivedAt > DAY_MS;
}
