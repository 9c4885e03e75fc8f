import { untilDone } from "../../core/tries.ts";
import type { EventStore } from "../store/mod.ts";
import { readNote, type SlotNote, TAKE_OVER_MS } from "./slots.ts";

/** Store with the notes of schedules. */
type NotedStore = Pick<EventStore, "scheduleNotes">;

/**
 * Pauses a schedule, in all instances and until it is resumed: the slots that become due meanwhile are left out.
 *
 * @param store The event store.
 * @param name The schedule's name.
 * @param by Who does it, for people.
 * @returns False if it is paused already.
 * @throws {RangeError} If the store knows no such schedule.
 * @throws {Error} If this version cannot read the note of the schedule, or an instance takes longer to make a slot.
 */
export async function pauseSchedule(
  { scheduleNotes }: NotedStore,
  name: string,
  by?: string,
): Promise<boolean> {
  const now = Date.now();
  return await change(scheduleNotes, name, (note) => {
    if (note.paused) return undefined;
    return { ...note, paused: { at: now, ...(by !== undefined && { by }) } };
  });
}

/**
 * Resumes a schedule: its next slot is made. Those that have become due while it was paused are left out.
 *
 * @param store The event store.
 * @param name The schedule's name.
 * @returns False if it is not paused.
 * @throws {RangeError} If the store knows no such schedule.
 * @throws {Error} If this version cannot read the note of the schedule.
 */
export async function resumeSchedule(
  { scheduleNotes }: NotedStore,
  name: string,
): Promise<boolean> {
  return await change(scheduleNotes, name, ({ paused, making: _, ...note }) => {
    if (!paused) return undefined;
    // Slots that no instance has left out yet are left out by this.
    return { ...note, at: Math.max(note.at, Date.now()) };
  });
}

/** Changes the note of a schedule, once no instance makes a slot; false if it is not to be changed. */
async function change(
  notes: EventStore["scheduleNotes"],
  name: string,
  changed: (note: SlotNote) => SlotNote | undefined,
): Promise<boolean> {
  return await untilDone(async () => {
    const { value, version } = await notes.read(name);
    if (value === undefined) throw new RangeError("The store knows no schedule of this name");
    const note = readNote(value);
    if (!note) {
      throw new Error(
        "Cannot read the note of the schedule: another version wrote it, or it is damaged",
      );
    }
    const after = changed(note);
    if (!after) return false;
    // An instance that makes a slot writes its note again in a moment.
    if (note.making && Math.abs(Date.now() - note.making.since) < TAKE_OVER_MS) return undefined;
    return await notes.write(name, after, version) === null ? undefined : true;
  });
}
