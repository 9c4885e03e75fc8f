import { answerCell, answers, restoreWake } from "./_waits.ts";
import type { CellChange, CellKey } from "./engine.ts";
import type { EventOperations, RestoreOutcome } from "./event_operations.ts";
import { checkedEntry, isPortableNote, type PortableEntry } from "./portable_event.ts";
import { scheduleKey, scheduleNotes } from "./schedule_notes.ts";
import type { StoreCore } from "./store_core.ts";
import { entryUntil, listStates, stateChange, stateKey } from "./stored_state.ts";
import { wakeOf } from "./waits.ts";

/**
 * The time for which an entry that was restored is known, in milliseconds: seven days. A second import of the
 * same lines then leaves it alone, also if it was used and deleted meanwhile.
 */
const MARKED_MS = 604_800_000;

/** Lists everything beside the events that an export takes along. */
export async function* portableEntries(
  core: StoreCore,
): ReturnType<EventOperations["portableEntries"]> {
  for await (const { isUnreadable, intake, key, value, expiresAt } of listStates(core)) {
    yield isUnreadable
      ? { kind: "unreadable", name: `the state ${JSON.stringify(key)}` }
      : { kind: "state", intake, key, value, expiresAt };
  }
  for await (const { name, at, value, eventId } of answers(core)) {
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
  core: StoreCore,
  given: PortableEntry,
): Promise<RestoreOutcome> {
  const { engine } = core;
  const entry = checkedEntry(given);
  const cell = cellOf(entry, engine.now());
  if (cell.forMs !== undefined && cell.forMs <= 0) return "expired";
  const mark: CellChange = { key: markOf(cell.key), version: null, after: true, forMs: MARKED_MS };
  if (entry.kind === "answer") {
    const isWoken = await restoreWake(core, wakeOf(entry.name, entry.value), mark);
    if (isWoken) return "restored";
  }
  for (const { version } of await engine.cells([cell.key, mark.key])) {
    if (version !== null) return "known";
  }
  const cells = [{ ...cell, version: null }, mark];
  return (await engine.apply({ cells, urgency: "work" })).ok ? "restored" : "known";
}

function cellOf(entry: PortableEntry, now: number): CellChange {
  switch (entry.kind) {
    case "state": {
      const { intake = "", key, expiresAt } = entry;
      return stateChange(stateKey(intake, key), null, entryUntil(entry.value, expiresAt, now), now);
    }
    case "answer":
      return answerCell(entry.name, entry.at, entry.value, now);
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
