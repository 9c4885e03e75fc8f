import type { CommitMarks } from "../../../core/kv_commits.ts";
import type { LogSink } from "../../../core/mod.ts";
import type { StoreListener } from "../event_store.ts";
import type { KeyedLock } from "./_concurrency.ts";
import type { GroupCommit } from "./_group_commit.ts";
import type { KeptPayloads } from "./_kept_payloads.ts";
import type { StoreKeys } from "./_layout.ts";
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
  /** The worker of this store, once there is one. */
  readonly local: { listener?: StoreListener };
  /** The workers of this process on all stores of the same KV and namespace. */
  readonly listeners: Set<StoreListener>;
  /** The payloads of done events. */
  readonly kept: KeptPayloads;
  /** See {@linkcode EventStoreOptions.retentionMs}. */
  readonly retentionMs: number;
  /** See {@linkcode EventStoreOptions.log}. */
  readonly log: LogSink;
}
