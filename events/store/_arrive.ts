import type { StoreCore } from "./_core.ts";
import type { LocalHandOff } from "./_local_hand_off.ts";
import { rememberedMs } from "./_retention.ts";
import { cutKey, inIntake } from "./arrival.ts";
import { joined } from "./claims.ts";
import type { Applied, Change, Moment, Put } from "./engine.ts";
import type { EventRecord } from "./event_record.ts";

/** An event that comes in, or comes back. */
export interface Arriving extends Pick<Put, "before" | "body" | "keeps"> {
  /** Its record, outside of its ordering group. */
  readonly record: EventRecord;
  /** The key of the group whose end it joins; null for none. */
  readonly orderingKey: string | null;
}

/** The rest of the change, beside the event. */
type Beside = Pick<Change, "cells" | "sums" | "drops" | "urgency" | "turn">;

/**
 * Stores an event that comes in, or comes back, in the group of its ordering key if it has one. Workers are woken if it
 * is due and not handed off.
 *
 * @param core The store.
 * @param event The event.
 * @param beside What the change holds beside it.
 * @param handOff The way to the local worker; undefined if it is not handed off.
 * @returns The outcome.
 * @throws {Error} If its payload was uploaded, and has been deleted since.
 */
export async function arrive(
  core: StoreCore,
  { before, body, keeps, record, orderingKey }: Arriving,
  { cells, sums, drops, urgency, turn }: Beside,
  handOff?: LocalHandOff,
): Promise<Applied> {
  const { engine, local } = core;
  const key = orderingKey === null ? null : cutKey(orderingKey);
  const after = (at: Moment) => {
    const placed = key === null ? record : joined(record, key, at.group!, at.isFirst!);
    const made = handOff ? handOff.recordOf(placed, at.now) : placed;
    const { dueAt } = made;
    change.announce = dueAt !== null && dueAt <= at.now;
    return made;
  };
  const joins = key === null ? undefined : inIntake(record.intake, key);
  const change: Change & { announce: boolean } = {
    puts: [{ before, after, body, keeps, forMs: rememberedMs(core, record), joins }],
    cells,
    sums,
    drops,
    urgency,
    announce: false,
    turn,
  };
  try {
    const applied = await engine.apply(change);
    handOff?.end(applied.ok ? applied.written[0] : null);
    if (applied.ok && change.announce) local.listener?.wake();
    if (applied.ok || applied.why !== "payload") return applied;
  } catch (error) {
    handOff?.fail(error);
    throw error;
  }
  throw new Error("Cannot store the event: its payload took too long, and was deleted");
}
