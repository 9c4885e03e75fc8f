import { askedAtOf } from "./_act_record.ts";
import type { ActKind, DeliveryQuery, Period } from "./_console_data.ts";
import type { StoredEvent } from "../events/mod.ts";

/** Parameter that has a value it may not have. The message never has the value. */
export class ParameterError extends Error {
  /** Name of the class. */
  override readonly name = "ParameterError";
}

/** Parameters of a page or a form. */
export type Parameters = Pick<URLSearchParams, "getAll">;

/** Longest value of each text. An event's id has at most 600 bytes. */
const MAX_LENGTHS = { type: 100, source: 100, place: 300, group: 600, id: 1_000, cursor: 2_000 };

const STATES = ["queued", "running", "parked", "done", "dead", "unreadable"] as const;

const KINDS = ["replay", "cancel", "purge"] as const;

// deno-lint-ignore no-control-regex -- it finds control characters
const CONTROLS = /[\u0000-\u001f\u007f]/;

/** Parameters with texts of stored events, which are taken as they are. */
const AS_STORED: ReadonlySet<string> = new Set(["place", "group", "id"]);

/** Reads a parameter that may be given once. A blank one, of an empty field, is not given. */
function one(parameters: Parameters, name: string): string | undefined {
  const values = parameters.getAll(name);
  if (values.length > 1) throw new ParameterError(`'${name}' is given more than once`);
  const trimmed = values[0]?.trim() || undefined;
  return trimmed !== undefined && AS_STORED.has(name) ? values[0] : trimmed;
}

/**
 * Reads a parameter that must be one of a few words.
 *
 * @throws {ParameterError} If it is something else.
 */
export function word<TWord extends string>(
  parameters: Parameters,
  name: string,
  words: readonly TWord[],
): TWord | undefined {
  const value = one(parameters, name);
  if (value === undefined || words.includes(value as TWord)) return value as TWord | undefined;
  throw new ParameterError(`'${name}' must be one of ${words.join(", ")}`);
}

/**
 * Reads a text.
 *
 * @throws {ParameterError} If it is too long, or has control characters.
 */
export function text(
  parameters: Parameters,
  name: keyof typeof MAX_LENGTHS,
): string | undefined {
  const value = one(parameters, name);
  const max = MAX_LENGTHS[name];
  const isFit = (each: string) => AS_STORED.has(name) || !CONTROLS.test(each);
  if (value === undefined || (value.length <= max && isFit(value))) return value;
  throw new ParameterError(`'${name}' must have at most ${max} characters, all of them printable`);
}

/** Time as a form writes it, in UTC, or with a zone; or milliseconds since the epoch. */
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?Z?$/;

/**
 * Reads a time.
 *
 * @throws {ParameterError} If it is none.
 */
export function timeOf(parameters: Parameters, name: string): number | undefined {
  const value = one(parameters, name);
  if (value === undefined) return undefined;
  if (/^\d{1,14}$/.test(value)) return Number(value);
  const at = TIME.test(value) ? Date.parse(value.endsWith("Z") ? value : `${value}Z`) : NaN;
  // The 31st of February would be the 3rd of March.
  const isDay = !Number.isNaN(at) && new Date(at).toISOString().slice(0, 10) === value.slice(0, 10);
  if (isDay) return at;
  throw new ParameterError(`'${name}' must be a time such as 2026-01-31T14:03, in UTC`);
}

/** Reads the period of the charts. */
export const periodOf = (parameters: Parameters): Period =>
  word(parameters, "period", ["hour", "day"]) ?? "hour";

/** Reads the kind of an act. */
export function kindOf(parameters: Parameters): ActKind {
  const kind = word(parameters, "kind", KINDS);
  if (kind === undefined) throw new ParameterError(`'kind' must be one of ${KINDS.join(", ")}`);
  return kind;
}

/** Longest time from a question to its answer, and how far the clock of another instance may be ahead. */
const MAX_ANSWER_MS = 3_600_000;
const MAX_AHEAD_MS = 60_000;

/**
 * Reads the id of an act, which its question has made; undefined if there is none.
 *
 * @throws {ParameterError} If it is none, or the question is too old.
 */
export function actIdOf(parameters: Parameters): string | undefined {
  const id = one(parameters, "act");
  if (id === undefined) return undefined;
  const age = Date.now() - (askedAtOf(id) ?? NaN);
  if (age >= -MAX_AHEAD_MS && age <= MAX_ANSWER_MS) return id;
  throw new ParameterError("'act' must be of a question of the last hour: ask again");
}

/** Reads a choice of deliveries. */
export function queryOf(parameters: Parameters): DeliveryQuery {
  const [from, before] = [timeOf(parameters, "from"), timeOf(parameters, "before")];
  if (from !== undefined && before !== undefined && from > before) {
    throw new ParameterError("'from' must not be later than 'before'");
  }
  return {
    state: word<StoredEvent["state"]>(parameters, "state", STATES),
    type: text(parameters, "type"),
    source: text(parameters, "source"),
    // No name of a repository and no id of a chat has blanks around it, but a copied one may.
    place: text(parameters, "place")?.trim(),
    group: text(parameters, "group"),
    ...{ from, before },
  };
}

/** Kinds of acts that the state of an event allows. */
const ALLOWED: Readonly<Record<StoredEvent["state"], readonly ActKind[]>> = {
  ...{ queued: ["cancel"], running: ["cancel"], parked: ["cancel"] },
  ...{ done: ["replay", "purge"], dead: ["replay", "purge"], unreadable: ["purge"] },
};

/** Lists the kinds of acts that a state allows; none for deliveries of any state. */
export const kindsFor = (state: StoredEvent["state"] | undefined): readonly ActKind[] =>
  state === undefined ? [] : ALLOWED[state] ?? [];
