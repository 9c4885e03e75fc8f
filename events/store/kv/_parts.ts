import { CommitMarks } from "../../../core/kv_commits.ts";
import { consoleSink, type LogSink } from "../../../core/mod.ts";
import type { EventStoreOptions } from "../store_core.ts";
import { KeyedLock } from "./_concurrency.ts";
import { GroupCommit } from "./_group_commit.ts";
import { guardKv, withoutGuard } from "./_kv_guard.ts";
import { type StoreKeys, storeKeys } from "./_layout.ts";
import { Uploads } from "./_payload.ts";
import { SharedEntries } from "./_write.ts";
import { createNotifier, detectNotifier, type Notifier } from "./notifier.ts";

/**
 * Options of {@linkcode openEventStore}.
 *
 * @category Event store and worker
 */
export interface KvStoreOptions extends EventStoreOptions {
  /**
   * The way to wake workers.
   *
   * @default {"auto"} `enqueue` if the KV has queues, else `watch`.
   */
  readonly notifier?: "enqueue" | "watch" | "auto" | undefined;
}

/** The options of a store that its engine works by. */
export type EngineOptions = Omit<KvStoreOptions, "retentionMs">;

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

/**
 * Opens the parts of a store in a KV.
 *
 * @param kv The KV, or a view of it.
 * @param options The options of the store.
 * @returns The parts.
 * @throws {TypeError} If the KV does not have the wanted notifier.
 */
export async function openParts(kv: Deno.Kv, options: EngineOptions): Promise<StoreParts> {
  const { namespace = "events", notifier: wanted = "auto" } = options;
  const { log = consoleSink, keepPayloads } = options;
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
  return {
    kv: own,
    reader: guardKv(kv, namespace, kind === "enqueue"),
    keys,
    marks,
    notifier,
    commits,
    locks: new KeyedLock(),
    uploads: new Uploads(),
    keepsPayloads: keepPayloads !== undefined,
    log,
  };
}
