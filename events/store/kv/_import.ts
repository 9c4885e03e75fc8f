import type { RestoreOutcome } from "../event_operations.ts";
import type { EventRecord } from "../event_record.ts";
import { checkedEvent, type PortableEvent, type PortableRecord } from "../portable_event.ts";
import { imported, inIntake } from "../arrival.ts";
import { joined } from "../claims.ts";
import { writeNew } from "./_apply.ts";
import { lookUp } from "./_layout.ts";
import { OrderingGroups } from "./_ordering_groups.ts";
import type { StoreParts } from "./_parts.ts";
import {
  discardUpload,
  fitsOneCommit,
  lastPartOf,
  newPayloadRef,
  setChunks,
  type Upload,
  upload,
} from "./_payload.ts";
import { readAll } from "./_reads.ts";
import { encodeValue } from "../value_codec.ts";
import { Waits } from "./_waits.ts";
import { isTooMuch, untilDone, Write } from "./_write.ts";

/**
 * Stores an event that comes from another store, in one commit: its record, payload and id, and what leads
 * to it by its state. An event whose id is known is left as it is.
 *
 * @param parts The store.
 * @param given The event.
 * @returns What became of it.
 * @throws {TypeError} If it is not valid.
 * @throws {RangeError} If it is too large for a KV.
 */
export async function restoreEvent(
  parts: StoreParts,
  given: PortableEvent,
): Promise<RestoreOutcome> {
  const event = checkedEvent(given);
  const { record, body } = event;
  if (leftMs(parts, record) <= 0) return "expired";
  if (!body) return await restoreWith(parts, event, imported(record, null, Date.now()));
  const payload = newPayloadRef(body);
  const isDone = record.state === "done";
  const after = imported(record, isDone ? null : payload, Date.now());
  const keep = (write: Write) => isDone && parts.kept.restore(write, after, payload);
  if (fitsOneCommit(payload)) {
    return await restoreWith(parts, event, after, (write) => {
      keep(write);
      setChunks(write, parts.keys, payload, body);
    });
  }
  if (await unknownOf(parts, record) === undefined) return "known";
  const { keys } = parts;
  const mark: Upload = await upload(parts, payload, body, Date.now());
  const outcome = await restoreWith(parts, event, after, (write) => {
    keep(write);
    write.check(mark).delete(mark.key);
    setChunks(write, keys, payload, body, lastPartOf(payload));
  });
  if (outcome === "known") await discardUpload(parts, payload, mark);
  return outcome;
}

async function restoreWith(
  parts: StoreParts,
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
        ? await commitInGroup(parts, write, record)
        : await commitAlone(parts, write, await arriving(parts, write, record));
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
async function arriving(
  parts: StoreParts,
  write: Write,
  record: EventRecord,
): Promise<EventRecord> {
  if (record.state !== "parked" || !record.waitingFor) return record;
  const { record: after, options } = await new Waits(parts).arriving(record);
  for (const check of options.checks ?? []) write.check(check);
  options.add?.(write);
  return after;
}

/** Commits an event that joins the end of its ordering group. */
async function commitInGroup(
  parts: StoreParts,
  write: Write,
  record: EventRecord,
): Promise<boolean> {
  const orderingKey = record.orderingKey!;
  const key = inIntake(record.intake, orderingKey);
  const orderingGroups = new OrderingGroups(parts);
  return await parts.locks.run(key, async () => {
    const group = await orderingGroups.readToJoin(key);
    orderingGroups.join(write, group, [record]);
    const position = { key, position: group.next };
    return await commitAlone(
      parts,
      write,
      joined(record, orderingKey, position, group.size === 0),
    );
  });
}

async function commitAlone(parts: StoreParts, write: Write, record: EventRecord): Promise<boolean> {
  const { keys, commits, local } = parts;
  if (record.state === "done") {
    const retentionMs = Math.max(1, leftMs(parts, record));
    writeNew(write, { ...parts, retentionMs }, record);
    write.set(keys.id(record.id), encodeValue(record.receivedAt), { expireIn: retentionMs });
  } else {
    writeNew(write, parts, { ...record, idKept: true });
    write.set(keys.id(record.id), encodeValue(record.receivedAt));
  }
  write.notifies = record.dueAt !== null && record.dueAt <= Date.now();
  if (await commits.commit(write) === null) return false;
  if (write.notifies) local.listener?.wake();
  return true;
}

/** Counts the time for which an event is still remembered: all of it unless it is done. */
function leftMs({ retentionMs }: StoreParts, { state, settledAt }: PortableRecord): number {
  if (state !== "done") return Infinity;
  // By a clock that was ahead, it would have been done in the future.
  return Math.min(retentionMs, settledAt! + retentionMs - Date.now());
}
