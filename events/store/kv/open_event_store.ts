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
import { Acceptance } from "../_acceptance.ts";
import { Claims } from "../_claims.ts";
import { checkStore, readLastCheck } from "../_check.ts";
import { consoleRecords } from "../_console_records.ts";
import type { StoreCore } from "../_core.ts";
import { Emitter } from "../_emit.ts";
import { KeptPayloads } from "../_kept_payloads.ts";
import { readOperations } from "../_operations.ts";
import { forgetProcess, noteProcess } from "../_processes.ts";
import { scheduleNotes } from "../_schedule_notes.ts";
import { Sources } from "../_sources.ts";
import { readState } from "../_states.ts";
import type { EventStore, EventStoreOptions, Tidying } from "../event_store.ts";
import { GroupIntake } from "./_group_intake.ts";
import { leaseOperations } from "./_leases.ts";
import { storeOperations } from "./_operations.ts";
import { openParts } from "./_open_parts.ts";
import type { StoreParts } from "./_parts.ts";
import { MAX_PAYLOAD_BYTES } from "./_payload.ts";
import { storeInspector } from "./_store_inspector.ts";
import { kvEngineOf } from "./kv_engine.ts";
import { checkKeepPayloads, DEFAULT_RETENTION_MS } from "./keep_payloads.ts";

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
): Promise<EventStore<Deno.AtomicOperation, Deno.Kv>> {
  checkOptions(DOING, options, OPTIONS);
  const { retentionMs = DEFAULT_RETENTION_MS, keepPayloads } = options;
  checkPart(DOING, kv, "atomic", "the KV must be what Deno.openKv() resolves with");
  if (keepPayloads !== undefined) checkKeepPayloads(DOING, keepPayloads, retentionMs);
  const parts = await openParts(kv, options);
  const { local, listeners, log } = parts;
  const joins = new GroupIntake(parts);
  const engine = kvEngineOf(parts, joins);
  const limits = keepPayloads && { ...keepPayloads };
  const core = { engine, local, listeners, retentionMs, keepPayloads: limits, log };
  return storeOf(parts, joins, core);
}

/** Makes the store; its users get their own view of the KV. */
function storeOf(
  parts: StoreParts,
  joins: GroupIntake,
  core: StoreCore<Deno.AtomicOperation>,
): EventStore<Deno.AtomicOperation, Deno.Kv> {
  const { reader, notifier, retentionMs, local, listeners } = parts;
  const kept = new KeptPayloads(core);
  const sources = new Sources(core);
  const { accept, replay } = new Acceptance(core, kept, sources);
  const { emit } = new Emitter(core, sources);
  const claims = new Claims(core);
  return {
    db: reader,
    notifier: notifier.kind,
    maxPayloadBytes: MAX_PAYLOAD_BYTES,
    retentionMs,
    inspect: storeInspector(parts),
    ...leaseOperations(parts, core),
    ...readOperations(core),
    ...storeOperations(parts, core, joins, replay),
    accept,
    emit,
    claim: (options) => claims.claim(options),
    oldestDueAt: () => claims.oldestDueAt(),
    state: (key, options) => readState(core, key, options),
    noteProcess: (note) => noteProcess(core, note),
    forgetProcess: (id) => forgetProcess(core, id),
    scheduleNotes: scheduleNotes(core),
    consoleRecords: consoleRecords(core),
    tidy: (what) => tidy(core, kept, what),
    check: (options) => checkStore(core, options),
    lastCheck: () => readLastCheck(core),
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
  { engine }: StoreCore<Deno.AtomicOperation>,
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
