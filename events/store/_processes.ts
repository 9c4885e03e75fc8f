import type { CellKey } from "./engine.ts";
import type { EventOperations } from "./event_operations.ts";
import { isProcessNote, type ProcessNote } from "./processes.ts";
import { nameOfCell, type StoreCore } from "./store_core.ts";

/**
 * Time for which the note of a process is kept after it was written last, in milliseconds. It is written once a
 * minute, and the clocks of two machines may differ by a minute or two.
 */
const KEPT_MS = 300_000;

/** Beginning of the keys of all notes. */
const PROCESSES: CellKey = ["process"];

/** Writes the note of a process. It is forgotten unless it is written again. */
export async function noteProcess({ engine }: StoreCore, note: ProcessNote): Promise<void> {
  const { id, ...after } = note;
  const cell = { key: keyOf(id), after, forMs: KEPT_MS };
  await engine.apply({ cells: [cell], urgency: "work" });
}

/** Deletes the note of a process. */
export async function forgetProcess({ engine }: StoreCore, id: string): Promise<void> {
  await engine.apply({ cells: [{ key: keyOf(id), after: null }], urgency: "work" });
}

/** Lists the processes that were awake in the last minutes and have not ended in order. */
export async function listProcesses(
  { engine }: StoreCore,
): ReturnType<EventOperations["processes"]> {
  const found: Awaited<ReturnType<EventOperations["processes"]>> = [];
  const now = engine.now();
  for await (const cell of engine.list(PROCESSES)) {
    const { value } = cell;
    const id = nameOfCell(cell, PROCESSES);
    if (!isProcessNote(value)) found.push({ id, isUnreadable: true });
    // An engine may forget what has expired only after a while.
    else if (value.seenAt > now - KEPT_MS) found.push({ ...value, id });
  }
  return found;
}

function keyOf(id: string): CellKey {
  return [...PROCESSES, id];
}
