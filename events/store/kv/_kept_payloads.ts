import { writeLog } from "../../../core/mod.ts";
import type { CommitMarks } from "../../../core/kv_commits.ts";
import type { LogSink } from "../../../core/mod.ts";
import { Pool } from "../../../core/pool.ts";
import { withDeadline } from "../../../core/timeouts.ts";
import { ClosedError } from "../engine.ts";
import { type EventRecord, NotKeptError, type PayloadRef } from "../event_record.ts";
import type { KeepPayloads, StoreListener } from "../event_store.ts";
import { isPayloadRef, isTime, shape } from "../record_shape.ts";
import type { GroupCommit } from "./_group_commit.ts";
import type { StoreKeys } from "./_layout.ts";
import { deleteChunks, readPayload, unpack } from "./_payload.ts";
import { encodeValue } from "../value_codec.ts";
import { type Entry, list, type ListedEntry, read } from "./_reads.ts";
import { Write } from "./_write.ts";

/** The number of entries read at a time, and of payloads dropped at the same time. */
const [BATCH_SIZE, CONCURRENCY] = [100, 40] as const;

/** The part of the limit after which a process looks whether too much is kept. */
const LOOK_AFTER = 1 / 16;

/** The number of times that sizes are counted while their sum changes. */
const COUNTS = 3;

/** The time between two counts, and between two searches of a store that keeps nothing. */
const COUNT_MS = 3_600_000;

/** The longest time of a search: a remote KV never answers some calls. */
const TRIM_TIMEOUT_MS = 240_000;

/** The stored entry of a payload that is kept. */
interface KeptPayload {
  /** The time at which its event was received, milliseconds since the epoch. */
  readonly receivedAt: number;
  readonly payload: PayloadRef;
}

/** An entry that was read. */
interface KeptEntry extends ListedEntry {
  readonly value: KeptPayload;
}

/** The parts of a store that keeping payloads works with. */
interface Parts {
  readonly kv: Deno.Kv;
  readonly keys: StoreKeys;
  readonly marks: CommitMarks;
  readonly commits: GroupCommit;
  readonly log: LogSink;
  readonly local: { readonly listener?: StoreListener };
}

/** The reason for which payloads are dropped: too old, too much together, or none are kept any more. */
type Reason = "age" | "size" | "off";

const isKept = shape<KeptPayload>({
  receivedAt: isTime,
  payload: (value) => isPayloadRef(value) && value.chunks >= 1,
});

/**
 * The payloads of done events that are kept for a while. A done record has no payload: an index names the kept ones,
 * in the order in which their events were settled. An entry is written in the commit that settles its event. A replay
 * takes the payload over; a purge, a redelivery and a trim delete it. Each of them deletes the entry in the same
 * commit, and checks its version. So of several at the same time one wins, and no payload is left without an entry,
 * whichever process dies.
 *
 * Each of these commits also changes the sum of the sizes, so that stays right by itself. It is counted anew at times,
 * since values can be damaged. The oldest payloads are dropped when they take too much or are too old: by a process
 * that has added a part of the limit, and by each worker's upkeep. If the option is off, the upkeep drops all.
 */
export class KeptPayloads {
  readonly #parts: Parts;
  readonly #limits: KeepPayloads | undefined;
  /** The bytes added since this process looked last. */
  #added = 0;
  #trimming: Promise<number> | undefined;
  /** The time of the next search or count, by the monotonic clock. */
  #nextAt = -Infinity;

  constructor(parts: Parts, limits: KeepPayloads | undefined) {
    this.#parts = parts;
    this.#limits = limits;
  }

  /** True if payloads are kept. */
  get isOn(): boolean {
    return this.#limits !== undefined;
  }

  /**
   * Adds keeping the payload of an event to the write that settles it as done.
   *
   * @param write The write.
   * @param record The record after.
   * @param payload The payload, which the record before had.
   * @param body Its bytes, if the record held them.
   * @returns False if it is not kept.
   */
  keep(
    write: Write,
    record: EventRecord,
    payload: PayloadRef,
    body: Uint8Array<ArrayBuffer> | undefined,
  ): boolean {
    if (!this.#limits || payload.size > this.#limits.maxBytes || record.settledAt === null) {
      return false;
    }
    if (payload.chunks === 0 && !body) return false;
    const isPacked = payload.chunks === 0;
    this.restore(
      write,
      record,
      isPacked ? unpack(write, this.#parts.keys, payload, body!) : payload,
    );
    this.#added += payload.size;
    if (this.#added >= this.#limits.maxBytes * LOOK_AFTER) {
      this.#added = 0;
      write.committed.promise.then(this.#trimInPassing, () => {});
    }
    return true;
  }

  /**
   * Adds keeping the payload of a done event to a write, whatever the limits are here: that of an imported event is
   * dropped by the upkeep of the apps if it is beyond theirs.
   *
   * @param write The write, to which the payload's parts are added as well.
   * @param record The record.
   * @param payload The payload.
   */
  restore(write: Write, { id, receivedAt, settledAt }: EventRecord, payload: PayloadRef): void {
    const { keys } = this.#parts;
    const entry: KeptPayload = { receivedAt, payload };
    write.set(keys.kept(settledAt!, id), encodeValue(entry)).sum(keys.keptBytes, payload.size);
  }

  /**
   * Adds taking the payload of a done event out of the index to a write.
   *
   * @param write The write.
   * @param record The record of the event.
   * @returns The payload; null if it is not kept.
   */
  async take(write: Write, record: EventRecord): Promise<PayloadRef | null> {
    const entry = await this.#find(record);
    const payload = payloadOf(entry, record);
    if (!payload) return null;
    this.#remove(write, entry!, payload);
    return payload;
  }

  /** Checks whether the payload of a done event is kept. */
  async has(record: EventRecord): Promise<boolean> {
    return payloadOf(await this.#find(record), record) !== null;
  }

  /** Adds dropping the payload of a done event to a write, if it is kept. */
  async drop(write: Write, record: EventRecord): Promise<void> {
    const payload = await this.take(write, record);
    if (payload) deleteChunks(write, this.#parts.keys, payload);
  }

  /** Reads the payload of a done event. Rejects with a `NotKeptError` if it is not kept. */
  async load(record: EventRecord): Promise<Uint8Array<ArrayBuffer>> {
    const { kv, keys } = this.#parts;
    const payload = payloadOf(await this.#find(record), record);
    if (!payload) throw new NotKeptError(record.id);
    try {
      return await readPayload(kv, keys, payload);
    } catch (error) {
      // It was dropped meanwhile, or the event was replayed and has it.
      if (!payloadOf(await this.#find(record), record)) throw new NotKeptError(record.id);
      throw error;
    }
  }

  /** Drops what is too old or too much, and all if payloads are not kept any more. Returns the number. */
  trim(): Promise<number> {
    if (!this.isOn && performance.now() < this.#nextAt) return Promise.resolve(0);
    return this.#trimming ??= withDeadline(this.#trimOnce(), TRIM_TIMEOUT_MS)
      .finally(() => this.#trimming = undefined);
  }

  readonly #trimInPassing = async (): Promise<void> => {
    try {
      // One that runs may have looked before.
      await this.#trimming;
      await this.trim();
    } catch (error) {
      if (error instanceof ClosedError) return;
      writeLog(this.#parts.log, "warn", "kept payloads not trimmed", { error });
    }
  };

  async #trimOnce(): Promise<number> {
    const isDue = performance.now() >= this.#nextAt;
    if (isDue) this.#nextAt = performance.now() + COUNT_MS;
    const limits = this.#limits;
    if (!limits) return await this.#dropAll("off", this.#kept());
    const sum = await this.#sum();
    if (isDue || sum === undefined) await this.#count(sum === undefined);
    const now = Date.now();
    const dropped = await this.#dropAll("age", this.#kept(0, now - limits.forMs));
    // If a clock was ahead, these would be the youngest for longer than they are kept.
    const tooYoung = await this.#dropAll("age", this.#kept(now + limits.forMs + 1));
    const excess = (sum ?? 0) > limits.maxBytes || isDue || sum === undefined;
    return dropped + tooYoung + (excess ? await this.#dropExcess(limits.maxBytes) : 0);
  }

  /** Drops the oldest payloads that take more than a number of bytes. */
  async #dropExcess(maxBytes: number): Promise<number> {
    let dropped = 0;
    while (true) {
      const oldest = [];
      for await (const entry of this.#kept()) if (oldest.push(entry) === BATCH_SIZE) break;
      // Read after them: if another process drops some of them meanwhile, this one must not drop others as well.
      let excess = await this.#sum() ?? 0;
      const meant = oldest.filter(({ value }) => {
        const isMeant = excess > maxBytes;
        excess -= value.payload.size;
        return isMeant;
      });
      if (meant.length === 0) return dropped;
      dropped += await this.#dropAll("size", meant);
    }
  }

  /** Lists what is kept of events that were settled from a time on, and before another. */
  async *#kept(from = 0, before = Infinity): AsyncGenerator<KeptEntry> {
    const { kv, keys } = this.#parts;
    const selector = keys.keptBetween(from, before);
    for await (const entry of list(kv, selector, { batchSize: BATCH_SIZE })) {
      // What cannot be decoded is left alone.
      if (isKept(entry.value)) yield { ...entry, value: entry.value };
    }
  }

  /** Drops the payloads of some entries. Returns the number of those that no other process has dropped. */
  async #dropAll(
    reason: Reason,
    entries: Iterable<KeptEntry> | AsyncIterable<KeptEntry>,
  ): Promise<number> {
    let dropped = 0;
    const pool = new Pool(CONCURRENCY);
    try {
      for await (const entry of entries) {
        const { payload } = entry.value;
        await pool.add(async () => {
          const write = this.#remove(new Write(), entry, payload);
          deleteChunks(write, this.#parts.keys, payload);
          if (await this.#parts.commits.commit(write) !== null) dropped++;
        });
      }
    } finally {
      await pool.done();
      const step = { is: "payloads_dropped", reason, count: dropped } as const;
      if (dropped > 0) this.#parts.local.listener?.count?.(step);
    }
    return dropped;
  }

  #remove(write: Write, entry: Entry, { size }: PayloadRef): Write {
    return write.check(entry).delete(entry.key).sum(this.#parts.keys.keptBytes, -size);
  }

  async #find({ id, settledAt }: EventRecord): Promise<Entry | undefined> {
    if (settledAt === null) return undefined;
    const entry = await read(this.#parts.kv, this.#parts.keys.kept(settledAt, id));
    return entry.versionstamp === null ? undefined : entry;
  }

  /** Reads the sum of the sizes; undefined if that is damaged. */
  async #sum(): Promise<number | undefined> {
    const { value, versionstamp } = await read(this.#parts.kv, this.#parts.keys.keptBytes);
    if (versionstamp === null) return 0;
    const sum = value instanceof Deno.KvU64 ? signed(value) : -1;
    return sum >= 0 && sum <= Number.MAX_SAFE_INTEGER ? sum : undefined;
  }

  /** Counts the sizes, and puts the sum right. Of several processes one does so, once in an hour. */
  async #count(isNeeded: boolean): Promise<void> {
    const { kv, keys, marks } = this.#parts;
    const mark = await read(kv, keys.keptCounted);
    const isRecent = Math.abs(Date.now() - Number(mark.value)) < COUNT_MS;
    if (isRecent && !isNeeded) return;
    const operation = kv.atomic().set(keys.keptCounted, encodeValue(Date.now()));
    const drift = await this.#drift();
    if (typeof drift === "number") operation.sum(keys.keptBytes, BigInt.asUintN(64, BigInt(drift)));
    else operation.set(keys.keptBytes, drift);
    await marks.commit(operation, [mark]);
  }

  /**
   * Counts what the sum lacks. A count during which the sum changes says nothing: then a later one has to do.
   *
   * @returns The difference; the right sum if the stored one is not a number.
   */
  async #drift(): Promise<number | Deno.KvU64> {
    const { kv, keys } = this.#parts;
    for (let count = 0; count < COUNTS; count++) {
      const before = await read(kv, keys.keptBytes);
      let bytes = 0;
      for await (const { value } of this.#kept()) bytes += value.payload.size;
      const { value, versionstamp } = await read(kv, keys.keptBytes);
      const isNumber = versionstamp === null || value instanceof Deno.KvU64;
      if (!isNumber) return new Deno.KvU64(BigInt(bytes));
      if (before.versionstamp !== versionstamp) continue;
      return bytes - (value ? signed(value as Deno.KvU64) : 0);
    }
    return 0;
  }
}

/** Takes the payload from an entry, unless that is of another event of the same id. */
function payloadOf(
  entry: Entry | undefined,
  { receivedAt }: EventRecord,
): PayloadRef | null {
  return isKept(entry?.value) && entry.value.receivedAt === receivedAt ? entry.value.payload : null;
}

/** Reads a sum. If more was taken from it than was in it, it has wrapped around. */
function signed({ value }: Deno.KvU64): number {
  return Number(BigInt.asIntN(64, value));
}
