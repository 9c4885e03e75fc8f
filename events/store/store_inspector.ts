/**
 * Cheap counts of a store, and the surroundings of an event, for the console and the tool.
 *
 * @module
 */
import type { BoundedCount, Counts } from "./engine.ts";
import type { EventRecord, StoredEvent } from "./event_record.ts";

/**
 * View into a store, for pages and tools that must answer soon.
 *
 * @category Event store and worker
 */
export interface StoreInspector {
  /**
   * Counts the events that are open or dead, by the indexes that lead to them.
   *
   * @param max The largest number that is counted, of the events of a state and of the entries read.
   * @param signal Ends the counting.
   * @returns The numbers, and the time since which the longest-waiting due event has been due.
   */
  count(max: number, signal?: AbortSignal): Promise<Counts>;

  /**
   * Counts the events before another one in its ordering group.
   *
   * @param event The record of the other one.
   * @param max The largest number that is counted.
   * @returns The number; undefined if the other one does not wait in a group.
   */
  countBefore(event: EventRecord, max: number): Promise<BoundedCount | undefined>;

  /**
   * Reads the first event of the ordering group in which another one waits.
   *
   * @param event The record of the other one.
   * @returns The record; undefined if the other one does not wait, or it cannot be read.
   */
  firstBefore(event: EventRecord): Promise<EventRecord | undefined>;

  /**
   * Finds the events that an event has emitted with generated ids.
   *
   * @param event The record of the event.
   * @param max The largest number of them.
   * @returns Their ids, in the order in which they were emitted.
   */
  emittedBy(event: EventRecord, max: number): Promise<string[]>;

  /**
   * Finds the events with a delivery id, as the sender's pages show it.
   *
   * @param deliveryId The delivery id.
   * @returns The ids of the events.
   */
  withDeliveryId(deliveryId: string): Promise<string[]>;

  /**
   * Finds which of some events are done and have kept payloads.
   *
   * @param events The events.
   * @returns The ids of those that have.
   */
  keptAmong(events: readonly StoredEvent[]): Promise<ReadonlySet<string>>;
}
