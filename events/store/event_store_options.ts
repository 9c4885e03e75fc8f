import type { LogSink } from "../../core/mod.ts";
import type { NotifierKind } from "./kv/notifier.ts";

/** Options of {@linkcode openEventStore}. */
export interface EventStoreOptions {
  /**
   * The first part of all keys, so that stores can share a KV. Give each bot its own: the
   * updates of two bots have the same numbers, and within a namespace only the names of the intakes tell
   * such ids apart.
   *
   * @default {"events"}
   */
  readonly namespace?: string | undefined;
  /**
   * How workers are woken.
   *
   * @default {"auto"} `enqueue` where the KV has queues, else `watch`.
   */
  readonly notifier?: NotifierKind | "auto" | undefined;
  /**
   * For how long done events are remembered, and so duplicates known, in milliseconds.
   *
   * @default {604_800_000} 7 days. GitHub can redeliver for 3 days.
   */
  readonly retentionMs?: number | undefined;
  /**
   * Where the store reports what it cannot tell a caller.
   *
   * @default {consoleSink}
   */
  readonly log?: LogSink | undefined;
}
