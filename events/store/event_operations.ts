import type { BulkOptions, BulkResult } from "./bulk_options.ts";
import type { EventFilter, EventStats } from "./event_filter.ts";
import type { EventRecord, EventState } from "./event_record.ts";
import type { StoredEvent } from "./stored_event.ts";

/**
 * What somebody who operates a store can do, also while apps use it. Each change is one commit, of one
 * event or of several, so whatever ends the work leaves no event between two states.
 */
export interface EventOperations {
  /**
   * Reads an event's record.
   *
   * @param id The event's id.
   * @returns The record; null if there is none.
   * @throws {Error} If this version cannot read it. `list` tells so as well, and does not throw.
   */
  get(id: string): Promise<EventRecord | null>;

  /**
   * Looks through the events of a state.
   *
   * @param filter Which are meant.
   * @returns The records, in the order received.
   */
  list(filter: EventFilter & { readonly state: EventState }): AsyncIterable<EventRecord>;

  /**
   * Looks through all events, those that are unreadable among them.
   *
   * @param filter Which are meant.
   * @returns The records, in the order received.
   */
  list(filter?: EventFilter): AsyncIterable<StoredEvent>;

  /**
   * Counts events.
   *
   * @param filter Which are meant; all by default.
   * @param options Who is told how far it has come.
   * @returns How many there are of each state.
   */
  stats(filter?: EventFilter, options?: Pick<BulkOptions, "onProgress">): Promise<EventStats>;

  /**
   * Puts a dead event back, to be handled as if it had just been received.
   *
   * @param id The event's id.
   * @returns Whether it was put back; false if there is no such event, or it is not dead.
   */
  replay(id: string): Promise<boolean>;

  /**
   * Puts dead events back. Those of one ordering key are handled in the order in which they were
   * received.
   *
   * @param filter Which are meant; those that are not dead are left alone.
   * @param options Who is told how far it has come, and what ends it.
   * @returns How many were put back.
   */
  replayAll(filter: EventFilter, options?: BulkOptions): Promise<BulkResult>;

  /**
   * Gives an event up that waits or runs. The signal of its handler is aborted at the lease's next
   * renewal, and the handler settles nothing any more.
   *
   * @param id The event's id.
   * @returns Whether it was given up; false if there is no such event, or it is settled already.
   */
  cancel(id: string): Promise<boolean>;

  /**
   * Gives events up that wait or run.
   *
   * @param filter Which are meant; those that are settled are left alone.
   * @param options Who is told how far it has come, and what ends it.
   * @returns How many were given up.
   */
  cancelAll(filter: EventFilter, options?: BulkOptions): Promise<BulkResult>;

  /**
   * Deletes events that are done or dead. A delivery of theirs that is sent again makes a new event.
   * Unreadable ones are deleted only if the filter has the state `unreadable`: another version may be
   * able to read them, and they may wait to be handled. One that was cancelled while it ran is left until
   * its lease would have ended: its handler may run until then.
   *
   * @param filter Which are meant; those that wait or run are left alone.
   * @param options Who is told how far it has come, and what ends it.
   * @returns How many were deleted.
   */
  purge(filter: EventFilter, options?: BulkOptions): Promise<BulkResult>;
}
