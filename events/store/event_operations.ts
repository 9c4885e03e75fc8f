import type { EventRecord, EventState, StoredEvent } from "./event_record.ts";

/**
 * A choice of events: those that meet all given conditions. The type of an unreadable event is not known,
 * so a filter with a type never matches it.
 */
export interface EventFilter {
  /** Events with these ids. */
  readonly ids?: readonly string[] | undefined;
  /** Events in this state. */
  readonly state?: StoredEvent["state"] | undefined;
  /** Events of this type. */
  readonly type?: string | undefined;
  /** Events received at this time or later, milliseconds since the epoch. */
  readonly receivedAfter?: number | undefined;
  /** Events received before this time, milliseconds since the epoch. */
  readonly receivedBefore?: number | undefined;
}

/** A choice of events to list, and the part of them that is wanted. */
export interface ListOptions extends EventFilter {
  /**
   * The order in which they were received: the oldest first or the newest.
   *
   * @default {"oldest"}
   */
  readonly order?: "oldest" | "newest" | undefined;
  /**
   * The largest number of events. To tell whether there are more, one more that matches is looked for: with
   * a rare `type`, that may read all records.
   *
   * @default {undefined} All of them.
   */
  readonly limit?: number | undefined;
  /**
   * The {@linkcode EventList.cursor} of an earlier list with the same filter and order, which this one
   * continues. An empty text begins anew, as none does.
   *
   * @default {undefined} From the first event.
   */
  readonly cursor?: string | undefined;
}

/** A list of events, read while it is iterated over. */
export interface EventList<TEvent extends StoredEvent = StoredEvent>
  extends AsyncIterableIterator<TEvent> {
  /**
   * The place that the list has come to, for another one that continues it; undefined once no event is
   * left. A list that ends because of its `limit` has a cursor only if there are more events.
   */
  readonly cursor: string | undefined;
}

/** The number of events in each state. */
export interface EventStats extends Readonly<Record<StoredEvent["state"], number>> {
  /** The time at which the oldest queued event was received, milliseconds since the epoch; null without one. */
  readonly oldestWaitingAt: number | null;
}

/** The progress of an operation on many events. */
export interface BulkProgress {
  /** The number of events read so far. */
  readonly seen: number;
  /** The number of events changed so far. */
  readonly changed: number;
}

/** Options of an operation on many events. */
export interface BulkOptions {
  /** Called from time to time with the progress. */
  readonly onProgress?: ((progress: BulkProgress) => void) | undefined;
  /** Ends the operation between two commits. What was done by then stays done. */
  readonly signal?: AbortSignal | undefined;
}

/** The result of an operation on many events. */
export interface BulkResult {
  /** The number of events changed. */
  readonly changed: number;
  /** The ids of the filter whose events were not changed. */
  readonly left: readonly string[];
}

/**
 * The operations on a store by somebody who runs it, also while apps use it. Each change is one commit,
 * of one event or of several, so an operation that is interrupted leaves no event between two states.
 */
export interface EventOperations {
  /**
   * Reads an event's record.
   *
   * @param id The event's id.
   * @returns The record; null if there is none.
   * @throws {Error} If this version cannot read it. `list` returns such an event and does not throw.
   */
  get(id: string): Promise<EventRecord | null>;

  /**
   * Lists the events in a state.
   *
   * @param options The choice of events, their order, and the part that is wanted.
   * @returns The records. A list by pages is no snapshot: it shows each event as it is when it is read.
   * @throws {TypeError} If the order or the cursor is not valid. A route that is given the cursor by its client
   * should answer 400 then.
   * @throws {RangeError} If the limit is not a positive whole number.
   *
   * @example
   * ```ts
   * import { createBaseApp, openEventStore } from "@org/edge-base";
   * import { assertEquals } from "@std/assert";
   *
   * using kv = await Deno.openKv(":memory:");
   * const store = await openEventStore(kv);
   *
   * const app = createBaseApp({ name: "my-bot", logger: false });
   * app.get("/dead", async (c) => {
   *   const cursor = c.req.query("cursor");
   *   const dead = store.list({ state: "dead", order: "newest", limit: 50, cursor });
   *   const events = await Array.fromAsync(dead);
   *   return c.json({ events, cursor: dead.cursor });
   * });
   *
   * assertEquals(await (await app.request("/dead")).json(), { events: [] });
   * ```
   */
  list(options: ListOptions & { readonly state: EventState }): EventList<EventRecord>;

  /**
   * Lists events, unreadable ones among them.
   *
   * @param options The choice of events, their order, and the part that is wanted.
   * @returns The records.
   * @throws {TypeError} If the order or the cursor is not valid.
   * @throws {RangeError} If the limit is not a positive whole number.
   */
  list(options?: ListOptions): EventList;

  /**
   * Counts events.
   *
   * @param filter The choice of events; all by default.
   * @param options A callback for the progress.
   * @returns The number of events in each state.
   */
  stats(filter?: EventFilter, options?: Pick<BulkOptions, "onProgress">): Promise<EventStats>;

  /**
   * Puts a dead event back, to be handled as if it had just been received.
   *
   * @param id The event's id.
   * @returns True if it was put back; false if there is no such event, or it is not dead.
   */
  replay(id: string): Promise<boolean>;

  /**
   * Puts dead events back. Those of one ordering key are handled in the order in which they were
   * received.
   *
   * @param filter The choice of events; those that are not dead are not changed.
   * @param options A callback for the progress, and a signal that ends the operation.
   * @returns The number of events put back.
   */
  replayAll(filter: EventFilter, options?: BulkOptions): Promise<BulkResult>;

  /**
   * Cancels a queued or running event: it never becomes done. A queued one is dead at once. A running
   * one is flagged: its handler's signal is aborted, here at once and in another process at the lease's
   * next renewal. It is dead once that handler has ended, whatever it returned, or its lease has expired;
   * the next event of its ordering group waits until then.
   *
   * @param id The event's id.
   * @returns True if it is cancelled; false if there is no such event, or it is settled already.
   */
  cancel(id: string): Promise<boolean>;

  /**
   * Cancels queued and running events, as {@linkcode EventOperations.cancel} does. Those that were cancelled
   * before, and still run, are not counted again.
   *
   * @param filter The choice of events; those that are settled are not changed.
   * @param options A callback for the progress, and a signal that ends the operation.
   * @returns The number of events cancelled.
   */
  cancelAll(filter: EventFilter, options?: BulkOptions): Promise<BulkResult>;

  /**
   * Deletes events that are done or dead. A delivery of theirs that is sent again makes a new event.
   * Unreadable ones are deleted only if the filter has the state `unreadable`: another version may be
   * able to read them, and they may wait to be handled.
   *
   * @param filter The choice of events; those that are queued or running are not deleted.
   * @param options A callback for the progress, and a signal that ends the operation.
   * @returns The number of events deleted.
   */
  purge(filter: EventFilter, options?: BulkOptions): Promise<BulkResult>;
}
