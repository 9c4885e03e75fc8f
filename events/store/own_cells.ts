/**
 * The cells that the package keeps for itself: the notes of the schedules and of what is wrong, and the records of the
 * console.
 *
 * @module
 */
import { type CellChange, type CellKey, type Engine, UndecodableError } from "./engine.ts";
import { isUnnamed, nameOfCell, type StoreCore } from "./store_core.ts";

/** Beginning of the keys of all notes. */
const SCHEDULES: CellKey = ["cron"];

/** Beginning of the keys of the notes of what is wrong. */
const ALERTS: CellKey = ["alerts"];

/** The number of records read at a time. */
const AT_ONCE = 500;

/** Kind of the cells of all records. */
const CONSOLE = "console";

/**
 * Notes of the slots that were made of schedules: one for each schedule. All instances of an app share them. They are
 * internal to the package.
 *
 * @internal
 */
export interface ScheduleNotes {
  /**
   * Reads a note.
   *
   * @param name The name of the schedule.
   * @returns Its value, undefined if there is none, and its version, null if there is none.
   * @throws {Error} If it cannot be decoded.
   */
  read(name: string): Promise<{ readonly value: unknown; readonly version: string | null }>;
  /**
   * Writes a note, unless somebody else has written it meanwhile.
   *
   * @param name The name of the schedule.
   * @param value The new value.
   * @param version The version that it must have.
   * @returns Its new version; null if it has another one.
   */
  write(name: string, value: unknown, version: string | null): Promise<string | null>;
  /**
   * Lists all notes by their names.
   *
   * @returns The notes. One that cannot be decoded has the value undefined.
   */
  list(): AsyncIterableIterator<{ readonly name: string; readonly value: unknown }>;
}

/** Problem that is new, or that somebody was told of and that is not over. */
export interface RecentProblem {
  /** Its id. */
  readonly id: string;
  /** The text of an error of it. */
  readonly error: string;
  /** The handler, or the type of its events if that is not known. */
  readonly handler: string;
  /** The time at which it has come up, or come back after it was over, milliseconds since the epoch. */
  readonly since: number;
  /** True if it has come back. */
  readonly isBack: boolean;
  /** True if it has come up, or come back, in the last hour. */
  readonly isNew: boolean;
  /** True if an event is dead because of it. */
  readonly hasDead: boolean;
  /** The number of attempts that have failed by it since then, of the last two hours. */
  readonly failed: number;
}

/**
 * Notes of what is wrong with an app, and of who has been told: one for each thing. All instances of an app share them.
 * They are internal to the package.
 *
 * @internal
 */
export interface AlertNotes {
  /**
   * Lists them by their keys.
   *
   * @returns The notes: the value of each, undefined if it cannot be decoded, and its version.
   */
  list(): AsyncIterableIterator<
    { readonly key: string; readonly value: unknown; readonly version: string | null }
  >;
  /**
   * Writes one, unless somebody else has written it meanwhile.
   *
   * @param key The name of the thing.
   * @param value The new value; null deletes it.
   * @param version The version that it must have; null for none.
   * @returns Its new version; null if it has another one.
   */
  write(key: string, value: unknown, version: string | null): Promise<string | null>;
  /**
   * Reads the problems that are new, and those that somebody was told of and that are not over.
   *
   * @param told The ids of the problems that somebody was told of.
   * @returns The problems.
   */
  problems(told: readonly string[]): Promise<readonly RecentProblem[]>;
}

/** Makes the notes of what is wrong of a store. */
export function alertNotes(
  { engine }: StoreCore,
  problems: { readonly recent: AlertNotes["problems"] },
): AlertNotes {
  return {
    async *list() {
      for await (const note of engine.list(ALERTS)) {
        const { value, version } = note;
        yield { key: nameOfCell(note, ALERTS), value, version };
      }
    },
    async write(key, after, version) {
      const cell = { key: [...ALERTS, key] as const, version, after };
      const result = await engine.apply({ cells: [cell], urgency: "work" });
      return result.ok ? result.version : null;
    },
    problems: (told) => problems.recent(told),
  };
}

/** Makes the key of the note of a schedule. */
export function scheduleKey(name: string): CellKey {
  return [...SCHEDULES, name];
}

/** Makes the notes of a store. */
export function scheduleNotes({ engine }: StoreCore): ScheduleNotes {
  return {
    async read(name) {
      const [note] = await engine.cells([scheduleKey(name)]);
      const { value, version } = note!;
      if (value === undefined) throw new UndecodableError(`the note of the schedule ${name}`);
      return { value: value ?? undefined, version };
    },
    async write(name, value, version) {
      const cell = { key: scheduleKey(name), version, after: value };
      const result = await engine.apply({ cells: [cell], urgency: "work" });
      return result.ok ? result.version : null;
    },
    async *list() {
      for await (const note of engine.list(SCHEDULES)) {
        yield { name: nameOfCell(note, SCHEDULES), value: note.value };
      }
    },
  };
}

/**
 * Kind of records: counts of a minute, counts of a quarter of an hour, acts of an operator, wishes to stop one, lists of
 * the events that one has changed, samples of refused deliveries, and that somebody looks.
 */
type ConsoleRecordKind = "minute" | "quarter" | "act" | "stop" | "changed" | "refused" | "watched";

/** Place of a record. Records of a kind are in the order of their numbers. */
export interface ConsoleRecordKey {
  /** The kind. */
  readonly kind: ConsoleRecordKind;
  /** The number: a time, or the number of a span of time. */
  readonly number: number;
  /** The id among those with the same number. */
  readonly id: string;
}

/** Record that was read. */
interface ConsoleRecord extends ConsoleRecordKey {
  /** The value. Another version may have written it. */
  readonly value: unknown;
}

/** Record that is written, for a limited time. */
export interface NewConsoleRecord extends ConsoleRecord {
  /** The time after which it is deleted, in milliseconds. */
  readonly forMs: number;
}

/**
 * Records of an app's console: what it counts, and the acts of its operators. They are internal to the console.
 *
 * @internal
 */
export interface ConsoleRecords {
  /**
   * Reads a record.
   *
   * @param key The place of the record.
   * @returns Its value; undefined if there is none.
   */
  read(key: ConsoleRecordKey): Promise<unknown>;
  /**
   * Lists records in their order.
   *
   * @param kind The kind of the records.
   * @param from The number that they begin with.
   * @param before The number that they end before.
   * @returns The records. Those that cannot be read even as to their keys are left out.
   */
  between(
    kind: ConsoleRecordKind,
    from: number,
    before: number,
  ): AsyncIterableIterator<ConsoleRecord>;
  /**
   * Lists the last records of a kind, the last first.
   *
   * @param kind The kind of the records.
   * @param limit The number of records, at most.
   * @param before The place of the record that they come before; the end by default.
   * @returns The records.
   */
  last(
    kind: ConsoleRecordKind,
    limit: number,
    before?: ConsoleRecordKey,
  ): AsyncIterableIterator<ConsoleRecord>;
  /**
   * Reads a record, to replace it.
   *
   * @param key The place of the record.
   * @returns Its value, undefined if there is none, and its version, null if there is none.
   */
  readVersion(
    key: ConsoleRecordKey,
  ): Promise<{ readonly value: unknown; readonly version: string | null }>;
  /**
   * Writes a record, unless somebody else has written it meanwhile.
   *
   * @param record The record.
   * @param version The version that it must have; null for none.
   * @param others Records that are written with it, in the same commit.
   * @returns Its new version; null if it has another one, and nothing was written.
   */
  replace(
    record: NewConsoleRecord,
    version: string | null,
    others?: readonly NewConsoleRecord[],
  ): Promise<string | null>;
  /**
   * Writes records, all or none.
   *
   * @param records The records: few, so that they fit a commit.
   * @returns A promise that resolves once they are stored.
   */
  write(records: readonly NewConsoleRecord[]): Promise<void>;
  /**
   * Deletes a record.
   *
   * @param key The place of the record.
   * @returns A promise that resolves once that is stored.
   */
  delete(key: ConsoleRecordKey): Promise<void>;
}

/** Makes the console's records of a store. */
export function consoleRecords({ engine }: StoreCore): ConsoleRecords {
  return {
    async read(key) {
      const [record] = await engine.cells([keyOf(key)]);
      return record!.value ?? undefined;
    },

    between(kind, from, before) {
      return listed(engine, kind, {
        from: [CONSOLE, kind, from],
        before: [CONSOLE, kind, before],
        atOnce: AT_ONCE,
      });
    },

    async *last(kind, limit, before) {
      const options = {
        before: before && keyOf(before),
        isReverse: true,
        atOnce: Math.min(limit, AT_ONCE),
      };
      let left = limit;
      for await (const record of listed(engine, kind, options)) {
        if (left-- <= 0) return;
        yield record;
      }
    },

    async readVersion(key) {
      const [record] = await engine.cells([keyOf(key)]);
      return { value: record!.value ?? undefined, version: record!.version };
    },

    async replace(record, version, others = []) {
      const cells = [{ ...cellOf(record), version }, ...others.map(cellOf)];
      const result = await engine.apply({ cells, urgency: "work" });
      return result.ok ? result.version : null;
    },

    async write(records) {
      await engine.apply({ cells: records.map(cellOf), urgency: "work" });
    },

    async delete(key) {
      await engine.apply({ cells: [{ key: keyOf(key), after: null }], urgency: "work" });
    },
  };
}

async function* listed(
  engine: Engine,
  kind: ConsoleRecordKind,
  options: Parameters<Engine["list"]>[1],
): AsyncGenerator<ConsoleRecord> {
  const begin: CellKey = [CONSOLE, kind];
  for await (const record of engine.list(begin, options)) {
    const [number, id] = record.key.slice(-2);
    if (isUnnamed(record, begin)) continue;
    yield { kind, number: Number(number), id: String(id), value: record.value };
  }
}

function cellOf({ value, forMs, ...place }: NewConsoleRecord): CellChange {
  return { key: keyOf(place), after: value, forMs };
}

function keyOf({ kind, number, id }: ConsoleRecordKey): CellKey {
  return [CONSOLE, kind, number, id];
}
