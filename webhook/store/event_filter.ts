import type { EventState } from "./event_record.ts";

/** Which events are meant: those that all given conditions hold for. */
export interface EventFilter {
  /** Events in this state. */
  readonly state?: EventState | undefined;
  /** Events of this type. */
  readonly type?: string | undefined;
  /** Events received at this time or later, milliseconds since the epoch. */
  readonly receivedAfter?: number | undefined;
  /** Events received before this time, milliseconds since the epoch. */
  readonly receivedBefore?: number | undefined;
}

/** How many events there are of each state. */
export interface EventStats extends Readonly<Record<EventState, number>> {
  /** When the oldest event that waits was received, milliseconds since the epoch; null without one. */
  readonly oldestWaitingAt: number | null;
}
