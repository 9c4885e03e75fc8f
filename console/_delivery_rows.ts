import type { EventRecord, StoredEvent } from "../events/store/mod.ts";
import { recordOf, waitOf } from "./_format.ts";

/** Row of a delivery in a list, as plain data. Of what is hidden it has nothing. */
export interface DeliveryRow {
  /** Id of the event. */
  readonly id: string;
  /** State. All that follows is unknown of one that is unreadable, except for its time. */
  readonly state: StoredEvent["state"];
  /** Time of receipt, milliseconds since the epoch. */
  readonly receivedAt: number;
  readonly settledAt?: number | undefined;
  readonly outcome?: EventRecord["outcome"];
  readonly type?: string | undefined;
  readonly action?: string | undefined;
  readonly source?: string | undefined;
  /** Full name of the repository. */
  readonly repository?: string | undefined;
  /** Id of the chat. */
  readonly chat?: number | undefined;
  readonly sender?: EventRecord["sender"];
  /** Description. */
  readonly description?: string | undefined;
  /** Error of the last attempt that keeps it from being done. */
  readonly error?: string | undefined;
  /** Attempts begun. */
  readonly attempts?: number | undefined;
  /** Reason for which it waits, in words. */
  readonly waits?: string | undefined;
  readonly deliveryId?: string | undefined;
  readonly requestId?: string | undefined;
}

/**
 * Makes the row of a delivery.
 *
 * @param event The event.
 * @param hidesPayloads True if its description, its sender and its error are hidden.
 * @param now The time, milliseconds since the epoch.
 * @param isAnswered True if it is parked, and what it has waited for is there.
 * @returns The row.
 */
export function rowOf(
  event: StoredEvent,
  hidesPayloads: boolean,
  now: number,
  isAnswered = false,
): DeliveryRow {
  const { id, state, receivedAt } = event;
  const record = recordOf(event);
  if (!record) return { id, state, receivedAt };
  const { type, action, source, repository, chat, outcome, settledAt, attempt } = record;
  const { deliveryId, requestId, description, sender } = record;
  return {
    ...{ id, state, receivedAt, settledAt: settledAt ?? undefined, outcome, type, action, source },
    ...{ repository: repository?.fullName, chat: chat?.id, attempts: attempt, deliveryId },
    ...{ waits: waitOf(record, now, isAnswered), requestId: requestId ?? undefined },
    ...!hidesPayloads && { description, sender, error: lastError(record) },
  };
}

/** Finds the error that keeps an event from being done; undefined without one. */
function lastError({ state, attempts }: EventRecord): string | undefined {
  return state === "done" ? undefined : attempts.at(-1)?.error;
}
