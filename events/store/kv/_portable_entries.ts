import type { EventOperations, RestoreOutcome } from "../event_operations.ts";
import { checkedEntry, isPortableNote, type PortableEntry } from "../portable_event.ts";
import { bytesFromNow, entryUntil } from "../stored_state.ts";
import { encodeValue } from "../value_codec.ts";
import { wakeOf } from "../waits.ts";
import { MARK } from "./_layout.ts";
import type { StoreParts } from "./_parts.ts";
import { list, nameIn, readAll } from "./_reads.ts";
import { listStates } from "./_states.ts";
import { answers, KEPT_MS, restoreWake, storedAnswer } from "./_waits.ts";

/**
 * The time for which an entry that was restored is known, in milliseconds: seven days. A second import of the
 * same lines then leaves it alone, also if it was used and deleted meanwhile.
 */
const MARKED_MS = 604_800_000;

/** The entry of a KV that an entry becomes. */
interface Place {
  readonly key: Deno.KvKey;
  readonly value: Uint8Array<ArrayBuffer>;
  readonly expireIn?: number | undefined;
}

/** Lists everything beside the events that an export takes along. */
export async function* portableEntries(
  parts: StoreParts,
): ReturnType<EventOperations["portableEntries"]> {
  for await (const { isUnreadable, intake, key, value, expiresAt } of listStates(parts)) {
    yield isUnreadable
      ? { kind: "unreadable", name: `the state ${JSON.stringify(key)}` }
      : { kind: "state", intake, key, value, expiresAt };
  }
  for await (const { name, at, value, eventId } of answers(parts)) {
    // An event that has its answer takes it along.
    if (eventId === undefined) yield { kind: "answer", name, at, value };
  }
  for await (const entry of list(parts.kv, parts.keys.schedules)) {
    const { value } = entry;
    const name = nameIn(entry);
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
  parts: StoreParts,
  given: PortableEntry,
): Promise<RestoreOutcome> {
  const { kv, keys, marks } = parts;
  const entry = checkedEntry(given);
  const { key, value, expireIn = Infinity } = placeOf(keys, entry);
  if (expireIn <= 0) return "expired";
  const mark = keys.restored(key);
  if (entry.kind === "answer") {
    const wake = wakeOf(entry.name, entry.value);
    const isWoken = await restoreWake(parts, wake, { key: mark, expireIn: MARKED_MS });
    if (isWoken) return "restored";
  }
  for (const { versionstamp } of await readAll(kv, [key, mark])) {
    if (versionstamp !== null) return "known";
  }
  const checks = [key, mark].map((key) => ({ key, versionstamp: null }));
  const operation = kv.atomic()
    .set(key, value, Number.isFinite(expireIn) ? { expireIn } : {})
    .set(mark, MARK, { expireIn: MARKED_MS });
  return (await marks.commit(operation, checks)).ok ? "restored" : "known";
}

function placeOf(keys: StoreParts["keys"], entry: PortableEntry): Place {
  const now = Date.now();
  switch (entry.kind) {
    case "state": {
      const { intake = "", expiresAt } = entry;
      const state = entryUntil(entry.value, expiresAt, now);
      const key = keys.state(intake, entry.key);
      return { key, value: bytesFromNow(state), expireIn: state.expireIn };
    }
    case "answer": {
      const { name, at, value } = entry;
      // By a clock that was ahead, it would have come in the future.
      const expireIn = Math.min(KEPT_MS, at + KEPT_MS - now);
      return { key: keys.waiter(name), value: encodeValue(storedAnswer(at, value)), expireIn };
    }
    case "schedule": {
      const { name, plan, at } = entry;
      return { key: keys.slots(name), value: encodeValue({ plan, at }) };
    }
  }
}
