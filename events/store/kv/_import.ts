import type { RestoreOutcome } from "../event_operations.ts";
import type { EventRecord } from "../event_record.ts";
import { checkedEvent, type PortableEvent, type PortableRecord } from "../portable_event.ts";
import { imported, inIntake } from "../arrival.ts";
import { joined } from "../claims.ts";
import type { GroupIntake } from "./_group_intake.ts";
import { lookUp } from "./_layout.ts";
import type { StoreParts } from "./_parts.ts";
import { fitsOneCommit, newPayloadRef, setChunks, withUpload } from "./_payload.ts";
import { readAll } from "./_reads.ts";
import type { StoreCore } from "../_core.ts";
import { arriving } from "../_waits.ts";
import { encodeValue } from "../value_codec.ts";
import { addEvent, isTooMuch, untilDone, Write } from "./_write.ts";

/**
 * Stores an event that comes from another store, in one commit: its record, payload and id, and what leads
 * to it by its state. An event whose id is known is left as it is.
 *
 * @param parts The store.
 * @param joins The way into its ordering groups.
 * @param given The event.
 * @returns What became of it.
 * @throws {TypeError} If it is not valid.
 * @throws {RangeError} If it is too large for a KV.
 */
export async function restoreEvent(
  parts: StoreParts,
  core: StoreCore,
  joins: GroupIntake,
  given: PortableEvent,
): Promise<RestoreOutcome> {
  const event = checkedEvent(given);
  const { record, body } = event;
  if (leftMs(parts, record) <= 0) return "expired";
  const store = (after: EventRecord, addContent?: (write: Write) => void) =>
    restoreWith(parts, core, joins, event, after, addContent);
  if (!body) return await store(imported(record, null, Date.now()));
  const payload = newPayloadRef(body);
  const isDone = record.state === "done";
  const after = imported(record, isDone ? null : payload, Date.now());
  const keep = (write: Write) => isDone && parts.kept.restore(write, after, payload);
  if (fitsOneCommit(payload)) {
    return await store(after, (write) => {
      keep(write);
      setChunks(write, parts.keys, payload, body);
    });
  }
  if (await unknownOf(parts, record) === undefined) return "known";
  return await withUpload(
    parts,
    payload,
    body,
    (addRest) =>
      store(after, (write) => {
        keep(write);
        addRest(write);
      }),
    (outcome) => outcome === "restored",
  );
}

async function restoreWith(
  parts: StoreParts,
  core: StoreCore,
  joins: GroupIntake,
  { record: before }: PortableEvent,
  record: EventRecord,
  addContent?: (write: Write) => void,
): Promise<RestoreOutcome> {
  try {
    return await untilDone(async () => {
      const checks = await unknownOf(parts, before);
      if (checks === undefined) return "known";
      const write = new Write();
      for (const check of checks) write.check(check);
      addContent?.(write);
      const isJoining = before.group !== null && record.settledAt === null;
      const isMade = isJoining
        ? await commitInGroup(parts, joins, write, record)
        : await commitAlone(parts, write, await addWait(parts, core, write, record));
      return isMade ? "restored" : undefined;
    });
  } catch (error) {
    if (!isTooMuch(error)) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new RangeError(`Cannot restore the event: it is too large for the KV: ${reason}`);
  }
}

/**
 * Looks for an event.
 *
 * @returns The versions that its keys must have still; undefined if it is known.
 */
async function unknownOf(
  { kv, keys }: StoreParts,
  record: PortableRecord,
): Promise<Deno.AtomicCheck[] | undefined> {
  const idKey = keys.id(record.id);
  const eventKey = keys.event(record);
  const [id, event] = await readAll(kv, [idKey, eventKey]);
  if (event!.versionstamp !== null) return undefined;
  const unstored = { key: eventKey, versionstamp: null };
  // The id of an event that is done may outlast its record by some days.
  const isThere = id!.versionstamp !== null &&
    (await lookUp(kv, keys, record.id)).versionstamp !== null;
  return isThere ? undefined : [{ key: idKey, versionstamp: id!.versionstamp }, unstored];
}

/** Adds the wait of a parked event. */
async function addWait(
  parts: StoreParts,
  core: StoreCore,
  write: Write,
  record: EventRecord,
): Promise<EventRecord> {
  if (record.state !== "parked" || !record.waitingFor) return record;
  const { record: after, cells } = await arriving(core, record);
  for (const { key, version, after } of cells) {
    const stored = parts.keys.cell(key);
    write.check({ key: stored, versionstamp: version! });
    if (after === null) write.delete(stored);
    else write.set(stored, encodeValue(after));
  }
  return after;
}

/** Commits an event that joins the end of its ordering group. */
function commitInGroup(
  parts: StoreParts,
  joins: GroupIntake,
  base: Write,
  record: EventRecord,
): Promise<boolean> {
  const orderingKey = record.orderingKey!;
  const isJoined = joins.join({
    ...{ key: inIntake(record.intake, orderingKey), base, bytes: 0, since: performance.now() },
    add: (write, position, isFirst) => {
      const after = joined(record, orderingKey, position, isFirst);
      addTo(parts, write, after);
      return { record: after };
    },
  });
  return isJoined.then((version) => version !== null);
}

async function commitAlone(parts: StoreParts, write: Write, record: EventRecord): Promise<boolean> {
  addTo(parts, write, record);
  if (await parts.commits.commit(write) === null) return false;
  if (write.notifies) parts.local.listener?.wake();
  return true;
}

function addTo(parts: StoreParts, write: Write, record: EventRecord): void {
  const isDone = record.state === "done";
  const { keys, retentionMs } = parts;
  const leftFor = isDone ? Math.max(1, leftMs(parts, record)) : retentionMs;
  addEvent(write, { keys, retentionMs: leftFor }, isDone ? record : { ...record, idKept: true });
  write.notifies ||= record.dueAt !== null && record.dueAt <= Date.now();
}

/** Counts the time for which an event is still remembered: all of it unless it is done. */
function leftMs({ retentionMs }: StoreParts, { state, settledAt }: PortableRecord): number {
  if (state !== "done") return Infinity;
  // By a clock that was ahead, it would have been done in the future.
  return Math.min(retentionMs, settledAt! + retentionMs - Date.now());
}
