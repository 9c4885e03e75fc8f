import type { Applied, Cell, CellKey, Change, Engine, Tidying } from "../engine.ts";
import { applying } from "./_apply_change.ts";
import { StoreCheck } from "./_check.ts";
import { readDuePage } from "./_due.ts";
import { GroupIntake } from "./_group_intake.ts";
import { readPart } from "./_group_records.ts";
import { repairGroups } from "./_group_repair.ts";
import { recordEffects } from "./_kv_guard.ts";
import { findEvents, refOf } from "./_layout.ts";
import { limitsOf } from "./_limits.ts";
import { countEvents, countProblems } from "./_open_events.ts";
import { type EngineOptions, openParts, type StoreParts } from "./_parts.ts";
import { deleteStaleUploads, loadPayload, upload } from "./_payload.ts";
import { type Entry, isGap, list, readAll } from "./_reads.ts";
import { EventScan } from "./_scan.ts";
import { Schedule } from "./_schedule.ts";
import { ScheduleRepair } from "./_schedule_repair.ts";

/** The engine of a Deno KV. */
export type KvEngine = Engine<Deno.AtomicOperation, Deno.Kv>;

/**
 * Longest time between two looks of an idle worker at the schedule. Another process's worker takes what it stores
 * without a word to the others, and a queue's message reaches another process up to a minute later.
 */
const POLL_MS = 15_000;

/**
 * Opens the engine of a Deno KV.
 *
 * @param kv The KV. The engine does not close it.
 * @param options The namespace, the notifier, the payloads that are kept and the log.
 * @returns The engine.
 * @throws {TypeError} If the KV does not have the wanted notifier.
 */
export async function openKvEngine(
  kv: Deno.Kv,
  options: EngineOptions = {},
): Promise<KvEngine> {
  return engineOf(await openParts(kv, options));
}

/** Makes an engine of its parts. */
export function engineOf(parts: StoreParts): KvEngine {
  const { kv, keys, reader, notifier } = parts;
  const [namespace] = keys.namespaces;
  const schedule = new Schedule(parts);
  const repair = new ScheduleRepair(parts, schedule);
  const events = new EventScan(parts);
  const { apply } = applying(parts, new GroupIntake(parts));
  return {
    name: "kv",
    notifier: notifier.kind,
    pollMs: POLL_MS,
    limits: limitsOf(keys),
    reader,
    place: placeOf(kv, namespace!),
    now: () => Date.now(),
    apply,
    transact: (make) => transact(parts, apply, make),
    get: (ids) => findEvents(parts, ids),
    ids: (options) => lastIds(parts, options),
    due: (options) => readDuePage(parts, schedule, options),
    group: (key, options) => readPart(parts, key, options),
    scan: (scan) => events.visits(scan),
    count: (max, signal) => countEvents(parts, schedule, max, signal),
    problems: (limits) => countProblems(parts, limits),
    upload: (ref, body) => upload(parts, ref, body),
    payload: (ref, of) => loadPayload(parts, ref, of),
    cells: (wanted) => readCells(parts, wanted),
    list: (begin, options) => listCells(parts, begin, options),
    whenStored: () => Promise.resolve(),
    listen: (wake) => notifier.listen(wake),
    tidy: (what) => tidy(parts, repair, what),
    check: (options) => new StoreCheck(parts, options).pages(),
  };
}

/** The places of the stores of this process, by KV and namespace. A KV that is not used any more takes them along. */
const places = new WeakMap<Deno.Kv, Map<string, object>>();

/** Finds what stands for one namespace of a KV in this process: the same object for all stores that work on it. */
function placeOf(kv: Deno.Kv, namespace: string): object {
  const ofKv = places.get(kv) ?? new Map<string, object>();
  places.set(kv, ofKv);
  const found = ofKv.get(namespace) ?? {};
  ofKv.set(namespace, found);
  return found;
}

/** Makes a change of which a function has added a part to a commit: that is added to the one that is made. */
async function transact(
  { reader, keys }: StoreParts,
  apply: KvEngine["apply"],
  make: Parameters<KvEngine["transact"]>[0],
): Promise<Applied> {
  const recorded = recordEffects(reader.atomic(), keys.namespaces);
  let change: Change;
  try {
    change = make(recorded.commit) as Change;
  } catch (error) {
    return { ok: false, why: "effects", error };
  }
  return await apply({ ...change, effects: recorded.effects });
}

async function lastIds(
  { kv, keys }: StoreParts,
  { before, limit }: Parameters<Engine["ids"]>[0],
): ReturnType<Engine["ids"]> {
  const selector = before === undefined ? keys.ids : { ...keys.ids, end: keys.id(before) };
  const ids: string[] = [];
  for await (const entry of list(kv, selector, { reverse: true, batchSize: limit })) {
    if (!isGap(entry) && ids.push(refOf(entry.key).id) >= limit) break;
  }
  return ids;
}

async function readCells(
  { kv, keys }: StoreParts,
  wanted: readonly CellKey[],
): ReturnType<Engine["cells"]> {
  const entries = await readAll(kv, wanted.map(keys.cell));
  return entries.map((entry, i) => cellOf(wanted[i]!, entry));
}

async function* listCells(
  { kv, keys }: StoreParts,
  begin: CellKey,
  { from, before, isReverse: reverse = false, atOnce: batchSize }: Parameters<Engine["list"]>[1] =
    {},
): AsyncGenerator<Cell> {
  const start = from && keys.cell(from);
  const end = before && keys.cell(before);
  const selector = selectorOf(keys.cell(begin), start, end);
  for await (const entry of list(kv, selector, { reverse, ...(batchSize && { batchSize }) })) {
    yield cellOf(isGap(entry) ? begin : entry.key.slice(1) as unknown as CellKey, entry);
  }
}

function selectorOf(
  prefix: Deno.KvKey,
  start: Deno.KvKey | undefined,
  end: Deno.KvKey | undefined,
): Deno.KvListSelector {
  if (start && end) return { start, end };
  if (start) return { prefix, start };
  return end ? { prefix, end } : { prefix };
}

function cellOf(key: CellKey, { value, versionstamp }: Entry): Cell {
  return { key, value: value instanceof Deno.KvU64 ? signed(value) : value, version: versionstamp };
}

/** Reads a sum. If more was taken from it than was in it, it has wrapped around. */
function signed({ value }: Deno.KvU64): number {
  return Number(BigInt.asIntN(64, value));
}

async function tidy(
  parts: StoreParts,
  repair: ScheduleRepair,
  { times, groups = false, uploadsOlderThanMs }: Tidying,
): ReturnType<Engine["tidy"]> {
  return {
    times: times ? await repair.run(times) : 0,
    groups: groups ? await repairGroups(parts) : 0,
    uploads: uploadsOlderThanMs === undefined
      ? 0
      : await deleteStaleUploads(parts, Date.now() - uploadsOlderThanMs),
  };
}
