/**
 * Handlers that were told to end and have not: they hold their places.
 *
 * @module
 */
import { html } from "@hono/hono/html";
import type { EventRecord } from "../events/mod.ts";
import type { EventStore, ProcessNote } from "../events/store/mod.ts";
import { isLeaseOver, straysOf } from "../watch/health.ts";
import { type Html, shown, time } from "./_format.ts";

/** Words around the time at which a handler was told to end, by the reason. */
const TOLD = {
  cancelled: ["Cancelled at ", ". Its handler has not returned since."],
  lease_lost: [
    "Its process has lost it. Its handler was told to stop at ",
    ", and has not returned since.",
  ],
} as const;

/** Handler that was told to end and has not returned since. */
export interface Hung {
  /** Id of the event. */
  readonly id: string;
  /** Time at which it was told, milliseconds since the epoch. */
  readonly since: number;
  /** Reason: the event was cancelled, or its process has lost the lease, so that others may have it. */
  readonly why: "cancelled" | "lease_lost";
  /** Process that it runs in: the name of its machine and its number there, or else its id. */
  readonly process: string;
  /** False if its time limit is over: the next event has its place. */
  readonly holdsPlace: boolean;
  /** All of that in words. */
  readonly text: string;
}

/** Process that handlers run in, as far as it is known. */
type Runner = Pick<ProcessNote, "id" | "name" | "overdue">;

/** Finds the handler of an event that was cancelled while it ran; undefined if it does not run, or its process is gone. */
export function hungOf(
  record: EventRecord,
  process: Runner | undefined,
  now: number,
): Hung | undefined {
  const { id, lease, cancelRequestedAt: since } = record;
  if (!lease || since === undefined || isLeaseOver(record, now)) return undefined;
  return hung({ id, since, why: "cancelled" }, process ?? { id: lease.owner });
}

/** Describes a handler whose process has lost the lease of its event. */
export const strayed = (handler: { readonly id: string; readonly since: number }, of: Runner) =>
  hung({ ...handler, why: "lease_lost" }, of);

function hung(
  told: Pick<Hung, "id" | "since" | "why">,
  { id, name, overdue = [] }: Runner,
): Hung {
  const known = {
    ...told,
    process: name ?? id.slice(0, 8),
    holdsPlace: !overdue.includes(told.id),
  };
  const [before, behind] = TOLD[told.why];
  const at = new Date(told.since).toISOString();
  return { ...known, text: `${before}${at}${behind} ${holdOf(known)}` };
}

/** Says what a handler still holds, and until when. */
export function holdOf({ process, holdsPlace }: Pick<Hung, "process" | "holdsPlace">): string {
  const end = `its process ${shown(process, 80)} is restarted`;
  return holdsPlace
    ? `It keeps its place until it returns, its time limit is over, or ${end}.`
    : `Its time limit is over, so the next event has its place. It goes on until it returns, or ${end}.`;
}

/** Shows what a handler still holds, and until when, perhaps behind a link to its event. */
export function hungLine(hung: Hung, event?: Html): Html {
  const [before, behind] = TOLD[hung.why];
  const at = time(hung.since, "short");
  const parts = [event ? [event, ": "] : [], before, at, behind, " ", holdOf(hung)];
  return html`<div>${parts}</div>`;
}

type Note = Awaited<ReturnType<EventStore["processes"]>>[number];

/** Lists the handlers of processes that run on without a lease of their event, and hold places. */
export function straysIn(
  notes: readonly Note[],
  ownerOf: (id: string) => string | undefined,
  now: number,
): Hung[] {
  return notes.flatMap((note) => straysOf(note, ownerOf, now).map((each) => strayed(each, note)));
}

/** Finds the handler of an event that was told to end and has not, by the notes of the processes. */
export function hungIn(
  record: EventRecord,
  notes: readonly Note[],
  now: number,
): Hung | undefined {
  const { id, lease } = record;
  const owner = notes.find((note) => note.id === lease?.owner);
  const known = owner && !("isUnreadable" in owner) ? owner : undefined;
  return hungOf(record, known, now) ??
    straysIn(notes, () => lease?.owner, now).find((each) => each.id === id);
}
