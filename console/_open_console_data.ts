import type { LogSink } from "../core/mod.ts";
import { type EventStore, NotKeptError } from "../events/store/mod.ts";
import { openConsoleRecords } from "../events/store/kv/console_records.ts";
import { openStoreInspector } from "../events/store/kv/store_inspector.ts";
import type { Telemetry } from "../telemetry/mod.ts";
import { ActivityCounter } from "./_activity.ts";
import { ActCounts } from "./_act_counts.ts";
import { Acts } from "./_acts.ts";
import type { ConsoleData } from "./_console_data.ts";
import { StateCounter } from "./_counts.ts";
import { isFit, readDetails, searchFrom } from "./_search.ts";

/** Parts that the console's data is read from. */
export interface ConsoleDataParts {
  /** KV of the store. */
  readonly kv: Deno.Kv;
  /** Event store. */
  readonly store: EventStore;
  /** Namespace of the store. */
  readonly namespace: string;
  /** Log for what cannot be reported to a reader. */
  readonly log: LogSink;
}

/** Data of the console, which counts while it is open. */
export interface OpenedConsoleData extends ConsoleData {
  /**
   * Receiver of what is counted, for the app's intakes and its worker. A worker that has it counts as one
   * of this instance until it stops.
   */
  readonly telemetry: Telemetry;
  /** Ends acts, writes the last record, and ends all timers. */
  stop(): Promise<void>;
}

/**
 * Opens the console's data. It counts what its telemetry is told, and writes that each minute. Nothing is read
 * before somebody looks.
 */
export function openConsoleData(
  { kv, store, namespace, log }: ConsoleDataParts,
): OpenedConsoleData {
  const records = openConsoleRecords(kv, namespace);
  const inspector = openStoreInspector(kv, namespace);
  const counter = new StateCounter(store, inspector, log);
  const activity = new ActivityCounter(records, log, () => counter.stir());
  const counts = new ActCounts({ store, inspector });
  const acts = new Acts({ store, inspector, records, log });
  activity.start();
  return {
    telemetry: activity.telemetry,
    async overview(period) {
      const [counted, read] = await Promise.all([counter.look(), activity.read(period)]);
      const { counts = null, countedAt = null, doneCountedAt = null } = counted ?? {};
      const oldestDueAt = counted ? counted.oldestDueAt : await store.oldestDueAt();
      return { counts, countedAt, doneCountedAt, oldestDueAt, ...read };
    },
    search: (query, cursor) => searchFrom(store, query, cursor, counter.newestDoneAt),
    details: (id) => readDetails({ store, inspector }, id),
    withDeliveryId: (id) => isFit(id) ? inspector.withDeliveryId(id) : Promise.resolve([]),
    async payload(record) {
      try {
        return await store.load({ record });
      } catch (error) {
        if (error instanceof NotKeptError) return null;
        throw error;
      }
    },
    countFor: (kind, query, isPoll) => counts.look(kind, query, isPoll),
    act: (kind, eventId, by, id) => acts.one(kind, eventId, by, id),
    actOnAll: (kind, query, by, id) => acts.all(kind, query, by, id),
    stopAct: (id, by) => acts.stopOne(id, by),
    getAct: (id) => acts.get(id),
    acts: (cursor) => acts.list(cursor),
    async stop() {
      await Promise.all([acts.stop(), counts.stop(), counter.stop()]);
      await activity.stop();
    },
  };
}
