import { CommitMarks } from "../../../core/kv_commits.ts";
import { encodeValue } from "../value_codec.ts";
import { withoutGuard } from "./_kv_guard.ts";
import { storeKeys } from "./_layout.ts";
import { isGap, list, type ListOptions, read } from "./_reads.ts";

/** The number of records read at a time. */
const BATCH_SIZE = 500;

/**
 * The kinds of records: counts of a minute, counts of a quarter of an hour, acts of an operator, and wishes to
 * stop one.
 */
export type ConsoleRecordKind = "minute" | "quarter" | "act" | "stop";

/** The place of a record. Those of a kind are in the order of their numbers. */
export interface ConsoleRecordKey {
  /** The kind. */
  readonly kind: ConsoleRecordKind;
  /** The number, such as a time. */
  readonly number: number;
  /** The id among those with the same number. */
  readonly id: string;
}

/** A record that was read. */
export interface ConsoleRecord extends ConsoleRecordKey {
  /** The value. Another version may have written it. */
  readonly value: unknown;
}

/** A record that is written, for a limited time. */
export interface NewConsoleRecord extends ConsoleRecord {
  /** The time after which it is deleted, in milliseconds. */
  readonly expireIn: number;
}

/** The records of a console, beside the events of a namespace. What cannot be decoded is skipped. */
export interface ConsoleRecords {
  /**
   * Reads a record.
   *
   * @param key Its place.
   * @returns Its value; undefined if there is none.
   */
  read(key: ConsoleRecordKey): Promise<unknown>;
  /**
   * Lists the records of a kind.
   *
   * @param kind The kind.
   * @param from The first number, a whole one.
   * @param before The number after the last, a whole one.
   * @returns The records, in their order.
   */
  between(
    kind: ConsoleRecordKind,
    from: number,
    before: number,
  ): AsyncGenerator<ConsoleRecord>;
  /**
   * Lists the last records of a kind.
   *
   * @param kind The kind.
   * @param limit The number of them, at most.
   * @param before The place of a record before which they come.
   * @returns The records, the last first.
   */
  last(
    kind: ConsoleRecordKind,
    limit: number,
    before?: ConsoleRecordKey,
  ): AsyncGenerator<ConsoleRecord>;
  /**
   * Writes a record, unless there is one in its place.
   *
   * @param record The record.
   * @returns False if there is one.
   */
  create(record: NewConsoleRecord): Promise<boolean>;
  /**
   * Writes records, all or none.
   *
   * @param records The records: few, so that they fit a commit.
   */
  write(records: readonly NewConsoleRecord[]): Promise<void>;
  /**
   * Deletes a record.
   *
   * @param key Its place.
   */
  delete(key: ConsoleRecordKey): Promise<void>;
}

/**
 * Opens the records of a console.
 *
 * @param view The KV, or a view of it.
 * @param namespace The namespace of the events.
 * @returns The records.
 */
export function openConsoleRecords(view: Deno.Kv, namespace: string): ConsoleRecords {
  const kv = withoutGuard(view);
  const { consoleRecords: prefix, commitMarks } = storeKeys(namespace);
  const marks = new CommitMarks(kv, commitMarks);
  const keyOf = ({ kind, number, id }: ConsoleRecordKey) => [...prefix, kind, number, id];
  async function* listed(
    kind: ConsoleRecordKind,
    selector: Deno.KvListSelector,
    options: ListOptions,
  ): AsyncGenerator<ConsoleRecord> {
    for await (const entry of list(kv, selector, options)) {
      const [number, id] = entry.key.slice(-2);
      if (!isGap(entry)) yield { kind, number: Number(number), id: String(id), value: entry.value };
    }
  }
  return {
    async read(key) {
      return (await read(kv, keyOf(key))).value ?? undefined;
    },
    between(kind, from, before) {
      const selector = { start: [...prefix, kind, from], end: [...prefix, kind, before] };
      return listed(kind, selector, { batchSize: BATCH_SIZE });
    },
    async *last(kind, limit, before) {
      const selector = { prefix: [...prefix, kind], ...(before && { end: keyOf(before) }) };
      const options = { reverse: true, batchSize: Math.min(limit, BATCH_SIZE) };
      let left = limit;
      for await (const record of listed(kind, selector, options)) {
        if (left-- <= 0) return;
        yield record;
      }
    },
    async create({ value, expireIn, ...place }) {
      const key = keyOf(place);
      const operation = kv.atomic().set(key, encodeValue(value), { expireIn });
      return (await marks.commit(operation, [{ key, versionstamp: null }])).ok;
    },
    async write(records) {
      const operation = kv.atomic();
      for (const { value, expireIn, ...key } of records) {
        operation.set(keyOf(key), encodeValue(value), { expireIn });
      }
      await marks.commit(operation, []);
    },
    async delete(key) {
      await marks.commit(kv.atomic().delete(keyOf(key)), []);
    },
  };
}
