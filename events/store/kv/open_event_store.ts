import { checkFunctions, checkPart, met } from "../../../core/check_options.ts";
import { consoleSink } from "../../../core/mod.ts";
import { SharedEntries } from "./_shared_entries.ts";
import { KeyedLock } from "./_keyed_lock.ts";
import { storeKeys } from "./_keys.ts";
import { KvEventStore } from "./_kv_event_store.ts";
import { GroupCommit } from "./_group_commit.ts";
import { createNotifier, detectNotifier } from "./notifier.ts";
import type { EventStore } from "../event_store.ts";
import type { EventStoreOptions } from "../event_store_options.ts";

/** The longest retention: KV takes a time up to the year 275760, and 100 years leave room. */
const MAX_RETENTION_MS = 100 * 365 * 86_400_000;

/**
 * Opens the event store in a KV.
 *
 * @param kv The KV. The store does not close it.
 * @param options The namespace, notifier and retention.
 * @returns The store.
 * @throws {TypeError} If the KV or an option is something else, or the KV cannot ring the wanted notifier.
 * @throws {RangeError} If the retention makes no sense.
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
 */
export async function openEventStore(
  kv: Deno.Kv,
  options: EventStoreOptions = {},
): Promise<EventStore> {
  const { namespace = "events", notifier: wanted = "auto", retentionMs = 604_800_000 } = options;
  const { log = consoleSink } = options;
  check(kv, { namespace, notifier: wanted, retentionMs, log });
  const kind = wanted === "watch" ? wanted : await detectNotifier(kv, namespace);
  if (wanted === "enqueue" && kind !== "enqueue") {
    throw new TypeError("Cannot open the event store: notifier 'enqueue' needs a KV with queues");
  }
  const notifier = createNotifier(kind, kv, namespace);
  const keys = storeKeys(namespace);
  const groups = new SharedEntries(keys);
  return new KvEventStore({
    kv,
    keys,
    notifier,
    groups,
    commits: new GroupCommit(kv, notifier, groups),
    locks: new KeyedLock(),
    uploads: new KeyedLock(),
    local: {},
    retentionMs,
    log,
  });
}

const DOING = "open the event store";

const NOTIFIERS: readonly unknown[] = ["auto", "enqueue", "watch"];

function check(
  kv: Deno.Kv,
  { namespace, notifier, retentionMs, log }: Required<EventStoreOptions>,
): void {
  checkPart(DOING, kv, "atomic", "the KV must be what Deno.openKv() resolves with");
  checkFunctions(DOING, { log });
  if (typeof namespace !== "string" || namespace === "") {
    throw new TypeError(
      `Cannot ${DOING}: 'namespace' must be a text that is not empty, got ${met(namespace)}`,
    );
  }
  if (!NOTIFIERS.includes(notifier)) {
    throw new TypeError(
      `Cannot ${DOING}: 'notifier' must be "auto", "enqueue" or "watch", got ${met(notifier)}`,
    );
  }
  const isInRange = Number.isFinite(retentionMs) && retentionMs! >= 1;
  if (isInRange && retentionMs! <= MAX_RETENTION_MS) return;
  throw new RangeError(
    `Cannot ${DOING}: 'retentionMs' must be from 1 to ${MAX_RETENTION_MS}, got ${met(retentionMs)}`,
  );
}
