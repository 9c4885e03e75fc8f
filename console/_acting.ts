/**
 * Parts of acts that pages and programs share: asking what one would change, and doing it.
 *
 * @module
 */
import type { StoredEvent } from "../events/mod.ts";
import type { Act } from "./_act_record.ts";
import { FORGOTTEN_BY_PROGRAM_MS } from "./_act_steps.ts";
import { consequenceOf } from "./_consequences.ts";
import type { ConsoleData } from "./_console_data.ts";
import { found } from "./_found.ts";
import { eventsIn, recordOf } from "./_format.ts";
import { ParameterError, Refusal } from "./_http.ts";
import {
  actIdOf,
  type ActKind,
  type ActQuery,
  actQueryOf,
  askedAtOf,
  countedActId,
  eventIdOf,
  kindOf,
  kindsFor,
  newActId,
  numberOf,
} from "./_query.ts";
import { whyReplayWaits } from "./_strip.ts";
import { nameOfError } from "./_timeline.ts";

/** Longest time for which a program waits for a count, in milliseconds. */
const MAX_WAIT_MS = 10_000;

/** Most characters of an error that are kept with an act. */
const MAX_ERROR = 300;

/** Changes that an act would make, for a program that has asked. */
export interface DryRun {
  readonly dryRun: true;
  /** Id to do the act with, within an hour: it is done once. Undefined while it is counted, and if nothing would change. */
  readonly act?: string | undefined;
  readonly kind: ActKind;
  /** Choice that was understood, of an act on many. */
  readonly query?: ActQuery | undefined;
  /** Consequence that it would have, in words. */
  readonly would: string;
  /** Number of events that it would change: exact, unless there are more. */
  readonly count: number;
  /** True while it is being counted: ask again. */
  readonly isMore: boolean;
  /** Number of further events that match and cannot be replayed, since their payloads are not kept. */
  readonly notKept: number;
  /** Ids of the first events that it would change, at most 20. */
  readonly first: readonly string[];
  /** Reason for which it would change nothing, of an act on one event. */
  readonly why?: string | undefined;
  /** Reason for which what is replayed waits; undefined if it is handled at once. */
  readonly waits?: string | undefined;
}

/** Finds what an act would change. It begins nothing. */
export async function askAct(data: ConsoleData, parameters: URLSearchParams): Promise<DryRun> {
  const kind = kindOf(parameters);
  const id = eventIdOf(parameters);
  if (id !== undefined) return await askOne(data, kind, id);
  const query = actQueryOf(parameters, kind);
  const until = performance.now() + MAX_WAIT_MS;
  const look = (isPoll: boolean) =>
    data.actCounts.look(kind, query, isPoll, FORGOTTEN_BY_PROGRAM_MS);
  let counted = await look(false);
  while (counted.isMore && performance.now() < until) counted = await look(true);
  const { askedAt: _, ...known } = counted;
  const isOver = !known.isMore && known.count > 0;
  const act = isOver ? countedActId(kind, query, counted) : undefined;
  const would = consequenceOf(kind, query.state, "many");
  return {
    ...{ dryRun: true, act, kind, query, would, ...known },
    waits: await replayWaits(data, kind),
  };
}

/** Says why what is replayed waits, for the question before it; undefined if it is handled at once. */
export async function replayWaits(data: ConsoleData, kind: ActKind): Promise<string | undefined> {
  const health = kind === "replay" ? await data.health() : null;
  return health ? whyReplayWaits(health, Date.now()) : undefined;
}

async function askOne(data: ConsoleData, kind: ActKind, id: string): Promise<DryRun> {
  // Made before the event is read: what comes after that is not part of the answer.
  const actId = newActId();
  const { event } = await found(data, id);
  const why = await whyNot(data, kind, event);
  const would = consequenceOf(kind, event.state, "one");
  const none = { dryRun: true, kind, would, isMore: false, notKept: 0 } as const;
  if (why !== undefined) return { ...none, count: 0, first: [], why };
  const count = kind === "cancel" ? eventsIn(event) : 1;
  return { ...none, act: actId, count, first: [id], waits: await replayWaits(data, kind) };
}

/**
 * Does the act that a question has asked for, once: an act on one event is done then, and one on many has begun.
 *
 * @returns The act.
 * @throws {Refusal} If it is not the act of the question, or an act on one event that changes nothing.
 */
export async function doAct(
  data: ConsoleData,
  parameters: URLSearchParams,
  by: string,
): Promise<Act> {
  const [kind, id] = [kindOf(parameters), actIdOf(parameters)];
  const eventId = eventIdOf(parameters);
  const of = numberOf(parameters, "of");
  const query = eventId === undefined ? actQueryOf(parameters, kind) : undefined;
  if (query && !isCounted({ id, kind, query, of })) {
    throw new ParameterError(
      "'of' must be the number that was counted for this 'act' and this choice: ask with 'dryRun'",
    );
  }
  const act = query
    ? await data.acts.all({ id, kind, query, of, by, about: await errorOf(data, query) })
    : await data.acts.one({ id, kind, eventId: eventId!, by });
  data.stir();
  if (act.eventId !== eventId || act.kind !== kind || !isSame(act.query, query)) {
    throw new ParameterError("'act' must be the act of the question");
  }
  if (eventId !== undefined && act.changed === 0 && act.state === "finished") {
    const { event } = await found(data, eventId);
    const why = await whyNot(data, kind, event) ?? "Its state has changed meanwhile. Look again.";
    throw new Refusal(409, "Nothing was changed", why);
  }
  return act;
}

/** Reads the first line of an error of the problem that a choice is about; undefined if it is about none. */
export async function errorOf(
  data: ConsoleData,
  { problem: id }: ActQuery,
): Promise<string | undefined> {
  if (id === undefined) return undefined;
  const { problems: [problem] } = await data.problems({ id, max: 1, hours: 1 });
  if (problem === undefined) return undefined;
  const [line = ""] = problem.error.trimStart().split("\n", 1);
  return line.slice(0, MAX_ERROR);
}

/**
 * Takes out of an act whom it was in the name of, the key of a state, the text of an error, and a text that was looked for.
 */
export const hideAct = ({ as: _, about, query, ...act }: Act): Act => ({
  ...act,
  about: act.kind === "forget"
    ? "a state"
    : query && about !== undefined
    ? nameOfError(about)
    : about,
  query: query && { ...query, q: undefined },
});

/** Checks whether the events of an act were counted, and are as many as its sender has been told. */
function isCounted(
  { id, kind, query, of }: {
    readonly id: string;
    readonly kind: ActKind;
    readonly query: ActQuery;
    readonly of: number | undefined;
  },
): boolean {
  return of !== undefined &&
    countedActId(kind, query, { askedAt: askedAtOf(id)!, count: of }) === id;
}

/** Checks whether two choices are the same, one of which has been stored. */
function isSame(a: ActQuery | undefined, b: ActQuery | undefined): boolean {
  const known = ({ ...query }: Partial<ActQuery> = {}) =>
    JSON.stringify(Object.entries(query).filter(([, value]) => value !== undefined).sort());
  return known(a) === known(b);
}

/** Finds why an act on an event would change nothing; undefined if it would change it. */
export async function whyNot(
  data: ConsoleData,
  kind: ActKind,
  event: StoredEvent,
): Promise<string | undefined> {
  const { state } = event;
  if (!kindsFor(state).includes(kind)) {
    if (state === "unreadable") return "This version cannot read its record. It can be purged.";
    if (kind === "cancel") return "It has ended, so there is nothing to cancel.";
    return kind === "purge"
      ? "It has not ended. Cancel it first, or wait until it has ended."
      : "It has not ended, so it is handled without a replay.";
  }
  const record = recordOf(event);
  const needsPayload = record && kind === "replay" && state === "done";
  if (needsPayload && await data.payload(record) === null) {
    return "Its payload is not kept, so it cannot be handled again.";
  }
  return state === "running" && record?.cancelRequestedAt !== undefined
    ? "It has been cancelled before. Its handler has been told to stop, and has not ended yet."
    : undefined;
}
