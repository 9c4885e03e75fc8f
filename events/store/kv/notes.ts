import { CommitMarks } from "../../../core/kv_commits.ts";
import { encodeValue } from "../value_codec.ts";
import { withoutGuard } from "./_kv_guard.ts";
import { storeKeys, UndecodableError } from "./_layout.ts";
import { isUndecodable, list, nameIn, read } from "./_reads.ts";

/** A note that was read. */
export interface StoredNote {
  /** Its value; undefined if there is none. */
  readonly value: unknown;
  /** Its version, for writing it; null if there is none. */
  readonly version: string | null;
}

/** Notes that outlive a process, beside the events of a namespace. */
export interface Notes {
  /**
   * Reads a note.
   *
   * @param name Its name.
   * @returns The note.
   * @throws {Error} If it cannot be decoded.
   */
  read(name: string): Promise<StoredNote>;
  /**
   * Writes a note, unless somebody else has written it meanwhile.
   *
   * @param name Its name.
   * @param value Its value.
   * @param version The version that it must have.
   * @returns Its new version; null if it has another one.
   */
  write(name: string, value: unknown, version: string | null): Promise<string | null>;
  /** Lists all notes by their names, around those that cannot be decoded. */
  list(): AsyncIterableIterator<{ readonly name: string; readonly value: unknown }>;
}

/**
 * Opens the notes on the slots of schedules: one key for each schedule.
 *
 * @param view The KV, or a view of it.
 * @param namespace The namespace of the events.
 * @returns The notes.
 */
export function openSlotNotes(view: Deno.Kv, namespace: string): Notes {
  const kv = withoutGuard(view);
  const { slots, schedules, commitMarks } = storeKeys(namespace);
  const marks = new CommitMarks(kv, commitMarks);
  return {
    async read(name) {
      const entry = await read(kv, slots(name));
      if (isUndecodable(entry)) throw new UndecodableError(`the note of the schedule ${name}`);
      return { value: entry.value ?? undefined, version: entry.versionstamp };
    },
    async write(name, value, version) {
      const key = slots(name);
      const operation = kv.atomic().set(key, encodeValue(value));
      const result = await marks.commit(operation, [{ key, versionstamp: version }]);
      return result.ok ? result.versionstamp : null;
    },
    async *list() {
      for await (const entry of list(kv, schedules)) {
        yield { name: nameIn(entry), value: entry.value };
      }
    },
  };
}
