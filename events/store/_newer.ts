/**
 * Newer events of an ordering group, while the handler of the first one runs.
 *
 * The events behind the first one of a group are stored, so nothing has to be noted when one has joined: the change that
 * ends the run finds them. To tell the handler is only a hint. The workers of this process get it with the commit
 * (`tellNewer`), and those of others look at the group once a second (`interruptedBy`). If the handler ends by that, its
 * event is queued without its batch (`interrupted()` in `settlement.ts`), and the next claim makes one of all that wait.
 *
 * A handler that takes newer events itself has its batch grow: the record of the first event notes the new last position
 * before the handler gets them, so a later attempt gets them as well, and they are settled with it.
 *
 * @module
 */
import { joinedSince, membersOf } from "./_batches.ts";
import { applyChange, settle } from "./_settlement.ts";
import { dropResults } from "./_steps.ts";
import { batched } from "./arrival.ts";
import { type Stored, TooLargeError } from "./engine.ts";
import type { EventStore } from "./event_store.ts";
import { canBeInterrupted, inBrief, interrupted, isCancelRequested } from "./settlement.ts";
import type { StoreCore } from "./store_core.ts";

const TAKING = "take newer events";

/** Makes the operations on leased events that hear of newer ones. */
export function newerOperations(core: StoreCore) {
  return {
    async interruptedBy({ record }, handlersOf) {
      if (!canBeInterrupted(record)) return null;
      const { newer = [] } = await joinedSince(core.engine, record, handlersOf) ?? {};
      return newer.findLast(({ interrupts }) => interrupts)?.id ?? null;
    },

    async interrupt(lease, by) {
      const after = interrupted(lease.record, by, core.engine.now());
      const cells = await dropResults(core, lease, after);
      try {
        return (await applyChange(core, lease, after, { cells })).ok;
      } catch (error) {
        if (!(error instanceof TooLargeError)) throw error;
        return (await applyChange(core, lease, inBrief(after), { cells })).ok;
      }
    },

    async takeNewer(lease, handlersOf) {
      const { record } = lease;
      if (isCancelRequested(record)) throw new Error(`Cannot ${TAKING}: the event was cancelled`);
      const found = record.group ? await joinedSince(core.engine, record, handlersOf) : undefined;
      if (!found) return { lease, newer: [] };
      const taken = await settle(core, lease, batched(record, found.batch));
      if (!taken) return null;
      // Read anew: one that was cancelled before this change is not among them.
      const members = await membersOf(core.engine, taken.record);
      const last = record.batch?.last ?? record.group!.position;
      return { lease: taken, newer: members.filter(({ group }) => group!.position > last) };
    },
  } satisfies Partial<EventStore>;
}

/** Tells the workers of this process of an event that has joined its group, if it interrupts the one that runs. */
export function tellNewer({ listeners }: StoreCore, joined: Stored | null | undefined): void {
  if (!joined?.record.interrupts) return;
  const { group, dueAt } = joined.record;
  if (!group || dueAt !== null) return;
  for (const listener of listeners) listener.onNewer?.(group.key);
}
