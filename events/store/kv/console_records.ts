import { CommitMarks } from "../../../core/kv_commits.ts";
import { encodeValue } from "../value_codec.ts";
import { withoutGuard } from "./_kv_guard.ts";
import { storeKeys } from "./_layout.ts";
import { isForeign, LAST, list, type ListedEntry, NumberedEntries, read } from "./_reads.ts";

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
  const between: ConsoleRecords["between"] = async function* (kind, from, before) {
    const entries = new NumberedEntries(kv, [...prefix, kind]);
    for await (const entry of entries.list(from, before, BATCH_SIZE)) {
      if (entry.key.length === prefix.length + 3) yield recordOf(kind, entry);
    }
  };
  return {
    async read(key) {
      return (await read(kv, keyOf(key))).value ?? undefined;
    },
    between,
    async *last(kind, limit, before) {
      const options = { reverse: true, limit, batchSize: Math.min(limit, BATCH_SIZE) };
      const end = before && { end: keyOf(before) };
      let count = 0;
      try {
        for await (const entry of list(kv, { prefix: [...prefix, kind], ...end }, options)) {
          yield recordOf(kind, entry);
          count++;
        }
      } catch (error) {
        if (!isForeign(error)) throw error;
        const all = await Array.fromAsync(between(kind, 0, LAST));
        const isBefore = ({ number, id }: ConsoleRecordKey) =>
          !before || number < before.number || (number === before.number && id < before.id);
        yield* all.filter(isBefore).reverse().slice(count, limit);
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

function recordOf(
  kind: ConsoleRecordKind,
  { key, value }: ListedEntry,
): ConsoleRecord {
  return { kind, number: Number(key.at(-2)), id: String(key.at(-1)), value };
}
