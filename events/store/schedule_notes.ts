import { type CellKey, UndecodableError } from "./engine.ts";
import { nameOfCell, type StoreCore } from "./store_core.ts";

/** Beginning of the keys of all notes. */
const SCHEDULES: CellKey = ["cron"];

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
