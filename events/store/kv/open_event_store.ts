import {
  checkBoolean,
  checkFilled,
  checkFunction,
  checkOptions,
  checkPart,
  checkWellFormed,
  MAX_KEPT_MS,
  numberFrom,
  oneOf,
  type OptionCheck,
} from "../../../core/check_options.ts";
import { CommitMarks } from "../../../core/kv_commits.ts";
import { consoleSink } from "../../../core/mod.ts";
import type { EventStore, EventStoreOptions, StoreListener, Tidying } from "../event_store.ts";
import { Acceptance } from "./_acceptance.ts";
import { readLastCheck, StoreCheck } from "./_check.ts";
import { Claims } from "./_claims.ts";
import { KeyedLock } from "./_concurrency.ts";
import { GroupCommit } from "./_group_commit.ts";
import { emitting } from "./_emit.ts";
import { GroupIntake } from "./_group_intake.ts";
import { KeptPayloads } from "./_kept_payloads.ts";
import { storeKeys } from "./_layout.ts";
import { leaseOperations } from "./_leases.ts";
import { storeOperations } from "./_operations.ts";
import { repairGroups } from "./_ordering_groups.ts";
import type { StoreParts } from "./_parts.ts";
import { deleteStaleUploads, MAX_PAYLOAD_BYTES, Uploads } from "./_payload.ts";
import { forgetProcess, noteProcess } from "./_processes.ts";
import { guardKv, withoutGuard } from "./_kv_guard.ts";
import { Schedule } from "./_schedule.ts";
import { ScheduleRepair } from "./_schedule_repair.ts";
import { readState } from "./_states.ts";
import { storeInspector } from "./_store_inspector.ts";
import { SharedEntries } from "./_write.ts";
import { checkKeepPayloads, DEFAULT_RETENTION_MS } from "./keep_payloads.ts";
import { createNotifier, detectNotifier } from "./notifier.ts";

/**
 * Opens the event store in a KV.
 *
 * @param kv The KV. The store does not close it.
 * @param options The namespace, notifier and retention.
 * @returns The store.
 * @throws {TypeError} If the KV or an option is something else, or the KV does not have the wanted notifier.
 * @throws {RangeError} If the retention, or a limit of the payloads that are kept, is out of range.
 *
 * @example
 * ```ts
 * import { openEventStore } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * using kv = await Deno.openKv(":memory:");
 * const store = await openEventStore(kv);
 * assertEquals(store.notifier, "enqueue");
 * ```
 *
 * @category Event store and worker
 */
export async function openEventStore(
  kv: Deno.Kv,
  options: EventStoreOptions = {},
): Promise<EventStore> {
  checkOptions(DOING, options, OPTIONS);
  const { namespace = "events", notifier: wanted = "auto" } = options;
  const { retentionMs = DEFAULT_RETENTION_MS } = options;
  const { log = consoleSink, keepPayloads } = options;
  checkPart(DOING, kv, "atomic", "the KV must be what Deno.openKv() resolves with");
  if (keepPayloads !== undefined) checkKeepPayloads(DOING, keepPayloads, retentionMs);
  // It may be another store's `kv`: that refuses the use of the queue.
  const own = withoutGuard(kv);
  const kind = wanted === "watch" ? wanted : await detectNotifier(own, namespace);
  if (wanted === "enqueue" && kind !== "enqueue") {
    throw new TypeError("Cannot open the event store: notifier 'enqueue' needs a KV with queues");
  }
  const notifier = createNotifier(kind, own, namespace, log);
  const keys = storeKeys(namespace);
  // Only a KV on this machine has a queue.
  const marks = new CommitMarks(own, keys.commitMarks, kind !== "enqueue");
  const commits = new GroupCommit(own, marks, notifier, new SharedEntries(keys));
  const local: StoreParts["local"] = {};
  const kept = { kv: own, keys, marks, commits, log, local };
  return storeOf({
    kv: own,
    reader: guardKv(kv, namespace, kind === "enqueue"),
    keys,
    marks,
    notifier,
    commits,
    locks: new KeyedLock(),
    local,
    listeners: listenersOf(own, namespace),
    uploads: new Uploads(),
    kept: new KeptPayloads(kept, keepPayloads && { ...keepPayloads }),
    retentionMs,
    log,
  });
}

/** Makes the store; its users get their own view of the KV. */
function storeOf(parts: StoreParts): EventStore {
  const { reader, notifier, retentionMs, local, listeners } = parts;
  const schedule = new Schedule(parts);
  const joins = new GroupIntake(parts);
  const { accept, replay } = new Acceptance(parts, joins);
  const claims = new Claims(parts, joins, schedule);
  const scheduleRepair = new ScheduleRepair(parts, schedule);
  return {
    kv: reader,
    notifier: notifier.kind,
    maxPayloadBytes: MAX_PAYLOAD_BYTES,
    retentionMs,
    inspect: storeInspector(parts),
    ...leaseOperations(parts),
    ...storeOperations(parts, joins, replay),
    accept,
    emit: emitting(parts),
    claim: (options) => claims.claim(options),
    oldestDueAt: () => schedule.first(Date.now()),
    state: (key, options) => readState(parts, key, options),
    noteProcess: (note) => noteProcess(parts, note),
    forgetProcess: (id) => forgetProcess(parts, id),
    tidy: (what) => tidy(parts, scheduleRepair, what),
    check: (options) => new StoreCheck(parts, options).run(),
    lastCheck: () => readLastCheck(parts),
    async listen(listener) {
      if (local.listener) listeners.delete(local.listener);
      local.listener = listener;
      listeners.add(listener);
      try {
        await notifier.listen(() => listener.wake());
      } finally {
        listeners.delete(listener);
      }
    },
  };
}

async function tidy(
  parts: StoreParts,
  repair: ScheduleRepair,
  what: Tidying,
): ReturnType<EventStore["tidy"]> {
  checkOptions("tidy the store", what, TIDYING);
  const { times, groups, uploadsOlderThanMs: ageMs, payloads } = what;
  return {
    times: times === undefined ? 0 : await repair.run(times),
    groups: groups ? await repairGroups(parts) : 0,
    uploads: ageMs === undefined ? 0 : await deleteStaleUploads(parts, Date.now() - ageMs),
    payloads: payloads ? await parts.kept.trim() : 0,
  };
}

const TIDYING: Record<keyof Tidying, OptionCheck | undefined> = {
  times: undefined,
  groups: checkBoolean,
  uploadsOlderThanMs: undefined,
  payloads: checkBoolean,
};

/** The workers of this process by KV and namespace. A KV that is not used any more takes them along. */
const listeners = new WeakMap<Deno.Kv, Map<string, Set<StoreListener>>>();

/**
 * Finds the workers of this process that work on one namespace of a KV, through whichever store: a handler may open
 * another store on the same KV, and an event that it cancels there is aborted at once.
 *
 * @param kv The KV itself, and no view of it.
 * @param namespace The namespace.
 * @returns The workers. The same set for all stores of the KV and the namespace.
 */
function listenersOf(kv: Deno.Kv, namespace: string): Set<StoreListener> {
  const ofKv = listeners.get(kv) ?? new Map<string, Set<StoreListener>>();
  listeners.set(kv, ofKv);
  const found = ofKv.get(namespace) ?? new Set();
  ofKv.set(namespace, found);
  return found;
}

const DOING = "open the event store";

const OPTIONS: Record<keyof EventStoreOptions, OptionCheck | undefined> = {
  namespace: checkNamespace,
  notifier: oneOf("auto", "enqueue", "watch"),
  retentionMs: numberFrom(1, MAX_KEPT_MS),
  // With the retention.
  keepPayloads: undefined,
  log: checkFunction,
};

function checkNamespace(doing: string, name: string, value: unknown): void {
  checkFilled(doing, name, value);
  checkWellFormed(doing, name, value);
}
