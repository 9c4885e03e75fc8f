/**
 * Restoring what comes from another store: events, and what is kept beside them. The latter is also listed for an export.
 *
 * @module
 */
import { untilDone } from "../../core/tries.ts";
import { arrive } from "./_acceptance.ts";
import type { KeptPayloads } from "./_kept_payloads.ts";
import type { Problems } from "./_problems.ts";
import { storedStep } from "./_steps.ts";
import { answerCell, answers, arriving, restoreWake } from "./_waits.ts";
import { imported } from "./arrival.ts";
import { type CellChange, type CellKey, type Engine, TooLargeError } from "./engine.ts";
import type { EventStep, PayloadRef } from "./event_record.ts";
import type { EventOperations, RestoreOutcome } from "./event_store.ts";
import { scheduleKey, scheduleNotes } from "./own_cells.ts";
import {
  checkedEntry,
  checkedEvent,
  isPortableNote,
  type PortableEntry,
  type PortableEvent,
  type PortableRecord,
} from "./portable_event.ts";
import { newPayloadRef, type StoreCore } from "./store_core.ts";
import { listQuestions } from "./_questions.ts";
import { questionCell } from "./questions.ts";
import { entryUntil, listStates, stateChange, stateKey } from "./stored_state.ts";
import { wakeOf } from "./waits.ts";

/**
 * The time for which an entry that was restored is known, in milliseconds: seven days. A second import of the
 * same lines then leaves it alone, also if it was used and deleted meanwhile.
 */
const MARKED_MS = 604_800_000;

/**
 * Makes the operation that stores an event which comes from another store, in one change: its record, payload and id,
 * and what leads to it by its state. An event whose id is known is left as it is.
 *
 * @param core The store.
 * @param kept The payloads that it keeps.
 * @param problems The problems of its events.
 * @returns The operation.
 */
export function restoring(
  core: StoreCore,
  kept: KeptPayloads,
  problems: Problems,
): EventOperations["restore"] {
  const { engine, retentionMs } = core;

  /** Tries once; undefined if something on which the change depends has changed meanwhile. */
  async function tryToRestore(
    { record: before, body }: PortableEvent,
    payload: PayloadRef | null,
  ): Promise<RestoreOutcome | undefined> {
    const isDone = before.state === "done";
    const here = imported(before, isDone ? null : payload, engine.now());
    const { record, cells = [] } = here.state === "parked" && here.waitingFor
      ? await arriving(core, here)
      : { record: here };
    const { id, orderingKey } = record;
    const keeping = isDone && payload ? kept.restore(record, payload) : undefined;
    const event = {
      before: { id, must: "absent" },
      record,
      orderingKey: before.group !== null && record.settledAt === null ? orderingKey : null,
      body: payload && fitsChange(payload) ? body! : undefined,
      keeps: keeping && payload!,
    } as const;
    const beside = {
      cells: [...cells, ...keeping?.cells ?? []],
      sums: keeping?.sums,
      urgency: "work",
    } as const;
    const applied = await arrive(core, event, beside);
    if (applied.ok) return "restored";
    return applied.why === "id" ? "known" : undefined;
  }

  function fitsChange({ size }: PayloadRef): boolean {
    return size <= engine.limits.bodyBytes;
  }

  async function restore(event: PortableEvent): Promise<RestoreOutcome> {
    const { record, body } = event;
    const payload = body && newPayloadRef(engine, body);
    if ((await engine.get([record.id]))[0] !== null) return "known";
    await problems.note(record);
    const { steps, results = {} } = { ...record, results: event.results };
    for (const step of steps ?? []) {
      // Before the event, which may be handled at once.
      if (Object.hasOwn(results, step.name)) await restoreResult(core, record, step, results);
    }
    if (!payload || fitsChange(payload)) return await untilDone(() => tryToRestore(event, payload));
    await engine.upload(payload, body);
    const outcome = await untilDone(() => tryToRestore(event, payload));
    if (outcome === "known") await engine.apply({ drops: [payload], urgency: "work" });
    return outcome;
  }

  return async (given) => {
    const event = checkedEvent(given);
    if (isForgotten(event.record, engine.now(), retentionMs)) return "expired";
    try {
      return await restore(event);
    } catch (error) {
      if (!(error instanceof TooLargeError)) throw error;
      const message = `Cannot restore the event: it is too large for the store: ${error.message}`;
      throw new RangeError(message, { cause: error });
    }
  };
}

/** Stores the result of a step. The record names its parts: they are of the same number here. */
async function restoreResult(
  core: StoreCore,
  record: PortableRecord,
  step: EventStep,
  results: NonNullable<PortableEvent["results"]>,
): Promise<void> {
  const { name } = step;
  const { cells } = storedStep(record, name, JSON.stringify(results[name]), step);
  await core.engine.apply({ cells, urgency: "work" });
}

/** Checks whether an event has been done for longer than a store remembers that. */
function isForgotten(
  { state, settledAt }: PortableRecord,
  now: number,
  retentionMs: number,
): boolean {
  return state === "done" && settledAt! + retentionMs <= now;
}

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
  for await (const { name, question } of listQuestions(core)) {
    yield question
      ? { kind: "question", name, question }
      : { kind: "unreadable", name: `the question ${JSON.stringify(name)}` };
  }
  for await (const { name, value } of scheduleNotes(core).list()) {
    yield isPortableNote(value)
      ? { kind: "schedule", name, plan: value.plan, at: value.at, ...pauseOf(value) }
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
  const cell = cellOf(engine, entry);
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

function cellOf(engine: Engine, entry: PortableEntry): CellChange {
  const now = engine.now();
  switch (entry.kind) {
    case "state": {
      const { intake = "", key, expiresAt } = entry;
      const { room } = engine.limits;
      const state = entryUntil(entry.value, expiresAt, now, room);
      return stateChange(stateKey(intake, key), null, state, now);
    }
    case "answer":
      return answerCell(entry.name, entry.at, entry.value, now);
    case "question":
      return questionCell(entry.name, entry.question, now);
    case "schedule": {
      const { name, plan, at } = entry;
      return { key: scheduleKey(name), after: { plan, at, ...pauseOf(entry) } };
    }
  }
}

/** Takes the pause out of the note of a schedule, if it has one. */
function pauseOf({ paused }: Pick<PortableEntry & { readonly kind: "schedule" }, "paused">) {
  return paused && { paused };
}

/** Makes the key of the mark of an entry that was restored. */
function markOf(key: CellKey): CellKey {
  return ["restored", ...key];
}
