import { CommitMarks } from "../../../core/kv_commits.ts";
import { consoleSink } from "../../../core/mod.ts";
import type { EventStoreOptions, StoreListener } from "../event_store.ts";
import { KeyedLock } from "./_concurrency.ts";
import { GroupCommit } from "./_group_commit.ts";
import { KeptPayloads } from "./_kept_payloads.ts";
import { guardKv, withoutGuard } from "./_kv_guard.ts";
import { storeKeys } from "./_layout.ts";
import type { StoreParts } from "./_parts.ts";
import { Uploads } from "./_payload.ts";
import { SharedEntries } from "./_write.ts";
import { DEFAULT_RETENTION_MS } from "../keep_payloads.ts";
import { createNotifier, detectNotifier } from "./notifier.ts";

/**
 * Opens the parts of a store in a KV.
 *
 * @param kv The KV, or a view of it.
 * @param options The options of the store.
 * @returns The parts.
 * @throws {TypeError} If the KV does not have the wanted notifier.
 */
export async function openParts(kv: Deno.Kv, options: EventStoreOptions): Promise<StoreParts> {
  const { namespace = "events", notifier: wanted = "auto" } = options;
  const { retentionMs = DEFAULT_RETENTION_MS, log = consoleSink, keepPayloads } = options;
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
  return {
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
  };
}

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
