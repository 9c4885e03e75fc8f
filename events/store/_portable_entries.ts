import type { StoreCore } from "./_core.ts";
import { scheduleKey, scheduleNotes } from "./_schedule_notes.ts";
import { listStates } from "./_states.ts";
import type { CellChange, CellKey } from "./engine.ts";
import type { EventOperations, RestoreOutcome } from "./event_operations.ts";
import { checkedEntry, isPortableNote, type PortableEntry } from "./portable_event.ts";
import { stateChange, stateKey } from "./state_cells.ts";
import { entryUntil } from "./stored_state.ts";
import { type UntakenAnswer, type Wake, wakeOf } from "./waits.ts";

/**
 * The time for which an entry that was restored is known, in milliseconds: seven days. A second import of the
 * same lines then leaves it alone, also if it was used and deleted meanwhile.
 */
const MARKED_MS = 604_800_000;

/** Waits of a store, as far as answers are moved by an export and an import. */
export interface PortableWaits {
  /** Lists the answers that no event has taken. */
  answers(): AsyncIterable<UntakenAnswer>;
  /** Makes the cell of an answer that no event waits for; its time is over if that is not positive. */
  cellOf(name: string, at: number, value: unknown, now: number): CellChange;
  /** Wakes an event here, unless the mark is there already. Returns false if it is, or no event waits for the name. */
  restoreWake(wake: Wake, mark: CellChange): Promise<boolean>;
}

/** Lists everything beside the events that an export takes along. */
export async function* portableEntries(
  core: StoreCore,
  waits: PortableWaits,
): ReturnType<EventOperations["portableEntries"]> {
  for await (const { isUnreadable, intake, key, value, expiresAt } of listStates(core)) {
    yield isUnreadable
      ? { kind: "unreadable", name: `the state ${JSON.stringify(key)}` }
      : { kind: "state", intake, key, value, expiresAt };
  }
  for await (const { name, at, value, eventId } of waits.answers()) {
    // An event that has its answer takes it along.
    if (eventId === undefined) yield { kind: "answer", name, at, value };
  }
  for await (const { name, value } of scheduleNotes(core).list()) {
    yield isPortableNote(value)
      ? { kind: "schedule", name, plan: value.plan, at: value.at }
      : { kind: "unreadable", name: `the note of the schedule ${JSON.stringify(name)}` };
  }
}

/**
 * Stores an entry that comes from another store. What is there already, or has been, is left as it is. An event
 * that waits here for an answer gets it.
 */
export async function restoreEntry(
  { engine }: StoreCore,
  waits: PortableWaits,
  given: PortableEntry,
): Promise<RestoreOutcome> {
  const entry = checkedEntry(given);
  const cell = cellOf(waits, entry, engine.now());
  if (cell.forMs !== undefined && cell.forMs <= 0) return "expired";
  const mark: CellChange = { key: markOf(cell.key), version: null, after: true, forMs: MARKED_MS };
  if (entry.kind === "answer") {
    const isWoken = await waits.restoreWake(wakeOf(entry.name, entry.value), mark);
    if (isWoken) return "restored";
  }
  for (const { version } of await engine.cells([cell.key, mark.key])) {
    if (version !== null) return "known";
  }
  const cells = [{ ...cell, version: null }, mark];
  return (await engine.apply({ cells, urgency: "work" })).ok ? "restored" : "known";
}

function cellOf(waits: PortableWaits, entry: PortableEntry, now: number): CellChange {
  switch (entry.kind) {
    case "state": {
      const { intake = "", key, expiresAt } = entry;
      return stateChange(stateKey(intake, key), null, entryUntil(entry.value, expiresAt, now), now);
    }
    case "answer":
      return waits.cellOf(entry.name, entry.at, entry.value, now);
    case "schedule": {
      const { name, plan, at } = entry;
      return { key: scheduleKey(name), after: { plan, at } };
    }
  }
}

/** Makes the key of the mark of an entry that was restored. */
function markOf(key: CellKey): CellKey {
  return ["restored", ...key];
}
