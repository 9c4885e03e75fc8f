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

/** The place of a record. Records of a kind are in the order of their numbers. */
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

/** The records of a console, beside the events of a namespace. */
export type ConsoleRecords = ReturnType<typeof openConsoleRecords>;

/**
 * Opens the records of a console.
 *
 * @param view The KV, or a view of it.
 * @param namespace The namespace of the events.
 * @returns The records.
 */
export function openConsoleRecords(view: Deno.Kv, namespace: string) {
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
    /** Reads the value of a record; undefined if there is none. */
    async read(key: ConsoleRecordKey): Promise<unknown> {
      return (await read(kv, keyOf(key))).value ?? undefined;
    },

    /** Lists the records of a kind in their order, from a number on and before another. */
    between(kind: ConsoleRecordKind, from: number, before: number): AsyncGenerator<ConsoleRecord> {
      const selector = { start: [...prefix, kind, from], end: [...prefix, kind, before] };
      return listed(kind, selector, { batchSize: BATCH_SIZE });
    },

    /** Lists the last records of a kind, the last first, up to a number of them; those before one, if it is given. */
    async *last(
      kind: ConsoleRecordKind,
      limit: number,
      before?: ConsoleRecordKey,
    ): AsyncGenerator<ConsoleRecord> {
      const selector = { prefix: [...prefix, kind], ...(before && { end: keyOf(before) }) };
      const options = { reverse: true, batchSize: Math.min(limit, BATCH_SIZE) };
      let left = limit;
      for await (const record of listed(kind, selector, options)) {
        if (left-- <= 0) return;
        yield record;
      }
    },

    /** Writes a record, unless there is one in its place: then it returns false. */
    async create({ value, expireIn, ...place }: NewConsoleRecord): Promise<boolean> {
      const key = keyOf(place);
      const operation = kv.atomic().set(key, encodeValue(value), { expireIn });
      return (await marks.commit(operation, [{ key, versionstamp: null }])).ok;
    },

    /** Writes records, all or none: few, so that they fit a commit. */
    async write(records: readonly NewConsoleRecord[]): Promise<void> {
      const operation = kv.atomic();
      for (const { value, expireIn, ...key } of records) {
        operation.set(keyOf(key), encodeValue(value), { expireIn });
      }
      await marks.commit(operation, []);
    },

    /** Deletes a record. */
    async delete(key: ConsoleRecordKey): Promise<void> {
      await marks.commit(kv.atomic().delete(keyOf(key)), []);
    },
  };
}
