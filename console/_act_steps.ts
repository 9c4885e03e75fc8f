import type {
  EventFilter,
  EventList,
  EventRecord,
  EventStore,
  StoredEvent,
} from "../events/store/mod.ts";
import type { StoreInspector } from "../events/store/kv/store_inspector.ts";
import { askedAtOf } from "./_act_record.ts";
import type { Act, DeliveryQuery } from "./_console_data.ts";
import { actFiltersOf } from "./_search.ts";

/** Pace of the steps. */
export interface Pace {
  /** Most events of a step. */
  readonly events: number;
  /** Most records read in a step. */
  readonly reads: number;
  /** Pause after a step that took a time, in milliseconds. */
  readonly pauseMs: (tookMs: number) => number;
}

/** Pace of an act: 200 events a second. */
const ACT_PACE: Pace = { events: 50, reads: 1_000, pauseMs: (tookMs) => Math.max(0, 250 - tookMs) };

/** Events that are to be changed together. */
export interface ActStep {
  /** Filter that they must still match. */
  readonly filter: EventFilter & { readonly ids: readonly string[] };
  /** Number of events found, with those that cannot be changed. */
  readonly seen: number;
  /** Number of those that cannot be replayed, since their payloads are not kept. */
  readonly notKept: number;
}

/** Parts that the steps of an act are found with. */
export interface SteppingParts {
  readonly store: EventStore;
  readonly inspector: StoreInspector;
  readonly signal: AbortSignal;
}

/**
 * Finds the events of an act on many, or of the question before it, step by step, with pauses in between. They are those that it was asked
 * about: received by the time of the question and, as far as is known, in the state that they are in.
 */
export async function* stepsOf(
  { store, inspector, signal }: SteppingParts,
  { id, kind, at }: Pick<Act, "id" | "kind" | "at">,
  query: DeliveryQuery,
  pace: Pace = ACT_PACE,
): AsyncGenerator<ActStep> {
  const { events: limit, reads: maxReads } = pace;
  const askedAt = Math.min(askedAtOf(id) ?? at, at);
  for (const wanted of actFiltersOf(kind, query)) {
    const filter = filterThen(wanted, askedAt);
    let cursor: string | undefined = "";
    while (cursor !== undefined && !signal.aborted) {
      const start = performance.now();
      const list: EventList = store.list({ ...filter, limit, maxReads, cursor });
      const events = (await Array.fromAsync(list))
        .filter((event) => query.state === undefined || wasSoThen(event, askedAt));
      const needsPayload = kind === "replay" && wanted.state === "done";
      const kept = needsPayload ? await inspector.keptAmong(events) : undefined;
      const ids = events.map(({ id }) => id).filter((id) => !kept || kept.has(id));
      const { length: seen } = events;
      yield { filter: { ...filter, ids }, seen, notKept: seen - ids.length };
      cursor = list.cursor;
      await pause(pace.pauseMs(performance.now() - start), signal);
    }
  }
}

/** Narrows a filter to what it matched at a time, as far as the store can tell. */
function filterThen(filter: EventFilter, at: number): EventFilter {
  const { state, receivedBefore = Infinity } = filter;
  const isSettled = state === "done" || state === "dead";
  return {
    ...filter,
    receivedBefore: Math.min(receivedBefore, at + 1),
    ...(isSettled && { settledBefore: at + 1 }),
  };
}

/** Checks whether an open event was in its state at a time already, as far as its record tells. */
function wasSoThen(event: StoredEvent, at: number): boolean {
  if (event.state === "running") {
    return (event.lease?.startedAt ?? at) <= at || ranAt(event, at);
  }
  if (event.state === "parked") return (event.waitingFor?.since ?? at) <= at;
  return event.state !== "queued" || !ranAt(event, at);
}

const ranAt = ({ attempts }: EventRecord, at: number): boolean =>
  attempts.some(({ startedAt, endedAt }) => startedAt <= at && endedAt > at);

/** Waits, or until the signal is aborted. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const end = () => resolve();
  signal.addEventListener("abort", end);
  const timer = setTimeout(end, ms);
  await promise;
  clearTimeout(timer);
  signal.removeEventListener("abort", end);
}
