import { checkBoolean, checkOptions, type OptionCheck } from "../../core/check_options.ts";
import { consoleSink } from "../../core/mod.ts";
import { Acceptance } from "./_acceptance.ts";
import { checkStore, readLastCheck } from "./_check.ts";
import { Claims } from "./_claims.ts";
import { consoleRecords } from "./_console_records.ts";
import type { StoreCore } from "./_core.ts";
import { Emitter } from "./_emit.ts";
import { restoring } from "./_import.ts";
import { storeInspector } from "./_inspector.ts";
import { KeptPayloads } from "./_kept_payloads.ts";
import { leaseOperations } from "./_leases.ts";
import { eventOperations } from "./_operations.ts";
import { portableEntries, restoreEntry } from "./_portable_entries.ts";
import { forgetProcess, listProcesses, noteProcess } from "./_processes.ts";
import { scheduleNotes } from "./_schedule_notes.ts";
import { Sources } from "./_sources.ts";
import { listStates, readState } from "./_states.ts";
import { answers, wake } from "./_waits.ts";
import type { Engine } from "./engine.ts";
import type { EventStore, EventStoreOptions, StoreListener, Tidying } from "./event_store.ts";
import { DEFAULT_RETENTION_MS } from "./keep_payloads.ts";
import { wakeOf } from "./waits.ts";

/** The options of a store over any engine. They are checked where the engine is opened. */
type StoreOptions = Pick<EventStoreOptions, "retentionMs" | "keepPayloads" | "log">;

/** What a store does whichever way its engine wakes workers. */
type StoreOfEngine<TTx, TReader> = Omit<EventStore<TTx, TReader>, "notifier">;

/**
 * Makes the event store of an engine.
 *
 * @typeParam TTx What a handler's effects get.
 * @typeParam TReader What handlers read with.
 * @param engine The engine. The store does not close it.
 * @param options The retention, the limits of the payloads that are kept, and the log.
 * @returns The store.
 */
export function createEventStore<TTx, TReader>(
  engine: Engine<TTx, TReader>,
  options: StoreOptions = {},
): StoreOfEngine<TTx, TReader> {
  const { retentionMs = DEFAULT_RETENTION_MS, keepPayloads, log = consoleSink } = options;
  const core: StoreCore<TTx> = {
    engine,
    local: {},
    listeners: listenersAt(engine.place),
    retentionMs,
    keepPayloads: keepPayloads && { ...keepPayloads },
    log,
  };
  const kept = new KeptPayloads(core);
  const sources = new Sources(core);
  const emitter = new Emitter(core, sources);
  const claims = new Claims(core);
  const { accept, replay } = new Acceptance(core, kept, sources);
  return {
    db: engine.reader,
    maxPayloadBytes: engine.limits.payloadBytes,
    retentionMs,
    inspect: storeInspector(core, kept),
    scheduleNotes: scheduleNotes(core),
    consoleRecords: consoleRecords(core),
    accept,
    emit: emitter.emit,
    claim: (options) => claims.claim(options),
    oldestDueAt: () => claims.oldestDueAt(),
    ...leaseOperations(core, kept, emitter),
    ...eventOperations(core, kept, replay),
    answers: (options) => answers(core, options),
    wake: async (name, value) => await wake(core, wakeOf(name, value)),
    state: (key, options) => readState(core, key, options),
    states: (options) => listStates(core, options),
    noteProcess: (note) => noteProcess(core, note),
    forgetProcess: (id) => forgetProcess(core, id),
    processes: () => listProcesses(core),
    restore: restoring(core, kept, sources),
    portableEntries: () => portableEntries(core),
    restoreEntry: (entry) => restoreEntry(core, entry),
    tidy: (what) => tidy(core, kept, what),
    check: (options) => checkStore(core, options),
    lastCheck: () => readLastCheck(core),
    listen: (listener) => listen(core, listener),
  };
}

/** The workers of this process by the place of their events. A place that is not used any more takes them along. */
const listeners = new WeakMap<object, Set<StoreListener>>();

/**
 * Finds the workers of this process that work on the same events, through whichever store: a handler may open another
 * store on them, and an event that it cancels there is aborted at once.
 */
function listenersAt(place: object): Set<StoreListener> {
  const found = listeners.get(place) ?? new Set();
  listeners.set(place, found);
  return found;
}

async function listen(
  { engine, local, listeners }: StoreCore,
  listener: StoreListener,
): Promise<void> {
  if (local.listener) listeners.delete(local.listener);
  local.listener = listener;
  listeners.add(listener);
  try {
    await engine.listen(() => listener.wake());
  } finally {
    listeners.delete(listener);
  }
}

async function tidy(
  { engine }: StoreCore,
  kept: KeptPayloads,
  what: Tidying,
): ReturnType<EventStore["tidy"]> {
  checkOptions("tidy the store", what, TIDYING);
  const { payloads = false, ...others } = what;
  return { ...await engine.tidy(others), payloads: payloads ? await kept.trim() : 0 };
}

const TIDYING: Record<keyof Tidying, OptionCheck | undefined> = {
  times: undefined,
  groups: checkBoolean,
  uploadsOlderThanMs: undefined,
  payloads: checkBoolean,
};
