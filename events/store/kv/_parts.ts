import type { CommitMarks } from "../../../core/kv_commits.ts";
import type { LogSink } from "../../../core/mod.ts";
import type { KeyedLock } from "./_concurrency.ts";
import type { GroupCommit } from "./_group_commit.ts";
import type { StoreKeys } from "./_layout.ts";
import type { Uploads } from "./_payload.ts";
import type { Notifier } from "./notifier.ts";

/** The parts of a store. */
export interface StoreParts {
  /** The KV. */
  readonly kv: Deno.Kv;
  /** The view of it that handlers, routes and resources read with. */
  readonly reader: Deno.Kv;
  /** The keys below the store's namespace. */
  readonly keys: StoreKeys;
  /** The commits of single operations, whose outcome is told truly. */
  readonly marks: CommitMarks;
  /** The notifier. */
  readonly notifier: Notifier;
  /** The group commit. All changes of events go through it. */
  readonly commits: GroupCommit;
  /** One at a time in this process: changes of an ordering group, commits of large payloads, and turns to emit. */
  readonly locks: KeyedLock;
  /** The payloads that were uploaded, and are not named by an event yet. */
  readonly uploads: Uploads;
  /** Set if payloads are kept when their events are done. */
  readonly keepsPayloads: boolean;
  /** See {@linkcode EventStoreOptions.log}. */
  readonly log: LogSink;
}

/** The places of the stores of this process, by KV and namespace. A KV that is not used any more takes them along. */
const places = new WeakMap<Deno.Kv, Map<string, object>>();

/**
 * Finds what stands for one namespace of a KV in this process: the same object for all stores that work on it.
 *
 * @param kv The KV itself, and no view of it.
 * @param namespace The namespace.
 * @returns The object.
 */
export function placeOf(kv: Deno.Kv, namespace: string): object {
  const ofKv = places.get(kv) ?? new Map<string, object>();
  places.set(kv, ofKv);
  const found = ofKv.get(namespace) ?? {};
  ofKv.set(namespace, found);
  return found;
}
