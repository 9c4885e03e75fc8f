import { Buffer } from "node:buffer";
import { met } from "../../core/check_options.ts";
import { untilDone } from "../../core/tries.ts";
import { membersOf } from "./_batches.ts";
import type { EmissionPut, Emitter } from "./_emit.ts";
import type { KeptPayloads } from "./_kept_payloads.ts";
import type { NotedAttempt, Problems } from "./_problems.ts";
import { applyChange, memberOf, settle, type SettleOptions } from "./_settlement.ts";
import { deleteResults, readResult, resultsToDelete, storedStep } from "./_steps.ts";
import { park, takeWake, wakeChange } from "./_waits.ts";
import { isSameLease, renewed } from "./arrival.ts";
import { deathOf } from "./emission.ts";
import { type Applied, type CellChange, type Stored, TooLargeError, type Turn } from "./engine.ts";
import type { EventRecord } from "./event_record.ts";
import { failingIn, type FailingRule } from "./failing.ts";
import type { CommitEffects, EventStore, HandledPart, NoteOptions } from "./event_store.ts";
import {
  buried,
  completed,
  inBrief,
  isCancelRequested,
  NoRoomError,
  progressed,
  released,
  retried,
  settledWith,
  stepOf,
  withoutStep,
  withStep,
} from "./settlement.ts";
import { type Lease, readPayload, rememberedMs, type StoreCore } from "./store_core.ts";

/**
 * Part of a lease for which a settlement waits for its turn, and one for which a part of the handling does: less
 * than a worker waits for an answer before it says that the store does not answer.
 */
const [SETTLING, NOTING] = [0.8, 0.3] as const;

/** The time for which a change waits whose event is not leased any more, in milliseconds. */
const LOST_MS = 500;

type CompleteOptions<TTx> = NonNullable<Parameters<EventStore<TTx>["complete"]>[1]>;

/** A change of a leased event, with what its handler has added. */
interface NotedChange<TTx> extends NoteOptions {
  /** Makes the record after. */
  readonly transition: (record: EventRecord) => EventRecord;
  readonly effects?: CommitEffects<TTx> | undefined;
  /** The rest of the change. */
  readonly options?: SettleOptions | undefined;
}

/** Makes the operations on leased events of a store: each applies one transition. */
export function leaseOperations<TTx>(
  core: StoreCore<TTx>,
  kept: KeptPayloads,
  emitter: Emitter,
  problems: Problems,
) {
  const { engine } = core;

  /**
   * Settles an event, or gives it back. An engine must take that, or the event would be handled for ever: if it is too
   * large, with the shortest form of the record.
   */
  async function isSettled(lease: Lease, after: EventRecord, options?: SettleOptions<TTx>) {
    try {
      return isMade(await applyChange(core, lease, after, options));
    } catch (error) {
      if (!(error instanceof TooLargeError)) throw error;
      return isMade(await applyChange(core, lease, inBrief(after), options));
    }
  }

  /** Gives an event back, with reports that it fails: in brief if that is too large. */
  async function isGivenBack(
    lease: Lease,
    after: EventRecord,
    rules: readonly FailingRule[] = [],
    failed?: NotedAttempt,
    isBrief = false,
  ): Promise<boolean> {
    const { record, reports } = rules.length === 0
      ? { record: after, reports: [] }
      : failingIn(after, rules, engine.now(), isBrief);
    if (reports.length === 0) return await isSettled(lease, record, failed);
    const puts = reports.map((report) => emitter.putUnique(report, record));
    const announce = reports.some(({ delayMs }) => delayMs === 0);
    try {
      const isDone = isMade(await applyChange(core, lease, record, { ...failed, puts, announce }));
      if (isDone) emitter.made(puts);
      return isDone;
    } catch (error) {
      if (isBrief || !(error instanceof TooLargeError)) throw error;
      return await isGivenBack(lease, inBrief(after), rules, failed, true);
    }
  }

  /** Settles an event that is done, with what its handler has added, and keeps its payload. */
  async function isCompleted(
    lease: Lease,
    after: EventRecord,
    added: CompleteOptions<TTx>,
    results: readonly CellChange[] = [],
  ): Promise<boolean> {
    const { withinMs, outcome } = added;
    const keeps = kept.isOn ? keeping(core, kept, lease, after) : undefined;
    const options = { withinMs, ...keeps, cells: [...keeps?.cells ?? [], ...results] };
    const transition = (record: EventRecord) => completed(record, after.settledAt!, outcome);
    const isDone = hasAdded(added)
      ? await note(core, emitter, lease, { ...added, transition, options }) !== null
      : await isSettled(lease, after, options);
    if (isDone) kept.look();
    return isDone;
  }

  /** Settles an event as done or dead. */
  function isSettledAs(
    lease: Lease,
    after: EventRecord,
    added: CompleteOptions<TTx>,
    results?: readonly CellChange[],
  ): Promise<boolean> {
    // A cancelled event has no effects, emits nothing and wakes nobody.
    const isRich = after.state === "done" && (kept.isOn || hasAdded(added));
    return isRich
      ? isCompleted(lease, after, added, results)
      : isSettled(lease, after, { withinMs: added.withinMs, cells: results });
  }

  /** Settles an event as done or dead, and deletes the results of the steps of a done one: with it if they fit. */
  async function isEndedWithSteps(
    lease: Lease,
    after: EventRecord,
    added: CompleteOptions<TTx>,
  ): Promise<boolean> {
    const results = after.state === "done" ? resultsToDelete(after) : undefined;
    try {
      if (results) return await isSettledAs(lease, after, added, results);
    } catch (error) {
      if (!isTooLarge(error)) throw error;
    }
    const isDone = await isSettledAs(lease, after, added);
    if (isDone && after.state === "done") void deleteResults(core, after);
    return isDone;
  }

  return {
    async load({ record }) {
      const { payload, id, state } = record;
      if (payload) return await readPayload(engine, payload, record);
      if (state === "done") return await kept.load(record);
      throw new Error(`Cannot load event ${id}: it has no payload`);
    },

    members: ({ record }) => membersOf(engine, record),

    async renew(lease, leaseMs) {
      return await settle(core, lease, renewed(lease.record, leaseMs, engine.now())) ?? null;
    },

    async note(lease, part, effects, options) {
      const { transition, cells } = notedPart(part, lease.record, engine.now());
      const added = { ...options, effects, transition, options: { cells } };
      try {
        return await note(core, emitter, lease, added);
      } catch (error) {
        throw part.is === "step" && isTooLarge(error) ? noRoomFor(part, options, error) : error;
      }
    },

    async readStep({ record }, name) {
      const step = stepOf(record, name);
      return step && !step.isBegun ? await readResult(core, record, step) : null;
    },

    takeWake: (lease, name) => takeWake(core, lease, name),
    park: (lease, wait) => park(core, lease, wait),

    async recover({ record: held }) {
      const [found] = await engine.get([held]);
      return found?.record && isSameLease(held, found.record) ? found : null;
    },

    complete(lease, options = {}) {
      const after = completed(lease.record, engine.now(), options.outcome);
      return after.steps
        ? isEndedWithSteps(lease, after, options)
        : isSettledAs(lease, after, options);
    },

    async retry(lease, delayMs, error, { reason, reports, handler } = {}) {
      const after = retried(lease.record, delayMs, error, engine.now(), { reason, handler });
      return await isGivenBack(lease, after, reports, await problems.attempt(after, handler));
    },

    release(lease, { reports, ...options } = {}) {
      return isGivenBack(lease, released(lease.record, options, engine.now()), reports);
    },

    async bury(lease, error, { reports = false, handler } = {}) {
      const dead = buried(lease.record, error, engine.now(), handler);
      const failed = await problems.attempt(dead, handler);
      if (!reports || dead.outcome !== "failed") return await isSettled(lease, dead, failed);
      return await isBuried(core, emitter, lease, dead, failed);
    },
  } satisfies Partial<EventStore<TTx>>;
}

/** Makes the error of a step that a commit has no room for. */
function noRoomFor(
  { name, json = "" }: HandledPart & { readonly is: "step" },
  { emits = [] }: NoteOptions = {},
  cause: unknown,
): NoRoomError {
  const bytes = emits.reduce((sum, { body }) => sum + body.byteLength, 0);
  return new NoRoomError(
    `Cannot store the step ${met(name)}: its result of ${
      Buffer.byteLength(json)
    } bytes, the ${bytes} bytes ` +
      "of the events that it emits, and its effects do not fit one commit. Return less, or emit in a later step",
    { cause },
  );
}

/** Makes the change of a record that notes a part, and the cells of its result. */
function notedPart(part: HandledPart, before: EventRecord, now: number): {
  readonly transition: (record: EventRecord) => EventRecord;
  readonly cells?: readonly CellChange[] | undefined;
} {
  const { name } = part;
  if (part.is === "step") {
    const { step, cells } = storedStep(before, name, part.json, {
      ...{ at: now, run: before.run, keep: part.keep },
    });
    return { transition: (record) => withStep(record, step), cells };
  }
  if (part.is === "handler") return { transition: (record) => progressed(record, name) };
  if (part.is === "not_begun") return { transition: (record) => withoutStep(record, name) };
  return { transition: (record) => withStep(record, { name, at: now, isBegun: true }) };
}

/** Checks whether a handler has added something to the change that settles its event. */
function hasAdded<TTx>({ effects, emits, wakes, cells }: CompleteOptions<TTx>): boolean {
  return Boolean(effects || emits || wakes || cells);
}

function isTooLarge(error: unknown): boolean {
  return error instanceof TooLargeError || (error as Error | null)?.cause instanceof TooLargeError;
}

/** Checks whether a change was made. Throws the error of its effects. */
function isMade(applied: Applied): boolean {
  if (!applied.ok && applied.why === "effects") throw applied.error;
  return applied.ok;
}

/** Makes the part of a settlement that keeps the payloads of an event and of those of its batch. */
function keeping(
  core: StoreCore,
  kept: KeptPayloads,
  { record }: Lease,
  after: EventRecord,
): Pick<SettleOptions, "keeps" | "cells" | "sums" | "member"> {
  return {
    ...kept.keep(record, after),
    member: (member) => {
      const done = settledWith(member, after);
      return { ...memberOf(core, done), ...kept.keep(member, done) };
    },
  };
}

/** Makes a change of a leased event with what its handler has added. Returns null if the lease is lost. */
async function note<TTx>(
  core: StoreCore<TTx>,
  emitter: Emitter,
  lease: Lease,
  change: NotedChange<TTx>,
): Promise<Stored | null> {
  try {
    return await untilDone(() => tryToNote(core, emitter, lease, change));
  } catch (error) {
    if (!change.emits || !(error instanceof TooLargeError)) throw error;
    const message = "Cannot emit the events: they do not fit the commit that settles their event";
    throw new RangeError(message, { cause: error });
  }
}

/** Tries once; undefined if a name or an id has changed meanwhile. */
async function tryToNote<TTx>(
  core: StoreCore<TTx>,
  emitter: Emitter,
  lease: Lease,
  change: NotedChange<TTx>,
): Promise<Stored | null | undefined> {
  const { effects, emits, wakes, cells = [], options } = change;
  const emitted = emits && await emitter.from(emits, lease.record);
  const waking = wakes && await wakeChange(core, wakes);
  const transition = (record: EventRecord) => {
    const after = change.transition(record);
    return emitted ? { ...after, emitted: emitted.generated } : after;
  };
  // Others take the same ids, or what is awaited takes its time.
  const mayWait = emitted?.puts.some(isChosen) || effects && core.engine.awaitsEffects;
  const applied = await applyChange(core, lease, transition(lease.record), {
    ...options,
    effects,
    puts: emitted?.puts,
    cells: [...cells, ...options?.cells ?? [], ...waking?.cells ?? []],
    moves: waking?.moves,
    announce: emitted?.announce || waking?.announce,
    turn: mayWait ? turnOf(core, lease, transition, change) : undefined,
  });
  if (!applied.ok) return await refused(core, applied, cells);
  if (emitted) emitter.made(emitted.puts, applied.written.slice(1));
  return applied.written[0]!;
}

/** Checks for an event whose id the handler chose: only these have a change wait for its turn. */
function isChosen({ before: { must } }: EmissionPut): boolean {
  return must === "skip";
}

/** Makes the turn of a change: meanwhile the lease may be renewed. It is given up if nobody waits for it any more. */
function turnOf<TTx>(
  core: StoreCore,
  { record: held }: Lease,
  transition: (record: EventRecord) => EventRecord,
  { signal, options }: NotedChange<TTx>,
): Turn {
  const { ms = LOST_MS } = held.lease ?? {};
  return {
    withinMs: (signal ? NOTING : SETTLING) * ms,
    signal,
    again: (now) => {
      const isHeld = isSameLease(held, now.record) && isOnlyRenewed(held, now.record);
      if (!isHeld || signal?.aborted) return null;
      const after = transition(now.record);
      const forMs = rememberedMs(core, after);
      return { before: now, after: () => after, keeps: options?.keeps, forMs };
    },
  };
}

/** Checks that a record was neither cancelled meanwhile nor changed by an earlier try of the same change. */
function isOnlyRenewed(before: EventRecord, now: EventRecord): boolean {
  const parts = ({ progress, steps, batch, emitted = 0 }: EventRecord) =>
    JSON.stringify([progress?.length ?? 0, steps ?? [], batch, emitted]);
  return parts(before) === parts(now) && !isCancelRequested(now);
}

/**
 * Finds what a refusal means: null if the lease is lost, undefined if the change is to be made anew.
 *
 * @throws {Error} If the effects cannot be committed, or a state has changed.
 */
async function refused(
  { engine }: StoreCore,
  { why, error }: Applied & { readonly ok: false },
  states: readonly CellChange[],
): Promise<null | undefined> {
  if (why === "event") return null;
  if (why === "effects") throw error;
  if (why !== "cell" || states.length === 0) return undefined;
  const now = await engine.cells(states.map(({ key }) => key));
  const isChanged = ({ version }: CellChange, i: number) =>
    version !== undefined && version !== now[i]!.version;
  if (states.some(isChanged)) throw new Error("A state has changed meanwhile");
  return undefined;
}

/**
 * Settles an event as dead, with reports of its death and of the deaths of those in its batch: in brief if that is too
 * large.
 */
async function isBuried(
  core: StoreCore,
  emitter: Emitter,
  lease: Lease,
  after: EventRecord,
  failed: NotedAttempt | undefined,
  isBrief = false,
): Promise<boolean> {
  /** The reports by the ids of those that have died: the engine may ask twice. */
  const reports = new Map<string, EmissionPut>();
  const reportsOf = (dead: EventRecord) => {
    const death = deathOf(dead, isBrief);
    if (!death) return [];
    const report = emitter.putUnique(death, after);
    reports.set(dead.id, report);
    return [report];
  };
  const member = (record: EventRecord) => {
    const dead = settledWith(record, after);
    return { ...memberOf(core, dead), puts: reportsOf(dead) };
  };
  const puts = reportsOf(after);
  const announce = puts.length > 0;
  try {
    const { ok } = await applyChange(core, lease, after, { ...failed, puts, member, announce });
    if (ok) emitter.made([...reports.values()]);
    return ok;
  } catch (error) {
    if (isBrief || !(error instanceof TooLargeError)) throw error;
    return await isBuried(core, emitter, lease, inBrief(after), failed, true);
  }
}
