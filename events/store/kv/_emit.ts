import { writeLog } from "../../../core/mod.ts";
import { childIdOf, type Emission } from "../emission.ts";
import type { EventRecord } from "../event_record.ts";
import type { NoteOptions } from "../event_store.ts";
import { cutKey, emitted, inIntake } from "../arrival.ts";
import { type IdTurn, takeIds, TURN } from "./_chosen_ids.ts";
import { HOLD_MS } from "./_concurrency.ts";
import { lookUp, refOf, type StoreKeys } from "./_layout.ts";
import type { StoreParts } from "./_parts.ts";
import { inRecord, newPayloadRef } from "./_payload.ts";
import { readAll } from "./_reads.ts";
import { addEvent, hasTooManyChecks, isTooMuch, Write } from "./_write.ts";

/**
 * Part of a lease for which a settlement waits for its turn, and one for which a part of the handling does: less
 * than a worker waits for an answer before it says that the KV does not answer.
 */
const [SETTLING, NOTING] = [0.8, 0.3] as const;

/** The number of checks of an event's record and its id, and of its ordering group. */
const [RECORD_CHECKS, GROUP_CHECKS] = [2, 2] as const;

/**
 * Adds emitted events to a write: a record, an id and a schedule entry for each, and parts for a payload that
 * does not fit the record.
 *
 * Generated ids count up with the event whose handler has emitted them, and its record is checked by the
 * commit: so only ids of an event that was purged and sent again can be known, and they are passed over.
 *
 * @param parts The store.
 * @param write The write.
 * @param emissions The events.
 * @param parent The record of the event whose handler has emitted them, as it is written.
 * @param turn The way in which their ids are checked.
 * @returns That record. It counts the generated ids.
 */
export async function addEmissions(
  parts: StoreParts,
  write: Write,
  emissions: readonly Emission[],
  parent: EventRecord,
  turn: IdTurn,
): Promise<EventRecord> {
  const now = Date.now();
  const known = await knownIds(parts, write, emissions, turn);
  let number = await lastNumber(parts, emissions, parent);
  for (const emission of emissions) {
    const id = emission.id === undefined
      ? childIdOf(emission.source, parent.id, ++number)
      : fullIdOf(emission);
    if (known.has(id)) reportKnown(parts, id);
    else addEmission(parts, write, emission, id, now, parent);
    // The same id again, in the same commit.
    if (emission.id !== undefined) known.add(id);
  }
  return number === (parent.emitted ?? 0) ? parent : { ...parent, emitted: number };
}

/**
 * Runs the change of a store that settles an event, or notes a part of it, with emitted events: one at a time
 * if they have many ids of their own. The callback is told whether it has its turn, and how long it was queued.
 */
export async function inTurn<T>(
  { locks, commits }: StoreParts,
  { lease, group }: EventRecord,
  { emits: emissions = [], wakes = [], signal }: NoteOptions,
  change: (hasTurn: boolean, waitedMs?: number) => Promise<T>,
): Promise<T> {
  const ids = emissions.filter(mayBeKnown).length;
  const others = RECORD_CHECKS + (group ? GROUP_CHECKS : 0) + wakes.length;
  try {
    if (ids <= Math.max(1, commits.maxChecks - others)) {
      try {
        return await change(false);
      } catch (error) {
        // Effects have checks as well.
        if (ids <= 1 || !hasTooManyChecks(error)) throw error;
      }
    }
    const withinMs = (signal ? NOTING : SETTLING) * (lease?.ms ?? HOLD_MS);
    const options = { withinMs, signal };
    return await locks.run(TURN, (waitedMs) => change(true, waitedMs), options);
  } catch (error) {
    if (!isTooMuch(error)) throw error;
    const message = "Cannot emit the events: they do not fit the commit that settles their event";
    throw new RangeError(message, { cause: error });
  }
}

/** Finds the chosen ids that are known. The commit fails if that changes meanwhile. */
function knownIds(
  parts: StoreParts,
  write: Write,
  emissions: readonly Emission[],
  turn: IdTurn,
): Promise<Set<string>> {
  return takeIds(parts, write, [...new Set(emissions.filter(mayBeKnown).map(fullIdOf))], turn);
}

function unknown(key: Deno.KvKey): Deno.AtomicCheck {
  return { key, versionstamp: null };
}

async function knownAmong(
  kv: Deno.Kv,
  keys: StoreKeys,
  ids: readonly string[],
): Promise<Set<string>> {
  const entries = await readAll(kv, ids.map((id) => keys.id(id)));
  return new Set(ids.filter((_, i) => entries[i]!.versionstamp !== null));
}

/** Finds the number after which as many generated ids are free as the events of a commit need. */
async function lastNumber(
  { kv, keys }: StoreParts,
  emissions: readonly Emission[],
  { id: parentId, emitted: last = 0 }: EventRecord,
): Promise<number> {
  const sources = emissions.flatMap(({ id, source }) => id === undefined ? [source] : []);
  for (let [number, step] = [last, sources.length];; step *= 2) {
    const ids = sources.map((source, i) => childIdOf(source, parentId, number + 1 + i));
    if ((await knownAmong(kv, keys, ids)).size === 0) return number;
    // Behind all that an earlier event of this id has given away.
    number += step;
  }
}

function addEmission(
  parts: StoreParts,
  write: Write,
  emission: Emission,
  id: string,
  now: number,
  parent?: EventRecord,
): void {
  const { body, group } = emission;
  const cut = group === undefined ? emission : { ...emission, group: cutKey(group) };
  const record = emitted(cut, id, inRecord(newPayloadRef(body)), now, parent);
  addEvent(write, parts, record, body);
  if (emission.delayMs === 0) write.notifies = write.emitsDue = true;
  const count = parts.local.listener?.count;
  if (count) {
    write.committed.promise.then((version) => version && count(stepOf(emission)), () => {});
  }
}

function stepOf({ source, type }: Emission) {
  return { is: "emitted", source, type } as const;
}

function mayBeKnown({ id, isUnique = false }: Emission): boolean {
  return id !== undefined && !isUnique;
}

function fullIdOf({ source, id }: Emission): string {
  return inIntake(source, id!);
}

function reportKnown({ log }: StoreParts, eventId: string): void {
  writeLog(log, "debug", "event known already, not emitted again", { eventId });
}
