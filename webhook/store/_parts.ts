import type { LogSink } from "../../middleware/mod.ts";
import type { Doorbell } from "./doorbell.ts";

/** What a store is made of. */
export interface StoreParts {
  /** The KV. */
  readonly kv: Deno.Kv;
  /** The bell. */
  readonly bell: Doorbell;
  /** The first part of all keys. */
  readonly namespace: string;
  /** See {@linkcode EventStoreOptions.retentionMs}. */
  readonly retentionMs: number;
  /** See {@linkcode EventStoreOptions.log}. */
  readonly log: LogSink;
}
