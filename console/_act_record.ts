import { isCount, isText, isTime, orNone, shape } from "../events/store/record_shape.ts";
import type { ConsoleRecordKey, NewConsoleRecord } from "../events/store/kv/console_records.ts";
import type { Act, DeliveryQuery } from "./_console_data.ts";

/** Time for which a record is kept. */
const KEPT_MS = 90 * 86_400_000;

/** Time without a sign of life, which an act gives each second, after which it counts as interrupted. */
const INTERRUPTED_MS = 10_000;

/** Longest texts that are kept. */
export const MAX_TEXT_LENGTH = 600;

/** Kept record of an act. */
interface ActRecord extends Act {
  /** Version of this layout. */
  readonly v: 1;
  /** Time of the latest sign of life, milliseconds since the epoch. */
  readonly aliveAt: number;
}

const STATES: readonly unknown[] = ["queued", "running", "parked", "done", "dead", "unreadable"];

const ACT_STATES: readonly unknown[] = ["running", "finished", "failed", "interrupted", "stopped"];

const isQuery = shape({
  state: orNone((value) => STATES.includes(value)),
  type: orNone(isText),
  source: orNone(isText),
  place: orNone(isText),
  group: orNone(isText),
  from: orNone(isTime),
  before: orNone(isTime),
});

const isActShape = shape({
  v: (value) => value === 1,
  id: isText,
  kind: (value) => value === "replay" || value === "cancel" || value === "purge",
  at: isTime,
  aliveAt: isTime,
  by: isText,
  eventId: orNone(isText),
  about: orNone(isText),
  query: orNone(isQuery),
  changed: isCount,
  batch: orNone(isCount),
  underway: orNone(isCount),
  notKept: orNone(isCount),
  seen: isCount,
  state: (value) => ACT_STATES.includes(value),
  stoppedBy: orNone(isText),
  error: orNone(isText),
});

/**
 * Makes the id of an act, with the question that asks for it. It begins with the time of the question: what an
 * act may change depends on it, and an act is done once, however often the answer is sent.
 */
export const newActId = (askedAt: number = Date.now()): string =>
  `${askedAt.toString(36)}-${crypto.randomUUID().slice(0, 8)}`;

/** Reads the time of the question from the id of an act; undefined if it is none. */
export function askedAtOf(id: string): number | undefined {
  const [, at] = /^([0-9a-z]{1,9})-[0-9a-f]{8}$/.exec(id) ?? [];
  return at === undefined ? undefined : parseInt(at, 36);
}

/** Finds the place of an act by its id; undefined if it is none. */
export function keyOfAct(id: string): ConsoleRecordKey | undefined {
  const number = askedAtOf(id);
  return number === undefined ? undefined : { kind: "act", number, id };
}

/** Time for which the wish to stop an act is kept. */
const STOP_KEPT_MS = 86_400_000;

/** Makes the place of the wish to stop an act. */
export function keyOfStop(act: ConsoleRecordKey): ConsoleRecordKey {
  return { ...act, kind: "stop" };
}

/** Makes the record of the wish to stop an act. */
export function recordOfStop(act: ConsoleRecordKey, by: string): NewConsoleRecord {
  return { ...keyOfStop(act), value: { v: 1, by: boundedText(by) }, expireIn: STOP_KEPT_MS };
}

/** Reads who wishes to stop an act; undefined if nobody does. */
export function stoppedBy(value: unknown): string | undefined {
  return isStopShape(value) ? (value as { readonly by: string }).by : undefined;
}

const isStopShape = shape({ v: (value) => value === 1, by: isText });

/** Makes the record of an act that is alive. */
export function recordOfAct(act: Act): NewConsoleRecord {
  const value: ActRecord = { v: 1, ...act, aliveAt: Date.now() };
  return { ...keyOfAct(act.id)!, value, expireIn: KEPT_MS };
}

/** Reads a record; null if it is of another version, or damaged. */
export function actOf(value: unknown, { id, number }: ConsoleRecordKey): Act | null {
  if (!isActShape(value)) return null;
  const { v: _, aliveAt, ...act } = value as ActRecord;
  if (act.id !== id || askedAtOf(id) !== number) return null;
  const isSilent = Date.now() - aliveAt > INTERRUPTED_MS;
  return act.state === "running" && isSilent ? { ...act, state: "interrupted" } : act;
}

/** Bounds the texts of a choice of deliveries. */
export function boundedQuery(query: DeliveryQuery): DeliveryQuery {
  const { state, type, source, place, group, from, before } = query;
  const texts = Object.entries({ type, source, place, group })
    .flatMap(([name, text]) => text === undefined ? [] : [[name, boundedText(text)]]);
  return {
    ...(state !== undefined && { state }),
    ...Object.fromEntries(texts),
    ...(from !== undefined && { from }),
    ...(before !== undefined && { before }),
  };
}

/** Bounds a text. */
export const boundedText = (text: string): string => text.slice(0, MAX_TEXT_LENGTH).toWellFormed();
