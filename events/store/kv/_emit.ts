import { writeLog } from "../../../core/mod.ts";
import {
  childIdOf,
  type Emission,
  emissionOf,
  Emissions,
  type EmitOptions,
  OWN,
  type OwnEvents,
  platformRefused,
} from "../emission.ts";
import type { EventRecord } from "../event_record.ts";
import type { AcceptResult, EventStore, NoteOptions } from "../event_store.ts";
import { cutKey, emitted, inIntake } from "../arrival.ts";
import { type IdTurn, takeIds, TURN } from "./_chosen_ids.ts";
import { HOLD_MS } from "./_concurrency.ts";
import { lookUp, refOf, type StoreKeys } from "./_layout.ts";
import type { StoreParts } from "./_parts.ts";
import { inRecord, newPayloadRef } from "./_payload.ts";
import { readAll } from "./_reads.ts";
import { addEvent, hasTooManyChecks, isTooMuch, untilDone, Write } from "./_write.ts";

/** The number of events by which the name of a platform is known: all are deliveries, or nearly none. */
const LOOKED_AT = 5;

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

/** Makes the operation that stores an event outside of a handler. */
export function emitting(parts: StoreParts): EventStore["emit"] {
  const newId = idGenerator();
  const free = new Set<string>();
  return async (
    source: OwnEvents<object> | string,
    type: string,
    payload: object,
    options?: EmitOptions,
  ): Promise<AcceptResult> => {
    const emission = emissionOf(source, type, payload, options);
    new Emissions().add(emission);
    const id = emission.id === undefined ? inIntake(emission.source, newId()) : fullIdOf(emission);
    if (!free.has(emission.source)) {
      if (await hasDeliveries(parts, emission.source)) {
        throw platformRefused("emit the event", emission.source);
      }
      free.add(emission.source);
    }
    return await untilDone(() => emitAlone(parts, emission, id));
  };
}

/**
 * Checks whether deliveries have come under a name, since an app's platforms are known to the app alone: the
 * tool, or a program beside the app, has only the store.
 */
async function hasDeliveries({ kv, keys }: StoreParts, name: string): Promise<boolean> {
  const range = { start: keys.id(`${name}:`), end: keys.id(`${name};`) };
  for await (const { key } of kv.list(range, { limit: LOOKED_AT })) {
    const { record } = await lookUp(kv, keys, refOf(key).id);
    if (record !== undefined && record.platform !== OWN) return true;
  }
  return false;
}

/** Tries once; undefined if others emitted an event with its id meanwhile. */
async function emitAlone(
  parts: StoreParts,
  emission: Emission,
  id: string,
): Promise<AcceptResult | undefined> {
  const write = new Write();
  const known = await knownIds(parts, write, [emission], { isTaken: false, isFirst: true });
  if (known.has(id)) return { id, duplicate: true };
  // Nobody else has it. But a KV's client that gets no answer commits again, perhaps after the handler.
  if (!mayBeKnown(emission)) write.check(unknown(parts.keys.id(id)));
  addEmission(parts, write, emission, id, Date.now());
  if (await parts.commits.commit(write) === null) return undefined;
  if (write.emitsDue) parts.local.listener?.wake();
  return { id, duplicate: false };
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

/** Makes ids that sort in the order in which they were made here, as far as the clock does not go back. */
function idGenerator(): () => string {
  let [count, last] = [0, 0];
  return () => {
    const now = Date.now();
    // From the start in each millisecond: four digits are enough for any of them.
    count = now === last ? count + 1 : 0;
    last = now;
    const number = count.toString(36).padStart(4, "0");
    return `${now.toString(36)}-${number}-${crypto.randomUUID().slice(0, 8)}`;
  };
}
