import type { CellKey } from "./engine.ts";
import type { ScheduleNotes } from "./schedule_notes.ts";
import { nameOfCell, type StoreCore } from "./store_core.ts";
import { UndecodableError } from "./value_codec.ts";

/** Beginning of the keys of all notes. */
const SCHEDULES: CellKey = ["cron"];

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
