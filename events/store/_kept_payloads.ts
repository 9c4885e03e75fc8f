import { writeLog } from "../../core/mod.ts";
import { Pool } from "../../core/pool.ts";
import { isTime, shape } from "../../core/shape.ts";
import { withDeadline } from "../../core/timeouts.ts";
import {
  type Bytes,
  type Cell,
  type CellChange,
  type CellKey,
  type Change,
  ClosedError,
  type SumChange,
} from "./engine.ts";
import { type EventRecord, isPayloadRef, NotKeptError, type PayloadRef } from "./event_record.ts";
import { readPayload, type StoreCore } from "./store_core.ts";

/** The number of entries read at a time, and of payloads dropped at the same time. */
const [BATCH_SIZE, CONCURRENCY] = [100, 40] as const;

/** The part of the limit after which a process looks whether too much is kept. */
const LOOK_AFTER = 1 / 16;

/** The number of times that sizes are counted while their sum changes. */
const COUNTS = 3;

/** The time between two counts, and between two searches of a store that keeps nothing. */
const COUNT_MS = 3_600_000;

/** The longest time of a search: a remote engine never answers some calls. */
const TRIM_TIMEOUT_MS = 240_000;

/** The kind of the entries. They are in the order in which their events were settled. */
const KEPT = "kept";

/** The sum of the sizes, and the time at which these were counted last. */
const [SUM, COUNTED] = [["keptBytes"], ["keptCounted"]] as const;

/** The entry of a payload that is kept. */
interface KeptPayload {
  /** The time at which its event was received, milliseconds since the epoch. */
  readonly receivedAt: number;
  readonly payload: PayloadRef;
}

/** An entry that was read. */
interface KeptEntry extends Cell {
  readonly value: KeptPayload;
}

/** The part of a change that keeps a payload, or takes it out of the index. */
interface KeptChange {
  readonly cells: readonly CellChange[];
  readonly sums: readonly SumChange[];
}

/** The part of a change that drops a payload. */
export type Dropping = KeptChange & Pick<Change, "drops">;

/** The reason for which payloads are dropped: too old, too much together, or none are kept any more. */
type Reason = "age" | "size" | "off";

const isKept = shape<KeptPayload>({ receivedAt: isTime, payload: isPayloadRef });

/**
 * The payloads of done events that are kept for a while. A done record has no payload: an index names the kept ones,
 * in the order in which their events were settled. An entry is written in the change that settles its event. A replay
 * takes the payload over; a purge, a redelivery and a trim delete it. Each of them deletes the entry in the same
 * change, and checks its version. So of several at the same time one wins, and no payload is left without an entry,
 * whichever process dies.
 *
 * Each of these changes also adds to the sum of the sizes, so that stays right by itself. It is counted anew at times,
 * since values can be damaged. The oldest payloads are dropped when they take too much or are too old: by a process
 * that has added a part of the limit, and by each worker's upkeep. If the option is off, the upkeep drops all.
 */
export class KeptPayloads {
  readonly #core: StoreCore;
  /** The bytes added since this process looked last. */
  #added = 0;
  #trimming: Promise<number> | undefined;
  /** The time of the next search or count, by the monotonic clock. */
  #nextAt = -Infinity;

  constructor(core: StoreCore) {
    this.#core = core;
  }

  /** True if payloads are kept. */
  get isOn(): boolean {
    return this.#core.keepPayloads !== undefined;
  }

  /**
   * Makes the part of a change that keeps the payload of an event which is done by it.
   *
   * @param before The record before.
   * @param after The record after.
   * @returns The part, with the payload that stays; undefined if it is not kept.
   */
  keep(
    { payload }: EventRecord,
    after: EventRecord,
  ): KeptChange & { readonly keeps: PayloadRef } | undefined {
    const { keepPayloads: limits } = this.#core;
    if (!limits || !payload || payload.size > limits.maxBytes || after.state !== "done") {
      return undefined;
    }
    this.#added += payload.size;
    return { keeps: payload, ...this.restore(after, payload) };
  }

  /** Looks whether too much is kept, once a part of the limit was added. */
  look(): void {
    const { keepPayloads: limits } = this.#core;
    if (!limits || this.#added < limits.maxBytes * LOOK_AFTER) return;
    this.#added = 0;
    this.#trimInPassing();
  }

  /**
   * Makes the part of a change that keeps the payload of a done event, whatever the limits are here: the payload of an
   * imported event is dropped by the upkeep of the apps if it is beyond theirs.
   *
   * @param record The record.
   * @param payload The payload.
   */
  restore(record: EventRecord, payload: PayloadRef): KeptChange {
    const after: KeptPayload = { receivedAt: record.receivedAt, payload };
    return { cells: [{ key: keyOf(record), after }], sums: sumsOf(payload.size) };
  }

  /**
   * Makes the part of a change that takes the payload of a done event out of the index.
   *
   * @param record The record of the event.
   * @returns The part, and the payload; undefined if it is not kept.
   */
  async take(
    record: EventRecord,
  ): Promise<KeptChange & { readonly payload: PayloadRef } | undefined> {
    const entry = await this.#find(record);
    return entry && { payload: entry.value.payload, ...taking(entry) };
  }

  /** Makes the part of a change that drops the payload of a done event; undefined if it is not kept. */
  async drop(record: EventRecord): Promise<Dropping | undefined> {
    const entry = await this.#find(record);
    return entry && dropping(entry);
  }

  /** Checks whether the payload of a done event is kept. */
  async has(record: EventRecord): Promise<boolean> {
    return await this.#find(record) !== undefined;
  }

  /** Finds those of some done events whose payloads are kept. */
  async among(records: readonly EventRecord[]): Promise<EventRecord[]> {
    const entries = await this.#core.engine.cells(records.map(keyOf));
    return records.filter((record, i) => isOf(entries[i]!, record));
  }

  /** Reads the payload of a done event. Rejects with a `NotKeptError` if it is not kept. */
  async load(record: EventRecord): Promise<Bytes> {
    const entry = await this.#find(record);
    if (!entry) throw new NotKeptError(record.id);
    try {
      return await readPayload(this.#core.engine, entry.value.payload, record);
    } catch (error) {
      // It was dropped meanwhile, or the event was replayed and has it.
      if (!await this.has(record)) throw new NotKeptError(record.id);
      throw error;
    }
  }

  /** Drops what is too old or too much, and all if payloads are not kept any more. Returns the number. */
  trim(): Promise<number> {
    if (!this.isOn && performance.now() < this.#nextAt) return Promise.resolve(0);
    return this.#trimming ??= withDeadline(this.#trimOnce(), TRIM_TIMEOUT_MS)
      .finally(() => this.#trimming = undefined);
  }

  async #trimInPassing(): Promise<void> {
    try {
      // One that runs may have looked before.
      await this.#trimming;
      await this.trim();
    } catch (error) {
      if (error instanceof ClosedError) return;
      writeLog(this.#core.log, "warn", "kept payloads not trimmed", { error });
    }
  }

  async #trimOnce(): Promise<number> {
    const isDue = performance.now() >= this.#nextAt;
    if (isDue) this.#nextAt = performance.now() + COUNT_MS;
    const { keepPayloads: limits, engine } = this.#core;
    if (!limits) return await this.#dropAll("off", this.#kept());
    const sum = await this.#sum();
    if (isDue || sum === undefined) await this.#count(sum === undefined);
    const now = engine.now();
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
    const range = { from: [KEPT, from], before: [KEPT, before], atOnce: BATCH_SIZE } as const;
    for await (const entry of this.#core.engine.list([KEPT], range)) {
      // What cannot be decoded is left alone.
      if (isKept(entry.value)) yield { ...entry, value: entry.value };
    }
  }

  /** Drops the payloads of some entries. Returns the number of those that no other process has dropped. */
  async #dropAll(
    reason: Reason,
    entries: Iterable<KeptEntry> | AsyncIterable<KeptEntry>,
  ): Promise<number> {
    const { engine, local } = this.#core;
    let dropped = 0;
    const pool = new Pool(CONCURRENCY);
    try {
      for await (const entry of entries) {
        await pool.add(async () => {
          if ((await engine.apply({ ...dropping(entry), urgency: "work" })).ok) dropped++;
        });
      }
    } finally {
      await pool.done();
      const step = { is: "payloads_dropped", reason, count: dropped } as const;
      if (dropped > 0) local.listener?.count?.(step);
    }
    return dropped;
  }

  /** Finds the entry of a done event, unless that is of another event of the same id. */
  async #find(record: EventRecord): Promise<KeptEntry | undefined> {
    if (record.settledAt === null) return undefined;
    const [entry] = await this.#core.engine.cells([keyOf(record)]);
    return isOf(entry!, record) ? entry : undefined;
  }

  /** Reads the sum of the sizes; undefined if that is damaged. */
  async #sum(): Promise<number | undefined> {
    const { value, version } = await this.#readSum();
    if (version === null) return 0;
    return Number.isSafeInteger(value) && (value as number) >= 0 ? value as number : undefined;
  }

  async #readSum(): Promise<Cell> {
    return (await this.#core.engine.cells([SUM]))[0]!;
  }

  /** Counts the sizes, and puts the sum right. Of several processes one does so, once in an hour. */
  async #count(isNeeded: boolean): Promise<void> {
    const { engine } = this.#core;
    const [mark] = await engine.cells([COUNTED]);
    const { value, version } = mark!;
    const isRecent = Math.abs(engine.now() - Number(value)) < COUNT_MS;
    if (isRecent && !isNeeded) return;
    const cell = { key: COUNTED, version, after: engine.now() };
    await engine.apply({ cells: [cell], sums: [await this.#drift()], urgency: "work" });
  }

  /** Counts what the sum lacks. A count during which the sum changes says nothing: then a later one has to do. */
  async #drift(): Promise<SumChange> {
    for (let count = 0; count < COUNTS; count++) {
      const before = await this.#readSum();
      let bytes = 0;
      for await (const { value } of this.#kept()) bytes += value.payload.size;
      const { value, version } = await this.#readSum();
      if (version !== null && typeof value !== "number") return { key: SUM, to: bytes };
      if (before.version === version) return { key: SUM, by: bytes - Number(value) };
    }
    return { key: SUM, by: 0 };
  }
}

/** Makes the key of the entry of a done event. */
function keyOf({ id, settledAt }: EventRecord): CellKey {
  return [KEPT, settledAt!, id];
}

/** Checks whether an entry is of an event, and not of another one of the same id. */
function isOf(entry: Cell, { receivedAt }: EventRecord): entry is KeptEntry {
  return isKept(entry.value) && entry.value.receivedAt === receivedAt;
}

/** Makes the part of a change that takes an entry out of the index. */
function taking({ key, version, value }: KeptEntry): KeptChange {
  return { cells: [{ key, version, after: null }], sums: sumsOf(-value.payload.size) };
}

function dropping(entry: KeptEntry): Dropping {
  return { ...taking(entry), drops: [entry.value.payload] };
}

function sumsOf(by: number): readonly SumChange[] {
  return [{ key: SUM, by }];
}
