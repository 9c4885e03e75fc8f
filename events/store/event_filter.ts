import type { StoredEvent } from "./stored_event.ts";

/**
 * Which events are meant: those that all given conditions hold for. Of an event whose record cannot be
 * read the type is not known, and none is ever its own.
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

/** How many events there are of each state. */
export interface EventStats extends Readonly<Record<StoredEvent["state"], number>> {
  /** When the oldest event that waits was received, milliseconds since the epoch; null without one. */
  readonly oldestWaitingAt: number | null;
}
