import {
  checkBoolean,
  checkFunction,
  checkOptions,
  MAX_KEPT_MS,
  numberFrom,
  type OptionCheck,
} from "../../core/check_options.ts";
import { consoleSink } from "../../core/mod.ts";
import { Acceptance } from "./_acceptance.ts";
import { checkStore, readLastCheck } from "./_check.ts";
import { Claims, LOOK_AGAIN_MS } from "./_claims.ts";
import { Emitter } from "./_emit.ts";
import { KeptPayloads } from "./_kept_payloads.ts";
import { leaseOperations } from "./_leases.ts";
import { storeInspector } from "./_lists.ts";
import { newerOperations } from "./_newer.ts";
import { Problems } from "./_problems.ts";
import { eventOperations } from "./_operations.ts";
import { portableEntries, restoreEntry, restoring } from "./_portable.ts";
import { tokenBuckets } from "./_token_buckets.ts";
import { transacting } from "./_transact.ts";
import { answers, wake } from "./_waits.ts";
import { corrected } from "./arrival.ts";
import type { Applied, Change, Engine, Put } from "./engine.ts";
import type { EventStore } from "./event_store.ts";
import { listLimits, reopenLimit } from "./limits.ts";
import { alertNotes, consoleRecords, scheduleNotes } from "./own_cells.ts";
import { forgetProcess, listProcesses, noteProcess } from "./processes.ts";
import { answerQuestion } from "./_questions.ts";
import {
  checkKeepPayloads,
  DEFAULT_RETENTION_MS,
  type EventStoreOptions,
  type StoreCore,
  type StoreListener,
} from "./store_core.ts";
import { givenWakeOf } from "./questions.ts";
import { listStates, readState } from "./stored_state.ts";

/** Options of {@linkcode createEventStore}: the ones that every store has, whatever its engine. */
type StoreOptions = Pick<EventStoreOptions, "retentionMs" | "keepPayloads" | "log">;

const DOING = "open the event store";

/** Checks of {@linkcode StoreOptions}. */
export const STORE_OPTIONS: Record<keyof StoreOptions, OptionCheck | undefined> = {
  retentionMs: numberFrom(1, MAX_KEPT_MS),
  // With the retention.
  keepPayloads: undefined,
  log: checkFunction,
};

/**
 * Creates the store of events that lie in an engine.
 *
 * @typeParam TTx The commit or transaction that a handler's effects get.
 * @typeParam TReader The reader that handlers get.
 * @param engine The engine.
 * @param options The retention, the payloads that are kept, and the log.
 * @returns The store.
 * @throws {TypeError} If an option is something else.
 * @throws {RangeError} If the retention, or a limit of the payloads that are kept, is out of range.
 */
export function createEventStore<TTx, TReader>(
  engine: Engine<TTx, TReader>,
  options: StoreOptions = {},
): EventStore<TTx, TReader> {
  checkOptions(DOING, options, STORE_OPTIONS);
  const { retentionMs = DEFAULT_RETENTION_MS, keepPayloads, log = consoleSink } = options;
  if (keepPayloads !== undefined) checkKeepPayloads(DOING, keepPayloads, retentionMs);
  const listeners = listenersOn(engine.place);
  const core: StoreCore<TTx> = {
    engine: tellingEngine(engine, listeners),
    local: {},
    listeners,
    retentionMs,
    keepPayloads: keepPayloads && { ...keepPayloads },
    log,
  };
  // The store hands effects on to the engine, and never calls them.
  return { ...storeOf(core as StoreCore), db: engine.reader } as EventStore<TTx, TReader>;
}

function storeOf(core: StoreCore): EventStore {
  const { engine, retentionMs, local, listeners } = core;
  const kept = new KeptPayloads(core);
  const { accept, replay } = new Acceptance(core, kept);
  const emitter = new Emitter(core);
  const problems = new Problems(core);
  const claims = new Claims(core, problems);
  return {
    db: engine.reader,
    notifier: engine.notifier,
    pollMs: engine.pollMs,
    maxPayloadBytes: engine.limits.payloadBytes,
    room: engine.limits.room,
    awaitsEffects: engine.awaitsEffects ?? false,
    retentionMs,
    inspect: storeInspector(core, kept, problems),
    ...leaseOperations(core, kept, emitter, problems),
    ...newerOperations(core),
    ...eventOperations(core, kept, replay),
    answers: (options) => answers(core, options),
    wake: async (name, value, { by, eventId } = {}) =>
      await wake(core, { ...givenWakeOf(name, value), by }, eventId),
    answer: async (name, value, options) => await answerQuestion(core, { name, value, ...options }),
    states: (options) => listStates(core, options),
    limits: (options) => listLimits(core, options),
    reopenLimit: (name, options) => reopenLimit(core, name, options),
    processes: () => listProcesses(core),
    restore: restoring(core, kept, problems),
    portableEntries: () => portableEntries(core),
    restoreEntry: (entry) => restoreEntry(core, entry),
    accept,
    emit: emitter.emit,
    transact: transacting(core, emitter),
    claim: (options) => claims.claim(options),
    oldestDueAt: () => claims.oldestDueAt(),
    state: (key, options) => readState(core, key, options),
    noteProcess: (note) => noteProcess(core, note),
    forgetProcess: (id) => forgetProcess(core, id),
    scheduleNotes: scheduleNotes(core),
    alertNotes: alertNotes(core, problems),
    consoleRecords: consoleRecords(core),
    tokens: tokenBuckets(core),
    tidy: (what) => tidy(core, kept, problems, what),
    check: (options) => checkStore(core, options),
    lastCheck: () => readLastCheck(core),
    async listen(listener) {
      if (local.listener) listeners.delete(local.listener);
      local.listener = listener;
      listeners.add(listener);
      // If that fails, the changes of this process are told all the same.
      await engine.listen(() => listener.wake());
      listeners.delete(listener);
    },
  };
}

/** Makes an engine that tells the workers of this process when events are due by its changes. */
function tellingEngine<TTx>(
  engine: Engine<TTx>,
  listeners: ReadonlySet<StoreListener>,
): Engine<TTx> {
  function tell(time: number): void {
    for (const listener of listeners) {
      if (time <= engine.now()) listener.wake();
      else if (time < Infinity) listener.onDueLater?.(time);
    }
  }
  function telling(applying: Promise<Applied>, changeOf: () => Change): Promise<Applied> {
    return applying.then((applied) => {
      if (applied.ok && listeners.size > 0) tell(firstDueBy(changeOf(), applied, engine.now()));
      return applied;
    }, (error) => {
      // It may have been made.
      tell(engine.now() + LOOK_AGAIN_MS);
      throw error;
    });
  }
  return {
    ...engine,
    apply: (change) => telling(engine.apply(change), () => change as Change),
    transact(make) {
      let change: Change = { urgency: "work" };
      // The last call counts.
      const noting = (made: Change) => change = made;
      const making = engine.transact((tx) => {
        const made = make(tx);
        return made instanceof Promise ? made.then(noting) : noting(made);
      });
      return telling(making, () => change);
    },
    ...engine.insertIn && {
      async insertIn(tx: TTx, puts: readonly Put[]) {
        const written = await engine.insertIn!(tx, puts);
        // It may soon be committed.
        tell(engine.now() + LOOK_AGAIN_MS);
        return written;
      },
    },
    async tidy(what) {
      const tidied = await engine.tidy(what);
      if (tidied.times + tidied.groups > 0) tell(-Infinity);
      return tidied;
    },
    async *check(options) {
      for await (const page of engine.check(options)) {
        if (page.findings.some(({ is }) => is === "put_back")) tell(-Infinity);
        yield page;
      }
    },
  };
}

/** Finds the first time at which an event is due by a change; `-Infinity` for at once, and `Infinity` for never. */
function firstDueBy(
  { puts, moves, leave }: Pick<Change, "puts" | "moves" | "leave">,
  { written, head }: Extract<Applied, { readonly ok: true }>,
  now: number,
): number {
  // The next events of all groups are not told, nor what the events of a batch bring.
  const leaves = leave && (puts?.some(mayLeave) || moves?.some(({ leavesGroup }) => leavesGroup));
  let first = leaves ? -Infinity : head?.record.dueAt ?? Infinity;
  for (const event of written) first = Math.min(first, event?.record.dueAt ?? Infinity);
  if (moves) {
    for (const { afterMs } of moves) {
      first = Math.min(first, now + (afterMs ?? Infinity));
    }
  }
  return first;
}

/** Checks whether an event may be in an ordering group before its change. */
function mayLeave({ before }: Put): boolean {
  return !("must" in before) && before.record?.group !== null;
}

async function tidy(
  { engine }: StoreCore,
  kept: KeptPayloads,
  noted: Problems,
  what: Tidying,
): ReturnType<EventStore["tidy"]> {
  checkOptions("tidy the store", what, TIDYING);
  const { payloads = false, problems = false, times: reads, ...others } = what;
  const times = reads === undefined ? undefined : { reads, corrected };
  const tidied = await engine.tidy({ ...others, times });
  return {
    ...tidied,
    payloads: payloads ? await kept.trim() : 0,
    problems: problems ? await noted.tidy() : 0,
  };
}

type Tidying = Parameters<EventStore["tidy"]>[0];

const TIDYING: Record<keyof Tidying, OptionCheck | undefined> = {
  times: undefined,
  groups: checkBoolean,
  uploadsOlderThanMs: undefined,
  payloads: checkBoolean,
  problems: checkBoolean,
};

/** The workers of this process by the place of their events. A place that is not used any more takes them along. */
const listeners = new WeakMap<object, Set<StoreListener>>();

/**
 * Finds the workers of this process that work on the same events, through whichever store: a handler may open
 * another store on the same database, and an event that it cancels there is aborted at once.
 *
 * @param place The place of the events.
 * @returns The workers. The same set for all stores of the place.
 */
function listenersOn(place: object): Set<StoreListener> {
  const found = listeners.get(place) ?? new Set();
  listeners.set(place, found);
  return found;
}
