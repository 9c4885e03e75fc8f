import type { LogSink } from "../../../core/mod.ts";
import type { SharedEntries } from "./_shared_entries.ts";
import type { KeyedLock } from "./_keyed_lock.ts";
import type { StoreKeys } from "./_keys.ts";
import type { GroupCommit } from "./_group_commit.ts";
import type { Notifier } from "./notifier.ts";
import type { Reserve } from "../event_store.ts";

/** What a store is made of. */
export interface StoreParts {
  /** The KV. */
  readonly kv: Deno.Kv;
  /** The keys below the store's namespace. */
  readonly keys: StoreKeys;
  /** The notifier. */
  readonly notifier: Notifier;
  /** Those who write, in one commit where they can. */
  readonly commits: GroupCommit;
  /** The entries of the schedule that several events share. */
  readonly groups: SharedEntries;
  /** Those who change a group in this process, one after the other. */
  readonly locks: KeyedLock;
  /** Those who write large payloads, one commit at a time. */
  readonly uploads: KeyedLock;
  /** The worker of this process, once there is one. */
  readonly local: LocalWorker;
  /** See {@linkcode EventStoreOptions.retentionMs}. */
  readonly retentionMs: number;
  /** See {@linkcode EventStoreOptions.log}. */
  readonly log: LogSink;
}

/** The worker in the process of a store. */
export interface LocalWorker {
  /** Wakes it. */
  wake?: () => void;
  /** Asks whether it takes an event at once. */
  reserve?: Reserve | undefined;
}
