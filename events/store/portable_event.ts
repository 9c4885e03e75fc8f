/**
 * Events on their way from one store to another, and what a store has beside them: states, values that names were
 * woken with before any event waited, and notes of schedules.
 *
 * Of an event its record is taken along as it is stored, with fields that this version does not know, but without
 * all that means something in its store only: the lease, the place of the payload, and the entries that lead to it.
 *
 * Each is exported as a line, a JSON object. The payload of an event is its last member, and the same byte for byte:
 *
 * - `payload`: as it is, if it is JSON on one line without characters that a terminal would act on.
 * - `payloadText`: as a JSON string, if it is other JSON.
 * - `payloadBase64`: any other bytes.
 *
 * @module
 */
import { met } from "../../core/check_options.ts";
import { memberOf } from "../../core/json_text.ts";
import { nonJsonPartOf } from "../../core/json_value.ts";
import { isPrintable, printable } from "../../core/log.ts";
import { isText, isTime, orNone, shape } from "../../core/shape.ts";
import {
  type EventRecord,
  isEventId,
  isOpen,
  MAX_ORDERING_KEY_LENGTH,
  wrongFieldOf,
} from "./event_record.ts";
import { isQuestion, type Question } from "./questions.ts";
import { checkState } from "./stored_state.ts";
import { wakeOf } from "./waits.ts";

/** The largest number of attempts or runs: they are counted on, and must stay safe integers. */
const MAX_COUNT = 1_000_000_000;

/** The longest name and plan of a schedule: a cron expression is much shorter. */
const MAX_LENGTH = 600;

/** The beginning of the formats of lines; the kind follows. */
const FORMAT = "edge-base.";

/** The version of the format. A change that an older version would read wrongly makes a new one. */
const VERSION = 1;

/** The beginning of every line as it is exported, of events and of others. */
export const LINE_START = `{"format":"${FORMAT}`;

/** The number of escaped characters up to which a payload is written as text in any case. */
const SHORT = 1_000;

/** The number of items in work at the same time. */
const CONCURRENCY = 32;

/** The bytes of these items, at most, unless it is one alone. */
const MAX_BYTES = 8_388_608;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * An event on its way from one store to another.
 *
 * @category Moving events
 */
export interface PortableEvent {
  /**
   * Its record, without what means something in its store only. The `group` says that it is in an ordering group, and
   * where it was in it.
   */
  readonly record: Omit<EventRecord, "lease" | "payload" | "engine" | "batch">;
  /** Its payload, byte for byte; null if it has none any more. */
  readonly body: Uint8Array<ArrayBuffer> | null;
  /** The results of its steps, by the names of the steps; undefined if there are none. */
  readonly results?: Readonly<Record<string, unknown>> | undefined;
}

/** The record of a portable event. */
export type PortableRecord = PortableEvent["record"];

/**
 * An entry beside the events, on its way from one store to another: a state, a value that a name was woken with before
 * any event waited for it, a question, or the note of a schedule, with the time up to which its slots are made. Times are in
 * milliseconds since the epoch.
 *
 * @category Moving events
 */
export type PortableEntry =
  | {
    /** The kind of entry. */
    readonly kind: "state";
    /** The intake that it belongs to; undefined for none. */
    readonly intake?: string | undefined;
    /** The key. */
    readonly key: string;
    /** The value. */
    readonly value: unknown;
    /** The time at which it is forgotten; undefined if it stays. */
    readonly expiresAt?: number | undefined;
  }
  | {
    /** The kind of entry. */
    readonly kind: "answer";
    /** The name. */
    readonly name: string;
    /** The time at which it was woken. */
    readonly at: number;
    /** The value; undefined for none. */
    readonly value?: unknown;
  }
  | {
    /** The kind of entry. */
    readonly kind: "question";
    /** The name. */
    readonly name: string;
    /** The question, as a store keeps it. */
    readonly question: Question;
  }
  | {
    /** The kind of entry. */
    readonly kind: "schedule";
    /** The name of the schedule. */
    readonly name: string;
    /** The expression and the time zone that the slots are of. */
    readonly plan: string;
    /** The time up to which all slots are made. */
    readonly at: number;
    /** Set if it is paused: since when, and by whom, for people. */
    readonly paused?: { readonly at: number; readonly by?: string | undefined } | undefined;
  };

/** Fields that belong to one store. A batch names positions in a group, and these change with the store. */
const OWN_FIELDS: readonly string[] = [
  ...["lease", "payload", "engine", "batch"] satisfies Exclude<
    keyof EventRecord,
    keyof PortableRecord
  >[],
];

/** The members of a schedule's note that mean something in another store. */
type PortableNote = Pick<PortableEntry & { readonly kind: "schedule" }, "plan" | "at" | "paused">;

const NOTE = {
  plan: isText,
  at: isTime,
  paused: orNone(shape({ at: isTime, by: orNone(isText) })),
};

/** Checks the members of a schedule's note that mean something in another store. */
export const isPortableNote = shape<PortableNote>(NOTE);

/** The shapes of entries by their kinds. */
const ENTRY_SHAPES = {
  state: shape({ intake: orNone(isText), key: isText, expiresAt: orNone(isTime) }),
  answer: shape({ name: isText, at: isTime }),
  question: shape({ name: isText, question: isQuestion }),
  schedule: shape({ name: isText, ...NOTE }),
};

/**
 * Makes a portable event of a stored one.
 *
 * @param record The record.
 * @param body The payload.
 * @param results The results of its steps.
 * @returns The event. Fields of the record that this version does not know are kept.
 */
export function portableOf(
  record: EventRecord,
  body: PortableEvent["body"],
  results?: PortableEvent["results"],
): PortableEvent {
  const fields = Object.entries(record).filter(([name]) => !OWN_FIELDS.includes(name));
  const portable = { record: Object.fromEntries(fields) as unknown as PortableRecord, body };
  return results ? { ...portable, results } : portable;
}

/**
 * Checks a portable event. It may come from anywhere.
 *
 * @param event The event.
 * @returns The event, without what belongs to another store.
 * @throws {TypeError} If a store of this version cannot take it. The message says why.
 */
export function checkedEvent(event: PortableEvent): PortableEvent {
  const { record: given, body, results }: PortableEvent = Object(event);
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw refusal("event", `its record must be an object, got ${met(given)}`);
  }
  const checked = portableOf(given as EventRecord, body, results);
  const fields: EventRecord = { ...checked.record, lease: null, payload: null };
  const wrong = wrongFieldOf(fields);
  if (wrong) throw refusal("event", `its '${wrong}' is not valid, got ${met(fields[wrong])}`);
  const reason = misfitOf(checked);
  if (reason) throw refusal("event", reason);
  return checked;
}

/** Finds a contradiction in a record whose fields are valid one by one; undefined for none. */
function misfitOf({ record, body, results }: PortableEvent): string | undefined {
  const { id, receivedAt, state, settledAt, attempt, run = 0 } = record;
  const { group, joinsLater, orderingKey, dueAt, waitingFor } = record;
  if (id === "" || !isEventId(id) || !id.isWellFormed()) {
    return `its 'id' is not valid, got ${met(id)}`;
  }
  // Lists begin with the time 0. An engine may keep -0 apart, and before it.
  if (receivedAt < 0 || Object.is(receivedAt, -0)) {
    return `its 'receivedAt' must not be negative, got ${receivedAt}`;
  }
  if (Math.max(attempt, run) > MAX_COUNT) {
    return `its 'attempt' and 'run' must be at most ${MAX_COUNT}, got ${attempt} and ${run}`;
  }
  if (isOpen(record) !== (settledAt === null)) {
    return `its 'settledAt' does not fit its state ${state}, got ${settledAt}`;
  }
  if (body !== null && !(body instanceof Uint8Array)) {
    return `its payload must be bytes or null, got ${met(body)}`;
  }
  if (results !== undefined) {
    const wrong = nonJsonPartOf(results, "results");
    if (wrong !== undefined) return `the results of its steps must be JSON, and ${wrong}`;
    if (Object(results) !== results || Array.isArray(results)) {
      return `the results of its steps must be an object, got ${met(results)}`;
    }
  }
  if (!isOpen(record)) return undefined;
  if (!body) return `it is ${state}, and has no payload`;
  const isParked = state === "parked";
  if (group !== null && (joinsLater || isParked)) {
    return "it is in its ordering group, which it is to join later";
  }
  const isKey = orderingKey !== null && orderingKey.length <= MAX_ORDERING_KEY_LENGTH &&
    orderingKey.isWellFormed();
  if ((group !== null || joinsLater) && !isKey) {
    return `its 'orderingKey' is not valid, got ${met(orderingKey)}`;
  }
  // Nothing would ever wake it.
  if (isParked && !waitingFor) {
    return `its 'waitingFor' does not fit its state parked, got ${waitingFor}`;
  }
  if (isParked && dueAt === null) return `its 'dueAt' does not fit its state parked, got ${dueAt}`;
  return undefined;
}

/**
 * Checks an entry. It may come from anywhere.
 *
 * @param entry The entry.
 * @returns The entry.
 * @throws {TypeError} If a store of this version cannot take it. The message says why.
 */
export function checkedEntry(entry: PortableEntry): PortableEntry {
  const { kind } = Object(entry);
  if (!Object.hasOwn(ENTRY_SHAPES, kind)) {
    throw refusal(
      "entry",
      `its kind must be state, answer, question or schedule, got ${met(kind)}`,
    );
  }
  const isOfKind: (value: unknown) => boolean = ENTRY_SHAPES[kind as PortableEntry["kind"]];
  if (!isOfKind(entry)) throw refusal(kind, "a member is missing, or has the wrong type");
  try {
    if (entry.kind === "state") checkState(entry.key, { intake: entry.intake });
    if (entry.kind === "answer") wakeOf(entry.name, entry.value);
    if (entry.kind === "question") wakeOf(entry.name, undefined);
  } catch (error) {
    throw refusal(kind, (error as Error).message);
  }
  if (entry.kind === "state" && entry.value === undefined) throw refusal(kind, "it has no value");
  if (entry.kind !== "schedule") return entry;
  if (!entry.name.isWellFormed()) throw refusal(kind, `its 'name' is not well-formed`);
  for (const name of ["name", "plan"] as const) {
    const { length } = entry[name];
    if (length >= 1 && length <= MAX_LENGTH) continue;
    throw refusal(kind, `its '${name}' must have 1 to ${MAX_LENGTH} characters, got ${length}`);
  }
  return entry;
}

function refusal(kind: string, reason: string): TypeError {
  return new TypeError(`Cannot restore the ${kind}: ${reason}`);
}

/**
 * Writes an event or an entry as a line.
 *
 * @param item The event or entry.
 * @returns The line, without a line break. No terminal acts on it.
 * @throws {TypeError} If its record holds something that JSON does not have.
 */
export async function lineOf(item: PortableEvent | PortableEntry): Promise<string> {
  if ("kind" in item) {
    const { kind, ...members } = item;
    return headOf(kind, members);
  }
  const { record, body, results } = item;
  const head = headOf("event", { record, results });
  if (!body) return head;
  return `${head.slice(0, -1)},"payloadSha256":"${await digestOf(body)}",${contentOf(body)}}`;
}

/**
 * Reads an event or an entry from its line.
 *
 * @param line The line.
 * @returns The event or entry. A store of this version can take it.
 * @throws {SyntaxError} If the line was not exported.
 * @throws {TypeError} If it is of a newer format, not valid, or its payload has been changed.
 */
export async function itemOfLine(line: string): Promise<PortableEvent | PortableEntry> {
  const { format, version, ...members } = Object(parse(line));
  const kind = typeof format === "string" && format.startsWith(FORMAT) &&
    format.slice(FORMAT.length);
  if (!kind || (kind !== "event" && !Object.hasOwn(ENTRY_SHAPES, kind))) {
    throw new SyntaxError("Cannot read the event: the line is no exported one");
  }
  if (version !== VERSION) {
    throw new TypeError(
      `Cannot read the ${kind}: the line must be of format version ${VERSION}, got ${
        met(version)
      }` + (version > VERSION ? ". A newer version of this package reads it" : ""),
    );
  }
  if (kind !== "event") return checkedEntry({ ...members, kind });
  const { record, results, payloadSha256, ...others } = members;
  const body = bodyIn(line, others);
  if (body && payloadSha256 !== undefined && payloadSha256 !== await digestOf(body)) {
    throw new TypeError(
      "Cannot read the event: its payload is not the one that was exported. " +
        "To take it as it is now, remove 'payloadSha256' from the line",
    );
  }
  return checkedEvent({ record, body, results });
}

function headOf(kind: string, members: object): string {
  return printable(JSON.stringify({ format: `${FORMAT}${kind}`, version: VERSION, ...members }));
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    // The parser's message quotes the line, with the payload in it.
    throw new SyntaxError("Cannot read the event: the line is not JSON");
  }
}

function contentOf(body: Uint8Array<ArrayBuffer>): string {
  const base64 = () => `"payloadBase64":"${body.toBase64()}"`;
  const text = jsonTextOf(body);
  if (text === undefined) return base64();
  const isPlain = isPrintable(text) && !text.startsWith(" ") && !text.endsWith(" ");
  if (isPlain) return `"payload":${text}`;
  const quoted = printable(JSON.stringify(text));
  return quoted.length > 2 * body.byteLength + SHORT ? base64() : `"payloadText":${quoted}`;
}

/** Decodes bytes that are JSON in UTF-8; undefined for any others. */
function jsonTextOf(body: Uint8Array<ArrayBuffer>): string | undefined {
  try {
    const text = decoder.decode(body);
    JSON.parse(text);
    return text;
  } catch {
    return undefined;
  }
}

function bodyIn(line: string, members: Record<string, unknown>): PortableEvent["body"] {
  const { payload, payloadText, payloadBase64 } = members;
  const given = [payload, payloadText, payloadBase64].filter((each) => each !== undefined);
  if (given.length > 1) throw new TypeError("Cannot read the event: it has several payloads");
  // As it was written: parsing changes numbers beyond 2^53.
  if (payload !== undefined) return encoder.encode(memberOf(line, "payload")!);
  if (typeof payloadText === "string") return encoder.encode(payloadText);
  if (typeof payloadBase64 === "string") return bytesOfBase64(payloadBase64);
  if (given.length === 0) return null;
  throw new TypeError(`Cannot read the event: its payload must be a text, got ${met(given[0])}`);
}

function bytesOfBase64(text: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.fromBase64(text);
  } catch {
    throw new TypeError("Cannot read the event: its payload is not base64");
  }
}

async function digestOf(body: Uint8Array<ArrayBuffer>): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", body)).toHex();
}

/** Does something with items, several at the same time, and yields the results in their order. */
export async function* inOrder<T, R>(
  items: AsyncIterable<T>,
  sizeOf: (item: T) => number,
  run: (item: T) => Promise<R>,
): AsyncGenerator<R> {
  const running: { readonly result: Promise<R>; readonly size: number }[] = [];
  let bytes = 0;
  const take = () => {
    const { result, size } = running.shift()!;
    bytes -= size;
    return result;
  };
  try {
    for await (const item of items) {
      const size = sizeOf(item);
      const isFull = () => running.length >= CONCURRENCY || bytes + size > MAX_BYTES;
      while (running.length > 0 && isFull()) yield await take();
      const result = run(item);
      // It is thrown in its turn, and another one may be thrown before.
      result.catch(() => {});
      running.push({ result, size });
      bytes += size;
    }
    while (running.length > 0) yield await take();
  } finally {
    await Promise.allSettled(running.map(({ result }) => result));
  }
}
