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
