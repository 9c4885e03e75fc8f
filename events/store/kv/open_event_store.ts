import {
  checkFilled,
  checkOptions,
  checkPart,
  checkWellFormed,
  oneOf,
  type OptionCheck,
} from "../../../core/check_options.ts";
import type { EventStore } from "../event_store.ts";
import { createEventStore, STORE_OPTIONS } from "../open_store.ts";
import type { KvCommit } from "./_own_keys.ts";
import type { KvStoreOptions } from "./_parts.ts";
import { openKvEngine } from "./kv_engine.ts";

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
  options: KvStoreOptions = {},
): Promise<EventStore<KvCommit, Deno.Kv>> {
  checkOptions(DOING, options, OPTIONS);
  checkPart(DOING, kv, "atomic", "the KV must be what Deno.openKv() resolves with");
  const { namespace: _namespace, notifier: _notifier, ...own } = options;
  return createEventStore(await openKvEngine(kv, options), own);
}

const DOING = "open the event store";

const OPTIONS: Record<keyof KvStoreOptions, OptionCheck | undefined> = {
  namespace: checkNamespace,
  notifier: oneOf("auto", "enqueue", "watch"),
  ...STORE_OPTIONS,
};

function checkNamespace(doing: string, name: string, value: unknown): void {
  checkFilled(doing, name, value);
  checkWellFormed(doing, name, value);
}
