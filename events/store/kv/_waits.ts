import { met } from "../../../core/check_options.ts";
import { writeLog } from "../../../core/mod.ts";
import type { EndedWait, EventRecord, EventRef } from "../event_record.ts";
import type { Lease } from "../event_store.ts";
import { isCount, isEventRef, isText, isTime, orNone, shape } from "../record_shape.ts";
import { checkRoomFor, isCancelRequested, waited } from "../record_notes.ts";
import { parked, released, unparked } from "../settlement.ts";
import {
  type AnswerListOptions,
  type UntakenAnswer,
  type Wait,
  WaitRefusedError,
  type Wake,
  type WakeResult,
} from "../waits.ts";
import { applyChange, type ChangeOptions, isChanged } from "./_apply.ts";
import { MARK, readRecord, UndecodableError } from "./_layout.ts";
import type { StoreParts } from "./_parts.ts";
import { encodeValue } from "../value_codec.ts";
import { type Entry, isGap, list, read, readAll } from "./_reads.ts";
import { deferEntry } from "./_schedule.ts";
import { untilDone, Write } from "./_write.ts";

/** The time for which a value is kept that no event waits for yet, in milliseconds: seven days. */
export const KEPT_MS = 604_800_000;

/** The difference of two processes' clocks that is not taken for an age, in milliseconds: chosen. */
const CLOCKS_MS = 1_000;

/** The event that a name's entry is for. An event that was replayed since is another one. */
interface Waiter extends EventRef {
  readonly run: number;
}

/** The stored entry of a name: an event that waits, a value that no event has taken yet, or both. */
interface NameRecord {
  /** The event that waits. */
  readonly for?: Waiter | undefined;
  /** The time at which the name was woken, milliseconds since the epoch; undefined before that. */
  readonly at?: number | undefined;
  /** The value that it was woken with, as JSON. */
  readonly value?: string | undefined;
}

const isNameShape = shape({
  for: orNone((value) => isEventRef(value) && isCount((value as Partial<Waiter>).run)),
  at: orNone(isTime),
  value: orNone(isText),
});

function isNameRecord(value: unknown): value is NameRecord {
  return isNameShape(value);
}

/** A name's entry, as it was read. */
interface Name {
  readonly name: string;
  readonly key: Deno.KvKey;
  readonly versionstamp: string | null;
  readonly stored: NameRecord;
  /** Set if this version cannot read it. */
  readonly isUnreadable: boolean;
  /** The record of the event that waits for it still. */
  readonly holder: EventRecord | undefined;
}

/** The end of a parked event's wait. */
interface End {
  readonly record: EventRecord;
  readonly result: EndedWait;
  readonly name: Name;
}

/**
 * The waits of a store. An event that waits for a name is parked: off its ordering group, and on the schedule
 * at the end of its time. The name has an entry that leads to the event.
 *
 * Whoever wakes the name checks and changes that entry alone, and adds an entry to the schedule that names
 * the event. The event's record is changed by the claim that finds it: this takes the value into the record
 * and deletes the name's entry, in the commit that leases the event. At the end of its time the claim does the
 * same without a value. All of them check the name's entry, so each wait has one result.
 *
 * A value that comes before anybody waits has an entry without an event, for seven days. So has one whose
 * event does not wait any more, because it was purged as unreadable: that event must not swallow it.
 */
export class Waits {
  readonly #parts: StoreParts;

  constructor(parts: StoreParts) {
    this.#parts = parts;
  }

  /** Takes the value of a name that was woken early. Returns the lease as it was if there is none. */
  async take(lease: Lease, name: string): Promise<Lease | null> {
    const { record } = lease;
    checkIsAlone(record);
    if (isCancelRequested(record)) throw new Error("Cannot wait: the event was cancelled");
    checkRoomFor(record, name);
    return await untilDone(async () => {
      const found = await this.#readToWait(name, record);
      // It was parked under a lease that was thought to be lost.
      if (found.holder) return null;
      if (found.stored.at === undefined) return lease;
      const after = waited(record, resultOf(found));
      const options = this.#takingEarly(found, record);
      const changed = await applyChange(this.#parts, lease, after, options);
      return changed ?? (await isChanged(this.#parts, lease) ? null : undefined);
    });
  }

  /** Parks an event, unless its name was woken meanwhile: then it is due at once. */
  async park(lease: Lease, wait: Wait): Promise<boolean> {
    const { record } = lease;
    checkIsAlone(record);
    return await untilDone(async () => {
      const now = Date.now();
      const after = parked(record, wait, now);
      if (after.state !== "parked") {
        return await applyChange(this.#parts, lease, after) !== null;
      }
      const found = await this.#readToWait(wait.name, record);
      // The answer of an earlier try was lost, or another worker has taken the event over and parked it.
      if (found.holder) {
        return isFor(found.stored, record) && found.holder.attempt === record.attempt - 1;
      }
      const changed = found.stored.at === undefined
        ? await applyChange(this.#parts, lease, after, waitingAt(found, record))
        : await this.#giveBack(lease, found, now);
      if (changed) return true;
      return await isChanged(this.#parts, lease) ? false : undefined;
    });
  }

  /** Gives an event back whose name was woken while it was about to be parked. */
  #giveBack(lease: Lease, found: Name, now: number): Promise<Lease | null> {
    const { record } = lease;
    const after = waited(released(record, { isBegun: true }, now), resultOf(found));
    return applyChange(this.#parts, lease, after, this.#takingEarly(found, record));
  }

  /** Wakes a name, in a commit of its own. */
  async wake(wake: Wake): Promise<WakeResult> {
    const result = await untilDone(async () => {
      const found = await this.#readToWake(wake.name);
      const write = new Write();
      for (const check of checksOf(found)) write.check(check);
      const result = this.#addWake(write, found, wake);
      if (result.outcome === "late") return result;
      return await this.#parts.commits.commit(write) === null ? undefined : result;
    });
    if (result.outcome === "woken") this.#parts.local.listener?.wake();
    return result;
  }

  /** Applies a change of an event, and wakes names in the same commit. */
  apply(
    lease: Lease,
    after: EventRecord,
    options: ChangeOptions,
    wakes: readonly Wake[],
  ): Promise<Lease | null> {
    return untilDone(async () => {
      const found = await Promise.all(wakes.map(({ name }) => this.#readToWake(name)));
      const changed = await applyChange(this.#parts, lease, after, {
        ...options,
        checks: found.flatMap(checksOf),
        add: (write) => {
          for (const [i, wake] of wakes.entries()) this.#addWake(write, found[i]!, wake);
        },
        onCommit: () => this.#parts.local.listener?.wake(),
      });
      return changed ?? (await isChanged(this.#parts, lease) ? null : undefined);
    });
  }

  /** Finds the end of a parked event's wait; undefined if it goes on. */
  async endOf(record: EventRecord, now: number): Promise<End | undefined> {
    const name = await this.#read(record.waitingFor!.name);
    const { stored, holder } = name;
    // It may have the answer.
    if (name.isUnreadable) throw new UndecodableError(`the entry of the name ${met(name.name)}`);
    if (stored.at !== undefined && (isFor(stored, record) || !holder)) {
      return { record, result: resultOf(name), name };
    }
    if (record.dueAt === null || record.dueAt > now) return undefined;
    return { record, result: { name: name.name, at: now, timedOut: true }, name };
  }

  /** Makes the part of the commit that ends a wait: what it checks, deletes and logs. */
  changeOf({ record, result, name }: End, options: ChangeOptions): ChangeOptions {
    const { waitingFor, id, platform, type } = record;
    // Otherwise it is another event's by now, or was lost.
    const isTaken = !result.timedOut || isFor(name.stored, record);
    return {
      ...options,
      ...(isTaken && { checks: checksOf(name) }),
      add: (write) => {
        options.add?.(write);
        if (isTaken) write.delete(name.key);
      },
      onCommit: () => {
        this.#countEnd(record, result.timedOut ? "timed_out" : "woken");
        writeLog(this.#parts.log, "info", "event woken", {
          ...{ platform, type, eventId: id, waitedFor: result.name },
          ...{ waitedMs: Math.max(0, Date.now() - waitingFor!.since) },
          timedOut: result.timedOut ?? false,
        });
      },
    };
  }

  #countEnd({ platform }: EventRecord, outcome: "woken" | "early" | "timed_out"): void {
    this.#parts.local.listener?.count?.({ is: "wait_ended", platform, outcome });
  }

  /**
   * Has an imported event that is parked wait here. It is queued, and not parked, if the name has been woken
   * here already, which gives it the value, or cannot be waited for, which its handler is told.
   *
   * @returns Its record, and the part of the commit that belongs to the name.
   */
  async arriving(
    record: EventRecord,
  ): Promise<{ readonly record: EventRecord; readonly options: ChangeOptions }> {
    const now = Date.now();
    const found = await this.#read(record.waitingFor!.name);
    if (found.holder || found.isUnreadable) {
      const { waitingFor: _, ...rest } = record;
      return { record: { ...rest, state: "queued", dueAt: now, delayMs: 0 }, options: {} };
    }
    return found.stored.at === undefined
      ? { record, options: waitingAt(found, record) }
      : { record: unparked(record, resultOf(found), now), options: taking(found) };
  }

  /**
   * Wakes an event here with a value that comes from another store.
   *
   * @param wake The name and the value.
   * @param mark The key of a mark, which is set with it for a time: with it, the value was restored before.
   * @returns False if it was, or no event waits for the name.
   */
  async restore(
    wake: Wake,
    mark: { readonly key: Deno.KvKey; readonly expireIn: number },
  ): Promise<boolean> {
    return await untilDone(async () => {
      const { key, versionstamp } = await read(this.#parts.kv, mark.key);
      const found = await this.#read(wake.name);
      if (versionstamp !== null || !found.holder || found.isUnreadable) return false;
      const write = new Write().check({ key, versionstamp });
      for (const check of checksOf(found)) write.check(check);
      if (this.#addWake(write, found, wake).outcome !== "woken") return false;
      write.set(key, MARK, { expireIn: mark.expireIn });
      if (await this.#parts.commits.commit(write) === null) return undefined;
      this.#parts.local.listener?.wake();
      return true;
    });
  }

  /** Makes the part of a commit that takes a parked event off its name, which it does not wait for any more. */
  async leaving(record: EventRecord): Promise<ChangeOptions> {
    const name = await this.#read(record.waitingFor!.name);
    return isFor(name.stored, record) ? taking(name) : {};
  }

  #addWake(
    write: Write,
    { key, stored, holder }: Name,
    { value }: Wake,
  ): WakeResult {
    if (stored.at !== undefined) return { outcome: "late" };
    const woken: NameRecord = { at: Date.now(), ...(value !== undefined && { value }) };
    if (!holder) {
      write.set(key, encodeValue(woken), { expireIn: KEPT_MS });
      return { outcome: "kept" };
    }
    write.set(key, encodeValue({ ...woken, for: stored.for } satisfies NameRecord));
    deferEntry(write, this.#parts.keys, holder, 0);
    write.notifies = true;
    return { outcome: "woken", eventId: holder.id };
  }

  /** Takes a value that came early. One from before the event may be the answer to another one's question. */
  #takingEarly(found: Name, record: EventRecord): ChangeOptions {
    const { id, platform, type, receivedAt } = record;
    const olderByMs = receivedAt - found.stored.at!;
    return {
      ...taking(found),
      onCommit: () => {
        this.#countEnd(record, "early");
        if (olderByMs <= CLOCKS_MS) return;
        const fields = { platform, type, eventId: id, waitedFor: found.name, olderByMs };
        writeLog(this.#parts.log, "warn", "answer is older than its event", fields);
      },
    };
  }

  async #readToWait(name: string, record: EventRecord): Promise<Name> {
    const found = await this.#read(name);
    if (found.holder && found.holder.id !== record.id) {
      const { id } = found.holder;
      throw new WaitRefusedError(`Cannot wait for ${met(name)}: event ${id} waits for it already`);
    }
    if (found.isUnreadable) {
      throw new WaitRefusedError(`Cannot wait for ${met(name)}: ${UNREADABLE}`);
    }
    return found;
  }

  async #readToWake(name: string): Promise<Name> {
    const found = await this.#read(name);
    if (found.isUnreadable) throw new Error(`Cannot wake ${met(name)}: ${UNREADABLE}`);
    return found;
  }

  /** Lists the values that no event has taken yet, by their names. Entries that cannot be read are left out. */
  async *answers(options: AnswerListOptions = {}): AsyncGenerator<UntakenAnswer> {
    for await (const entry of this.#entries(options)) {
      if (!isNameRecord(entry.value)) continue;
      const found = await this.#nameOf(String(entry.key.at(-1)), entry);
      if (found.stored.at !== undefined) yield this.#answerOf(found, found.stored.at);
    }
  }

  async *#entries(
    { names, prefix = "" }: AnswerListOptions,
  ): AsyncGenerator<Entry> {
    const { kv, keys } = this.#parts;
    const isMeant = (name: string) => name.startsWith(prefix);
    if (names) {
      const wanted = [...new Set(names)].filter((name) => isMeant(name) && name.isWellFormed());
      return yield* await readAll(kv, wanted.sort().map((name) => keys.waiter(name)));
    }
    const start = prefix === "" ? {} : { start: keys.waiter(prefix) };
    for await (const entry of list(kv, { ...keys.waiters, ...start })) {
      if (isGap(entry) || isMeant(String(entry.key.at(-1)))) yield entry;
      else if (prefix !== "") return;
    }
  }

  #answerOf(found: Name, at: number): UntakenAnswer {
    const { name, key, holder, stored: { value } } = found;
    return {
      ...{ name, at, value: valueIn(value) },
      ...{ eventId: holder?.id, keptUntil: holder ? undefined : at + KEPT_MS },
      delete: async () => {
        if (holder) return false;
        const { kv, marks } = this.#parts;
        return (await marks.commit(kv.atomic().delete(key), checksOf(found))).ok;
      },
    };
  }

  async #read(name: string): Promise<Name> {
    const { kv, keys } = this.#parts;
    return await this.#nameOf(name, await read(kv, keys.waiter(name)));
  }

  async #nameOf(
    name: string,
    { key, value, versionstamp }: Entry,
  ): Promise<Name> {
    const { kv, keys } = this.#parts;
    const isReadable = isNameRecord(value);
    const stored: NameRecord = isReadable && !isPast(value) ? value : {};
    const { record } = stored.for ? await readRecord(kv, keys.event(stored.for)) : {};
    const holds = record?.state === "parked" && record.waitingFor?.name === name &&
      isFor(stored, record);
    const isUnreadable = versionstamp !== null && !isReadable;
    return { name, key, versionstamp, stored, isUnreadable, holder: holds ? record : undefined };
  }
}

const UNREADABLE = "another version wrote the entry of the name, or it is damaged";

/** Refuses to let an event wait that is handled together with others: these would have to wait with it. */
function checkIsAlone({ batch }: EventRecord): void {
  if (!batch || batch.events < 2) return;
  throw new WaitRefusedError(
    `Cannot wait: the event is handled together with ${batch.events - 1} earlier ones`,
  );
}

function checksOf({ key, versionstamp }: Name): Deno.AtomicCheck[] {
  return [{ key, versionstamp }];
}

function taking(name: Name): ChangeOptions {
  return { checks: checksOf(name), add: (write) => void write.delete(name.key) };
}

/** Makes the stored entry of a value that came before any event waited. */
export function storedAnswer(at: number, value: unknown): object {
  const text = value === undefined ? {} : { value: JSON.stringify(value) };
  return { at, ...text } satisfies NameRecord;
}

/** Reads the event that waits from the stored entry of a name; none if it is only a value. */
export function waiterIn(value: unknown): readonly EventRef[] {
  const waiter = isNameRecord(value) ? value.for : undefined;
  return waiter ? [waiter] : [];
}

function waitingAt(name: Name, { id, receivedAt, run = 0 }: EventRecord): ChangeOptions {
  const stored = encodeValue({ for: { id, receivedAt, run } } satisfies NameRecord);
  return { checks: checksOf(name), add: (write) => void write.set(name.key, stored) };
}

function resultOf({ name, stored: { at = 0, value } }: Name): EndedWait {
  return value === undefined ? { name, at } : { name, at, value };
}

/** Reads a value; undefined for none, or one that is damaged: that is no reason to list no others. */
function valueIn(json: string | undefined): unknown {
  try {
    return json === undefined ? undefined : JSON.parse(json);
  } catch {
    return undefined;
  }
}

/** Checks whether a value has come too early for any event to take it still: a KV may expire it later. */
function isPast({ for: waiter, at }: NameRecord): boolean {
  return !waiter && at !== undefined && Date.now() - at >= KEPT_MS;
}

/** Checks whether a name's entry is for an event, in its current run. */
function isFor({ for: waiter }: NameRecord, { id, receivedAt, run = 0 }: EventRecord): boolean {
  return waiter?.id === id && waiter.receivedAt === receivedAt && waiter.run === run;
}
