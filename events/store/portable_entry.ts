/**
 * Entries that a store has beside its events, on their way to another store: states, values that names were
 * woken with before any event waited, and notes of schedules. Each is a line of text, as events are.
 *
 * @module
 */
import { met } from "../../core/check_options.ts";
import { escaped } from "./portable_event.ts";
import { isText, isTime, orNone, shape } from "./record_shape.ts";
import { checkState } from "./stored_state.ts";
import { wakeOf } from "./waits.ts";

/**
 * A state on its way from one store to another.
 *
 * @category Moving events
 */
export interface PortableState {
  /** The kind of entry. */
  readonly kind: "state";
  /** The intake that it belongs to; undefined for none. */
  readonly intake?: string | undefined;
  /** The key. */
  readonly key: string;
  /** The value. */
  readonly value: unknown;
  /** The time at which it is forgotten, milliseconds since the epoch; undefined if it stays. */
  readonly expiresAt?: number | undefined;
}

/**
 * A value that a name was woken with before any event waited for it.
 *
 * @category Moving events
 */
export interface PortableAnswer {
  /** The kind of entry. */
  readonly kind: "answer";
  /** The name. */
  readonly name: string;
  /** The time at which it was woken, milliseconds since the epoch. */
  readonly at: number;
  /** The value; undefined for none. */
  readonly value?: unknown;
}

/**
 * The note of a schedule, which says up to which time its slots are made.
 *
 * @category Moving events
 */
export interface PortableSchedule {
  /** The kind of entry. */
  readonly kind: "schedule";
  /** The name of the schedule. */
  readonly name: string;
  /** The expression and the time zone that the slots are of. */
  readonly plan: string;
  /** The time up to which all slots are made, milliseconds since the epoch. */
  readonly at: number;
}

/**
 * An entry beside the events, on its way from one store to another.
 *
 * @category Moving events
 */
export type PortableEntry = PortableState | PortableAnswer | PortableSchedule;

/**
 * An entry that this version cannot read.
 *
 * @category Moving events
 */
export interface UnreadableEntry {
  /** The kind of entry. */
  readonly kind: "unreadable";
  /** Its name, for people: `the state "chat:1"`. */
  readonly name: string;
}

/** The version of the format. */
const VERSION = 1;

/** The beginning of the formats of lines. */
const FORMAT = "edge-base.";

/** The longest name and plan of a schedule: a cron expression is much shorter. */
const MAX_LENGTH = 600;

const isState = shape({ intake: orNone(isText), key: isText, expiresAt: orNone(isTime) });
const isAnswer = shape({ name: isText, at: isTime });
const isSchedule = shape({ name: isText, plan: isText, at: isTime });

const SHAPES = { state: isState, answer: isAnswer, schedule: isSchedule };

/** Members of a line that are not the entry's own. */
const MEMBERS = ["format", "version"];

/**
 * Writes an entry as a line.
 *
 * @param entry The entry.
 * @returns The line, without a line break. No terminal acts on it.
 */
export function lineOfEntry({ kind, ...entry }: PortableEntry): string {
  return escaped(JSON.stringify({ format: `${FORMAT}${kind}`, version: VERSION, ...entry }));
}

/**
 * Reads an entry from its line.
 *
 * @param line The line.
 * @returns The entry; undefined if it is the line of an event, or no line of an export.
 * @throws {TypeError} If the entry is not valid, or of a newer format.
 */
export function entryOfLine(line: string): PortableEntry | undefined {
  const members = parsed(line);
  const kind = kindOf(members);
  if (!kind) return undefined;
  const { version } = members;
  if (version !== VERSION) {
    throw refusal(
      kind,
      `the line must be of format version ${VERSION}, got ${met(version)}` +
        (Number(version) > VERSION ? ". A newer version of this package reads it" : ""),
    );
  }
  const entry: Record<string, unknown> = { ...members, kind };
  for (const name of MEMBERS) delete entry[name];
  return checkedEntry(entry as unknown as PortableEntry);
}

/**
 * Checks an entry, which may come from anywhere.
 *
 * @param entry The entry.
 * @returns The entry.
 * @throws {TypeError} If it is none that a store of this version can take. The message says why.
 */
export function checkedEntry(entry: PortableEntry): PortableEntry {
  const { kind } = Object(entry);
  if (!Object.hasOwn(SHAPES, kind)) {
    throw refusal("entry", `its kind must be state, answer or schedule, got ${met(kind)}`);
  }
  if (!SHAPES[kind as PortableEntry["kind"]](entry)) {
    throw refusal(kind, "a member is missing, or has the wrong type");
  }
  try {
    if (entry.kind === "state") checkState(entry.key, { intake: entry.intake });
    if (entry.kind === "answer") wakeOf(entry.name, entry.value);
  } catch (error) {
    throw refusal(kind, (error as Error).message);
  }
  if (entry.kind === "state" && entry.value === undefined) throw refusal(kind, "it has no value");
  if (entry.kind === "schedule") {
    if (!entry.name.isWellFormed()) throw refusal(kind, `its 'name' is not well-formed`);
    for (const name of ["name", "plan"] as const) {
      const { length } = entry[name];
      if (length >= 1 && length <= MAX_LENGTH) continue;
      throw refusal(kind, `its '${name}' must have 1 to ${MAX_LENGTH} characters, got ${length}`);
    }
  }
  return entry;
}

function kindOf({ format }: Record<string, unknown>): PortableEntry["kind"] | undefined {
  if (typeof format !== "string" || !format.startsWith(FORMAT)) return undefined;
  const kind = format.slice(FORMAT.length);
  return Object.hasOwn(SHAPES, kind) ? kind as PortableEntry["kind"] : undefined;
}

function parsed(line: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(line));
  } catch {
    return {};
  }
}

function refusal(kind: string, reason: string): TypeError {
  return new TypeError(`Cannot restore the ${kind}: ${reason}`);
}
