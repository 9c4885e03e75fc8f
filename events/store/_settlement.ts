import { LocalHandOff } from "./_local_hand_off.ts";
import { movedUp } from "./arrival.ts";
import type { Applied, Change, Leave, LeavingMember, Put, Stored } from "./engine.ts";
import type { EventRecord } from "./event_record.ts";
import { settledWith } from "./settlement.ts";
import { rememberedMs, type StoreCore } from "./store_core.ts";

/** Has the next events of a group due once one has left its place. */
export const NEXT_IS_DUE: Leave = { head: movedUp };

/** The rest of a change, beside the event. */
export interface SettleOptions<TTx = unknown>
  extends
    Pick<Put, "keeps" | "via">,
    Pick<Leave, "member">,
    Pick<Change<TTx>, "cells" | "sums" | "moves" | "effects" | "unchanged" | "withinMs" | "turn"> {
  /** Events that are stored in the same change. */
  readonly puts?: readonly Put[] | undefined;
  /** Set if something else in the change makes an event due: all workers should be woken. */
  readonly announce?: boolean | undefined;
}

/**
 * Changes an event. If it leaves its ordering group by that, because it is settled or parked, those of its batch are
 * settled with it, and the next event of the group is due: the local worker takes it if it has room.
 *
 * @param core The store.
 * @param before The event.
 * @param after Its record after, as a transition made it.
 * @param options What else the change holds.
 * @returns The outcome.
 */
export function applyChange<TTx>(
  core: StoreCore<TTx>,
  before: Stored,
  after: EventRecord,
  options: SettleOptions<TTx> = {},
): Promise<Applied> {
  const isLeaving = before.record.group !== null && after.group === null;
  if (isLeaving) return applyLeaving(core, before, after, options);
  return core.engine.apply(changeOf(core, before, after, options));
}

/**
 * Changes an event, see {@linkcode applyChange}.
 *
 * @returns The event after; null if another change of it was faster, undefined if something else on which the change
 * depends has changed meanwhile.
 * @throws {Error} If its effects cannot be committed.
 */
export async function settle<TTx>(
  core: StoreCore<TTx>,
  before: Stored,
  after: EventRecord,
  options?: SettleOptions<TTx>,
): Promise<Stored | null | undefined> {
  const applied = await applyChange(core, before, after, options);
  if (applied.ok) return applied.written[0]!;
  if (applied.why === "effects") throw applied.error;
  return applied.why === "event" ? null : undefined;
}

async function applyLeaving<TTx>(
  core: StoreCore<TTx>,
  before: Stored,
  after: EventRecord,
  options: SettleOptions<TTx>,
): Promise<Applied> {
  const handOff = new LocalHandOff(core);
  let hasOthers = false;
  const leave: Leave = {
    through: before.record.batch?.last,
    member: options.member ?? ((record) => memberOf(core, settledWith(record, after))),
    head: (next, now, at) => {
      const moved = movedUp(next, now, at);
      // Of those before it some may wait for a worker: they come first.
      hasOthers ||= !at.isFirst && moved !== null;
      return moved && at.isFirst ? handOff.recordOf(moved, now) : moved;
    },
  };
  try {
    const applied = await core.engine.apply(changeOf(core, before, after, options, leave));
    handOff.end(applied.ok ? applied.head : null);
    if (applied.ok && hasOthers) core.local.listener?.wake();
    return applied;
  } catch (error) {
    handOff.fail(error);
    throw error;
  }
}

/** Counts an event that was cancelled outside of an attempt, with those of its batch. */
export function countCancelled({ local }: StoreCore, record: EventRecord): void {
  const { platform, intake, type, batch } = record;
  const count = batch?.events ?? 1;
  local.listener?.count?.({ is: "cancelled", platform, intake, type, count });
}

/** Makes what becomes of an event that leaves its group together with the first one. */
export function memberOf(core: StoreCore, after: EventRecord): LeavingMember {
  return { after, forMs: rememberedMs(core, after) };
}

function changeOf<TTx>(
  core: StoreCore<TTx>,
  before: Stored,
  after: EventRecord,
  options: SettleOptions<TTx>,
  leave?: Leave,
): Change<TTx> {
  const { keeps, via, puts, announce = false } = options;
  const forMs = rememberedMs(core, after);
  const put: Put = { before, after: () => after, keeps, forMs, via };
  return {
    puts: puts ? [put, ...puts] : [put],
    leave,
    cells: options.cells,
    sums: options.sums,
    moves: options.moves,
    unchanged: options.unchanged,
    effects: options.effects,
    urgency: "work",
    // Others wait for the group, so what leaves it waits for nobody.
    withinMs: leave ? 0 : options.withinMs,
    announce: announce || isGivenBack(before.record, after),
    turn: options.turn,
  };
}

/** Checks whether an event was running and is due again at once: another worker may take it. */
function isGivenBack(before: EventRecord, { state, delayMs }: EventRecord): boolean {
  return before.state === "running" && state === "queued" && delayMs === 0;
}
