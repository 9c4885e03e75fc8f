import { checkFunctions, checkPart, met } from "../../core/check_options.ts";
import { consoleSink } from "../../core/mod.ts";
import { DueGroups } from "./_due_groups.ts";
import { KeyedLock } from "./_keyed_lock.ts";
import { storeKeys } from "./_keys.ts";
import { KvEventStore } from "./_kv_event_store.ts";
import { SharedCommits } from "./_shared_commits.ts";
import { createDoorbell, detectBell } from "./doorbell.ts";
import type { EventStore } from "./event_store.ts";
import type { EventStoreOptions } from "./event_store_options.ts";

/** The longest retention: KV takes a time up to the year 275760, and 100 years leave room. */
const MAX_RETENTION_MS = 100 * 365 * 86_400_000;

/**
 * Opens the event store in a KV.
 *
 * @param kv The KV. The store does not close it.
 * @param options The namespace, bell and retention.
 * @returns The store.
 * @throws {TypeError} If the KV or an option is something else, or the KV cannot ring the wanted bell.
 * @throws {RangeError} If the retention makes no sense.
 *
 * @example
 * ```ts
 * import { openEventStore } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * using kv = await Deno.openKv(":memory:");
 * const store = await openEventStore(kv);
 * assertEquals(store.bell, "enqueue");
 * ```
 */
export async function openEventStore(
  kv: Deno.Kv,
  options: EventStoreOptions = {},
): Promise<EventStore> {
  const { namespace = "events", bell = "auto", retentionMs = 604_800_000, log = consoleSink } =
    options;
  check(kv, { namespace, bell, retentionMs, log });
  const kind = bell === "watch" ? bell : await detectBell(kv, namespace);
  if (bell === "enqueue" && kind !== "enqueue") {
    throw new TypeError("Cannot open the event store: bell 'enqueue' needs a KV with queues");
  }
  const doorbell = createDoorbell(kind, kv, namespace);
  const keys = storeKeys(namespace);
  const groups = new DueGroups(keys);
  return new KvEventStore({
    kv,
    keys,
    bell: doorbell,
    groups,
    commits: new SharedCommits(kv, doorbell, groups),
    locks: new KeyedLock(),
    uploads: new KeyedLock(),
    local: {},
    retentionMs,
    log,
  });
}

const DOING = "open the event store";

const BELLS: readonly unknown[] = ["auto", "enqueue", "watch"];

function check(
  kv: Deno.Kv,
  { namespace, bell, retentionMs, log }: Required<EventStoreOptions>,
): void {
  checkPart(DOING, kv, "atomic", "the KV must be what Deno.openKv() resolves with");
  checkFunctions(DOING, { log });
  if (typeof namespace !== "string" || namespace === "") {
    throw new TypeError(
      `Cannot ${DOING}: 'namespace' must be a text that is not empty, got ${met(namespace)}`,
    );
  }
  if (!BELLS.includes(bell)) {
    throw new TypeError(
      `Cannot ${DOING}: 'bell' must be "auto", "enqueue" or "watch", got ${met(bell)}`,
    );
  }
  const isInRange = Number.isFinite(retentionMs) && retentionMs! >= 1;
  if (isInRange && retentionMs! <= MAX_RETENTION_MS) return;
  throw new RangeError(
    `Cannot ${DOING}: 'retentionMs' must be from 1 to ${MAX_RETENTION_MS}, got ${met(retentionMs)}`,
  );
}
