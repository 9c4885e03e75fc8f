/**
 * Parameters of the console's pages and forms: what they may be, and how they are read.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { MAX_ID_LENGTH, STORED_STATES, type StoredEvent } from "../events/store/event_record.ts";
import { isProblemId } from "../events/store/problem.ts";
import { ParameterError } from "./_http.ts";

/** State of a stored event. */
export type State = StoredEvent["state"];

/** Choice of deliveries. All conditions that are given must hold. */
export interface DeliveryQuery {
  /** State. */
  readonly state?: State | undefined;
  /** Type of event. */
  readonly type?: string | undefined;
  /** Name of the source: of a platform, or one of the app. */
  readonly source?: string | undefined;
  /** Full name of the repository, or id of the chat. */
  readonly place?: string | undefined;
  /** Ordering key. */
  readonly group?: string | undefined;
  /** Id of the problem by which they have failed. */
  readonly problem?: string | undefined;
  /** Text in what names an event, says what it is about, or how it went. */
  readonly q?: string | undefined;
  /** Text in what names an event alone: for readers from whom the rest is hidden. */
  readonly name?: string | undefined;
  /** Earliest time of receipt, milliseconds since the epoch. */
  readonly from?: number | undefined;
  /** Time of receipt before which they came. */
  readonly before?: number | undefined;
}

/** Names of a choice of deliveries. */
export const CHOICE = [
  ...["state", "type", "source", "place", "group", "problem", "from", "before", "q", "name"],
] as const;

/** Choice of deliveries for an act. */
export interface ActQuery extends DeliveryQuery {
  readonly state: State;
}

/** States of the events that an act can change, by its kind. */
const CHANGED = {
  replay: ["done", "dead"],
  cancel: ["queued", "running", "parked"],
  purge: ["done", "dead", "unreadable"],
} as const satisfies Record<string, readonly State[]>;

/** Kind of act. */
export type ActKind = keyof typeof CHANGED;

/** Kind of an act on one thing that has a form of its own. */
export type DeedKind = typeof DEEDS[number];

/** Kinds of these acts. */
export const DEEDS = ["wake", "answer", "repeat", "run", "pause", "resume", "forget"] as const;

/** Kinds of acts. */
export const KINDS = Object.keys(CHANGED) as readonly ActKind[];

/** Lists the kinds of acts that a state allows; none for deliveries of any state. */
export const kindsFor = (state: State | undefined): readonly ActKind[] =>
  KINDS.filter((kind) => (CHANGED[kind] as readonly unknown[]).includes(state));

/** Longest value of each text. */
export const MAX_LENGTHS = {
  ...{ type: 100, source: 100, place: 300, group: 600, id: MAX_ID_LENGTH, cursor: 2_000 },
  problem: 40,
  ...{ q: MAX_ID_LENGTH, name: MAX_ID_LENGTH },
  ...{ schedule: 100, step: 1_000, prefix: 256, intake: 256, key: 256 },
};

// deno-lint-ignore no-control-regex -- it finds control characters
const CONTROLS = /[\u0000-\u001f\u007f]/;

/** Parameters with texts of stored events, which are taken as they are. */
const AS_STORED: ReadonlySet<string> = new Set([
  ...["place", "group", "id", "step", "prefix", "intake", "key"],
]);

/** Reads a parameter that may be given once. A blank one, of an empty field, is not given. */
function one(parameters: URLSearchParams, name: string): string | undefined {
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
  parameters: URLSearchParams,
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
  parameters: URLSearchParams,
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
 * @throws {ParameterError} If it is something else.
 */
export function timeOf(parameters: URLSearchParams, name: string): number | undefined {
  const value = one(parameters, name);
  if (value === undefined) return undefined;
  if (/^\d{1,14}$/.test(value)) return Number(value);
  const at = TIME.test(value) ? Date.parse(value.endsWith("Z") ? value : `${value}Z`) : NaN;
  // The 31st of February would be the 3rd of March.
  const isDay = !Number.isNaN(at) && new Date(at).toISOString().slice(0, 10) === value.slice(0, 10);
  if (isDay) return at;
  throw new ParameterError(`'${name}' must be a time such as 2026-01-31T14:03, in UTC`);
}

/**
 * Reads the id of a problem.
 *
 * @throws {ParameterError} If it is none.
 */
export function problemIn(
  parameters: URLSearchParams,
  name: "problem" | "id" = "problem",
): string | undefined {
  const id = text(parameters, name);
  if (id === undefined || isProblemId(id)) return id;
  throw new ParameterError(`'${name}' must be the id of a problem`);
}

/**
 * Reads a whole number, which may have separators.
 *
 * @throws {ParameterError} If it is something else.
 */
export function numberOf(parameters: URLSearchParams, name: string): number | undefined {
  const digits = one(parameters, name)?.replaceAll(/[,.'\s]/g, "");
  if (digits === undefined) return undefined;
  if (/^\d{1,15}$/.test(digits)) return Number(digits);
  throw new ParameterError(`'${name}' must be a whole number`);
}

/** Reads the kind of an act. */
export function kindOf(parameters: URLSearchParams): ActKind {
  const kind = word(parameters, "kind", KINDS);
  if (kind === undefined) throw new ParameterError(`'kind' must be one of ${KINDS.join(", ")}`);
  return kind;
}

/** Reads a choice of deliveries. */
export function queryOf(parameters: URLSearchParams): DeliveryQuery {
  const [from, before] = [timeOf(parameters, "from"), timeOf(parameters, "before")];
  if (from !== undefined && before !== undefined && from > before) {
    throw new ParameterError("'from' must not be later than 'before'");
  }
  return {
    state: word(parameters, "state", STORED_STATES),
    type: text(parameters, "type"),
    source: text(parameters, "source"),
    // No name of a repository and no id of a chat has blanks around it, but a copied one may.
    place: text(parameters, "place")?.trim(),
    group: text(parameters, "group"),
    problem: problemIn(parameters),
    ...{ q: text(parameters, "q"), name: text(parameters, "name"), from, before },
  };
}

/**
 * Reads the id of the one event that an act is about; undefined if it is about a choice.
 *
 * @throws {ParameterError} If there is an id and a choice: it would be done although the event does not match.
 */
export function eventIdOf(parameters: URLSearchParams): string | undefined {
  const id = text(parameters, "id");
  const others = CHOICE.filter((name) => parameters.get(name)?.trim());
  if (id === undefined || others.length === 0) return id;
  throw new ParameterError(`'id' is of one event: leave out ${others.join(", ")}`);
}

/**
 * Reads the choice of deliveries that an act is about.
 *
 * @throws {ParameterError} If it has no state, or one that does not allow the act.
 */
export function actQueryOf(parameters: URLSearchParams, kind: ActKind): ActQuery {
  const { state, ...query } = queryOf(parameters);
  if (state && kindsFor(state).includes(kind)) return { state, ...query };
  throw new ParameterError("'state' must be one that allows this act");
}

/** Longest time from a question to its answer, and how far the clock of another instance may be ahead. */
const MAX_ANSWER_MS = 3_600_000;
const MAX_AHEAD_MS = 60_000;

/**
 * Makes the id of an act, with the question that asks for it. It begins with the time of the question: what an
 * act may change depends on it, and an act is done once, however often the answer is sent.
 */
export const newActId = (askedAt: number = Date.now()): string =>
  `${askedAt.toString(36)}-${crypto.randomUUID().slice(0, 8)}`;

/**
 * Makes the id of an act on many, once its events are counted. It tells the time of the question as well, and which
 * choice and which number it was about: so every instance knows whether an answer has those.
 */
export function countedActId(
  kind: ActKind,
  query: ActQuery,
  { askedAt, count }: { readonly askedAt: number; readonly count: number },
): string {
  const counted = JSON.stringify([askedAt, kind, query, count]);
  const digest = createHash("sha256").update(counted).digest("hex").slice(0, 8);
  return `${askedAt.toString(36)}-${digest}`;
}

/** Reads the time of the question from the id of an act; undefined if it is none. */
export function askedAtOf(id: string): number | undefined {
  const [, at] = /^([0-9a-z]{1,9})-[0-9a-f]{8}$/.exec(id) ?? [];
  return at === undefined ? undefined : parseInt(at, 36);
}

/**
 * Reads the id of an act, which its question has made.
 *
 * @throws {ParameterError} If it is none, or the question is too old.
 */
export function actIdOf(parameters: URLSearchParams): string {
  const id = one(parameters, "act") ?? "";
  const age = Date.now() - (askedAtOf(id) ?? NaN);
  if (age >= -MAX_AHEAD_MS && age <= MAX_ANSWER_MS) return id;
  throw new ParameterError("'act' must be of a question of the last hour: ask again");
}
