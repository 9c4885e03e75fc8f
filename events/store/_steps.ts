/**
 * The steps of an event's handling: what a handler does once, with its result. The record names the steps, and says
 * when each was stored. The results are cells beside it, since each change of an event writes its record anew. They
 * are deleted when the event is done, purged, or put back to begin anew.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { writeLog } from "../../core/mod.ts";
import { met } from "../../core/check_options.ts";
import { untilDone } from "../../core/tries.ts";
import { settle } from "./_settlement.ts";
import { leavingName } from "./_waits.ts";
import type { Cell, CellChange, CellKey, Stored } from "./engine.ts";
import type { EventRecord, EventStep } from "./event_record.ts";
import type { ListedStep } from "./event_store.ts";
import { intervened, jsonBytes, stepOf, unparked, withStep } from "./settlement.ts";
import { resultOf, sizeFlawOf } from "./step_result.ts";
import { findEvent, type StoreCore } from "./store_core.ts";

/** Kind of the cells. */
const STEP = "step";

/** Characters of a result in a cell. In UTF-8 each takes up to three bytes, and a cell takes up to 65,536. */
const PART_CHARACTERS = 20_000;

/** Longest name in a key, in bytes. A longer one is hashed: a key of a KV takes up to 2,048, and an id up to 1,800. */
const MAX_KEY_NAME_BYTES = 64;

/** Time after which a result is forgotten that no event has any more, in milliseconds: a wait takes up to a year. */
const KEPT_MS = 34_560_000_000;

/** Bytes of the keys that are deleted in a commit: a KV takes 81,920 bytes of keys. */
const MAX_DELETED_BYTES = 50_000;

/** Bytes of a key beside the event's id. */
const KEY_BYTES = 200;

/**
 * Makes a step, and the cells of its result.
 *
 * @param record The record of the event.
 * @param name The name of the step.
 * @param json The result as JSON; undefined for none.
 * @param stored The time at which it is stored, milliseconds since the epoch, the event's run then, and whether it
 * stays if that run is interrupted.
 * @returns The step, and the cells, each with a part of the result.
 * @throws {RangeError} If the result is too large.
 */
export function storedStep(
  record: Pick<EventRecord, "id">,
  name: string,
  json: string | undefined,
  { at, run, keep }: Pick<EventStep, "at" | "run" | "keep">,
): { readonly step: EventStep; readonly cells: readonly CellChange[] } {
  const tooLarge = json === undefined ? undefined : sizeFlawOf(json);
  if (tooLarge) throw new RangeError(`Cannot store the step ${met(name)}: ${tooLarge}`);
  const parts = partsOf(json);
  const step = { name, at, run, parts: parts.length || undefined, keep };
  const cells = parts.map((after, part) => ({
    key: keyOf(record, step, part),
    after: storedPart(after),
    forMs: KEPT_MS,
  }));
  return { step, cells };
}

/**
 * Reads the result of a step.
 *
 * @param core The store.
 * @param record The record of the event.
 * @param step The step.
 * @returns The result as JSON; undefined if it has none; null if it is not kept any more.
 */
export async function readResult(
  { engine }: StoreCore,
  record: EventRecord,
  step: EventStep,
): Promise<string | undefined | null> {
  const keys = keysOf(record, step);
  if (keys.length === 0) return undefined;
  const texts = (await engine.cells(keys)).map(({ value }) => textOf(value));
  return texts.every((text) => text !== undefined) ? texts.join("") : null;
}

/** Lists the steps of an event, with their results, in the order in which they were stored. */
export async function listSteps(core: StoreCore, id: string): Promise<ListedStep[]> {
  const found = await findEvent(core.engine, id);
  const record = found?.record;
  if (!record) return [];
  return await Promise.all((record.steps ?? []).map(async (step) => {
    const json = await readResult(core, record, step);
    const { name, at, isBegun = false } = step;
    return { name, at, isBegun, result: json ? JSON.parse(json) : undefined };
  }));
}

/**
 * Forgets a step of an event that does not run, with what came after it: the later steps, and the answers since. So the
 * next attempt repeats the handling from there. A parked event waits no more: it is due at once.
 *
 * @param core The store.
 * @param id The event's id.
 * @param name The name of the step, with that of its handler.
 * @param by The person or the tool that does it.
 * @returns True if it is forgotten; false if there is none, or the event runs or is done.
 */
export async function forgetStep(
  core: StoreCore,
  id: string,
  name: string,
  by?: string,
): Promise<boolean> {
  return await untilDone(async () => {
    const found = await findEvent(core.engine, id);
    if (!found?.record) return false;
    const { state, steps = [], woken } = found.record;
    const first = steps.findIndex((step) => step.name === name);
    if (first < 0 || state === "running" || state === "done") return false;
    const now = core.engine.now();
    const after = {
      ...intervened(found.record, { is: "step_forgotten", at: now, by, step: name }),
      steps: steps.slice(0, first),
      ...(woken && { woken: woken.filter(({ at }) => at < steps[first]!.at) }),
    };
    const isParked = state === "parked";
    const next = isParked ? unparked(after, undefined, now) : after;
    const cells = deletedCells(found.record, steps.slice(first));
    // What it waits for came after the step.
    if (isParked) cells.push(...await leavingName(core, found.record));
    return await settle(core, found, next, { cells, announce: isParked }) ? true : undefined;
  });
}

/**
 * Stores the result of a step that has begun without a known end, of an event that does not run: somebody has looked.
 *
 * @param core The store.
 * @param id The event's id.
 * @param name The name of the step, with that of its handler.
 * @param value The result; undefined for none.
 * @param by The person or the tool that does it.
 * @returns True if it is stored; false if no such step has begun, or the event runs or is done.
 * @throws {TypeError} If the result cannot be kept.
 */
export async function setStep(
  core: StoreCore,
  id: string,
  name: string,
  value: unknown,
  by?: string,
): Promise<boolean> {
  const result = resultOf(value);
  if ("flaw" in result) throw new TypeError(`Cannot set the step ${met(name)}: ${result.flaw}`);
  return await untilDone(async () => {
    const found = await findEvent(core.engine, id);
    if (!found?.record) return false;
    const { record, record: { state, run } } = found;
    if (state === "running" || state === "done" || !stepOf(record, name)?.isBegun) return false;
    const at = core.engine.now();
    const { step, cells } = storedStep(record, name, result.json, { at, run });
    const after = intervened(withStep(record, step), { is: "step_set", at, by, step: name });
    return await settle(core, found, after, { cells }) ? true : undefined;
  });
}

/**
 * Deletes the results of an event's steps in the change that settles it as done or purges it, if they are few: that
 * saves a commit, and leaves nothing behind if the process dies.
 *
 * @param record The record of the event.
 * @returns The cells; undefined if there are none, or they are to be deleted afterwards.
 */
export function resultsToDelete(record: EventRecord): readonly CellChange[] | undefined {
  if (!record.steps) return undefined;
  const cells = deletedCells(record, record.steps);
  return cells.length <= deletedAtOnce(record) ? cells : undefined;
}

/**
 * Deletes the results of an event's steps, once it has them no more. If that fails, they are forgotten after a while.
 *
 * @param core The store.
 * @param record The record that has named them.
 */
export async function deleteResults(
  { engine, log }: StoreCore,
  record: EventRecord,
): Promise<void> {
  if (!record.steps) return;
  try {
    const cells = deletedCells(record, record.steps);
    const some = deletedAtOnce(record);
    for (let from = 0; from < cells.length; from += some) {
      await engine.apply({ cells: cells.slice(from, from + some), urgency: "work" });
    }
  } catch (error) {
    writeLog(log, "debug", "results of steps not deleted", { eventId: record.id, error });
  }
}

/**
 * Makes a function that deletes a part of a result if its event has it no more: the process has died that was about to
 * delete it. If there is no event, an import may be about to store it.
 *
 * @param core The store.
 * @returns The function. It gets cells, in the order of their keys.
 */
export function deletingLeft(core: StoreCore): (cell: Cell) => Promise<void> {
  let last: { readonly id: unknown; readonly keys: ReadonlySet<string> } | undefined;
  return async ({ key, version }) => {
    const [, id] = key;
    const text = JSON.stringify(key);
    if (last !== undefined && last.id === id && last.keys.has(text)) return;
    const found = await findEvent(core.engine, String(id));
    if (!found?.record) return;
    const keys = resultsIn(found.record).map((cell) => JSON.stringify(cell.key));
    last = { id, keys: new Set(keys) };
    if (last.keys.has(text)) return;
    const cells = [{ key, version, after: null }];
    await core.engine.apply({ cells, unchanged: [found], urgency: "work" });
  };
}

/** Lists the cells that an event has results in. */
function resultsIn(record: EventRecord): readonly CellChange[] {
  return record.state === "done" ? [] : deletedCells(record, record.steps ?? []);
}

/** Counts the cells of an event's results that are deleted in a commit. */
function deletedAtOnce({ id }: EventRecord): number {
  return Math.floor(MAX_DELETED_BYTES / (KEY_BYTES + Buffer.byteLength(id)));
}

/**
 * Deletes the results of steps that an event loses, but not with it. Some are deleted before, since the results of steps
 * that its next run takes have the same keys: a step whose result is gone is taken anew.
 *
 * @param core The store.
 * @param event The event, as it is before. Nothing is deleted once it has changed.
 * @param after Its record after.
 * @returns The cells that are deleted in the change itself.
 */
export async function dropResults(
  { engine }: StoreCore,
  event: Stored,
  after: EventRecord,
): Promise<readonly CellChange[]> {
  const { record } = event;
  const dropped = (record.steps ?? []).filter((step) => !after.steps?.includes(step));
  const cells = deletedCells(record, dropped);
  const some = deletedAtOnce(record);
  for (let at = some; at < cells.length; at += some) {
    const change = { cells: cells.slice(at, at + some), unchanged: [event] };
    await engine.apply({ ...change, urgency: "work" });
  }
  return cells.slice(0, some);
}

function deletedCells(record: EventRecord, steps: readonly EventStep[]): CellChange[] {
  return steps.flatMap((step) => keysOf(record, step).map((key) => ({ key, after: null })));
}

function partsOf(json: string | undefined): string[] {
  const parts: string[] = [];
  for (let rest = json ?? ""; rest !== "";) {
    // Not between the halves of a surrogate pair.
    const end = /[\uD800-\uDBFF]/.test(rest.charAt(PART_CHARACTERS - 1))
      ? PART_CHARACTERS - 1
      : PART_CHARACTERS;
    parts.push(rest.slice(0, end));
    rest = rest.slice(end);
  }
  return parts;
}

/** Makes the value of a part's cell. A cell is JSON, where each quote takes a byte more: then Base64 takes less. */
function storedPart(part: string): string | readonly [base64: string] {
  const base64 = Buffer.from(part).toString("base64");
  return jsonBytes(part) > base64.length ? [base64] : part;
}

/** Reads a part from the value of its cell; undefined if there is none. */
function textOf(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  const [base64] = Array.isArray(value) ? value : [];
  return typeof base64 === "string" ? Buffer.from(base64, "base64").toString() : undefined;
}

/** Makes the keys of the parts of a result. */
function keysOf(record: EventRecord, step: EventStep): CellKey[] {
  return Array.from({ length: step.parts ?? 0 }, (_, part) => keyOf(record, step, part));
}

/** Makes the key of a part. The run keeps what is being deleted apart from what a later run stores. */
function keyOf(
  { id }: Pick<EventRecord, "id">,
  { name, run = 0 }: EventStep,
  part: number,
): CellKey {
  return [STEP, id, run, shortName(name), part];
}

function shortName(name: string): string {
  if (Buffer.byteLength(name) <= MAX_KEY_NAME_BYTES) return name;
  return createHash("sha256").update(name).digest("base64url");
}
