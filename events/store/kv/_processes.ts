import type { EventOperations } from "../event_operations.ts";
import { isProcessNote, type ProcessNote } from "../processes.ts";
import { encodeValue } from "../value_codec.ts";
import type { StoreParts } from "./_parts.ts";
import { asEngineError, list, nameIn } from "./_reads.ts";

/**
 * Time for which the note of a process is kept after it was written last, in milliseconds. It is written once a
 * minute, and the clocks of two machines may differ by a minute or two.
 */
const KEPT_MS = 300_000;

/** Writes the note of a process. It is forgotten unless it is written again. */
export async function noteProcess(
  { kv, keys, marks }: StoreParts,
  note: ProcessNote,
): Promise<void> {
  const { id, ...value } = note;
  const operation = kv.atomic();
  operation.set(keys.process(id), encodeValue(value), { expireIn: KEPT_MS });
  try {
    await marks.commit(operation, []);
  } catch (error) {
    throw asEngineError(error);
  }
}

/** Deletes the note of a process. */
export async function forgetProcess({ kv, keys, marks }: StoreParts, id: string): Promise<void> {
  await marks.commit(kv.atomic().delete(keys.process(id)), []);
}

/** Lists the processes that were awake in the last minutes and have not ended in order. */
export async function listProcesses(
  { kv, keys }: StoreParts,
): ReturnType<EventOperations["processes"]> {
  const found: Awaited<ReturnType<EventOperations["processes"]>> = [];
  const now = Date.now();
  for await (const entry of list(kv, keys.processes)) {
    const { value } = entry;
    const id = nameIn(entry);
    if (!isProcessNote(value)) found.push({ id, isUnreadable: true });
    // The KV deletes what has expired only after a while.
    else if (value.seenAt > now - KEPT_MS) found.push({ ...value, id });
  }
  return found;
}
