import type { LogSink } from "../../middleware/mod.ts";
import type { KeyedLock } from "./_keyed_lock.ts";
import type { Doorbell } from "./doorbell.ts";

/** What a store is made of. */
export interface StoreParts {
  /** The KV. */
  readonly kv: Deno.Kv;
  /** The bell. */
  readonly bell: Doorbell;
  /** Those who change a lane in this process, one after the other. */
  readonly locks: KeyedLock;
  /** The first part of all keys. */
  readonly namespace: string;
  /** See {@linkcode EventStoreOptions.retentionMs}. */
  readonly retentionMs: number;
  /** See {@linkcode EventStoreOptions.log}. */
  readonly log: LogSink;
}
