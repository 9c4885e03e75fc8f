import type { LogSink } from "../../core/mod.ts";
import type { Engine } from "./engine.ts";
import type { EventStoreOptions, StoreListener } from "./event_store.ts";

/** The core that the parts of a store share. */
export interface StoreCore<TTx = unknown> {
  /** The engine that has its events. */
  readonly engine: Engine<TTx>;
  /** The worker of this store, once there is one. */
  readonly local: { listener?: StoreListener };
  /** The workers of this process on all stores of the same events. */
  readonly listeners: Set<StoreListener>;
  /** See {@linkcode EventStoreOptions.retentionMs}. */
  readonly retentionMs: number;
  /** See {@linkcode EventStoreOptions.keepPayloads}. */
  readonly keepPayloads: EventStoreOptions["keepPayloads"];
  /** See {@linkcode EventStoreOptions.log}. */
  readonly log: LogSink;
}
