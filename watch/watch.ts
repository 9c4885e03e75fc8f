import type { LogSink } from "../core/mod.ts";
import type { EventStore } from "../events/store/mod.ts";
import { ActivityCounter } from "./activity.ts";
import { HealthReader } from "./health.ts";

/** Watch of each store: the alarm and the console of an app share it, so that nothing is counted twice. */
const WATCHES = new WeakMap<EventStore, Watch>();

/** Counter of what happens in this process, and reader of what is wrong. */
export class Watch {
  /** Counter of what happens. */
  readonly activity: ActivityCounter;
  /** Reader of what is wrong. */
  readonly health: HealthReader;
  #users = 1;

  constructor(store: EventStore, log: LogSink) {
    this.activity = new ActivityCounter(store, log);
    this.health = new HealthReader(store, () => this.activity.recent());
    this.activity.start();
  }

  /**
   * Finds what watches a store.
   *
   * @param store The store.
   * @param log The log for what cannot be reported to a reader.
   * @returns It, and true if it has begun by this call: then its telemetry is to be told of all that happens.
   */
  static of(store: EventStore, log: LogSink): { readonly watch: Watch; readonly isNew: boolean } {
    const known = WATCHES.get(store);
    if (known) known.#users++;
    const watch = known ?? new Watch(store, log);
    WATCHES.set(store, watch);
    return { watch, isNew: !known };
  }

  /** Writes what was counted last, and ends all timers, once the last one who uses it has called this. */
  async stop(store: EventStore): Promise<void> {
    if (--this.#users > 0) return;
    WATCHES.delete(store);
    await this.activity.stop();
  }
}
