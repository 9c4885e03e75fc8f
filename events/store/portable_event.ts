/**
 * Events on their way from one store to another: what of an event survives a move, and the line of text that
 * it is written as.
 *
 * A line is a JSON object. The record is in it as it is stored, with the fields that this version does not
 * know, but without all that means something in its own KV only: the lease, the place of the payload, and
 * the entries that lead to it. The payload is the last member, and the same byte for byte:
 *
 * - `payload`: as it is, if it is JSON on one line without characters that a terminal would act on.
 * - `payloadText`: as a JSON string, if it is other JSON.
 * - `payloadBase64`: any other bytes.
 *
 * @module
 */
import { met } from "../../core/check_options.ts";
import { memberOf } from "../../core/json_text.ts";
import type { EventRecord } from "./event_record.ts";
import { isEventId, isEventRecord } from "./record_shape.ts";

/** The mark of a line. */
const FORMAT = "edge-base.event";

/** The version of the format. A change that an older version would read wrongly makes a new one. */
const VERSION = 1;

/** The beginning of every line as it is exported, of events and of others. */
export const LINE_START = `{"format":"edge-base.`;

/** The beginning of the line of an event as it is exported. */
export const EVENT_START = `{"format":"${FORMAT}"`;

/** The largest line: that of the largest payload, each of whose bytes may take two, and of a record. */
export const MAX_LINE_BYTES = 134_217_728;

/** The number of escaped characters with which a payload is readable in any case. */
const SHORT = 1_000;

/** The largest number of attempts or runs: they are counted on, and must stay safe integers. */
const MAX_COUNT = 1_000_000_000;

/** The longest ordering key that a store keeps. */
const MAX_ORDERING_KEY_LENGTH = 256;

/** The number of bytes that base64 writes at a time: a multiple of 3, and few enough for the stack. */
const BASE64_BYTES = 24_576;

/** Characters that a terminal would act on, or that end a line for some readers. */
const CONTROL = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

/** A record with no more than it must have, to tell which field of another one is wrong. */
const SAMPLE: EventRecord = {
  ...{ id: "", platform: "", source: "", type: "", requestId: null, receivedAt: 0 },
  ...{ state: "queued", attempt: 0, dueAt: null, orderingKey: null, group: null, lease: null },
  ...{ settledAt: null, payload: null, attempts: [] },
};

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * The record of an event, without what means something in its own KV only. An import never takes that over.
 *
 * @category Moving events
 */
export type PortableRecord = Omit<
  EventRecord,
  "lease" | "payload" | "sharedEntry" | "idKept" | "batch"
>;

const OWN_FIELDS: readonly Exclude<keyof EventRecord, keyof PortableRecord>[] = [
  "lease",
  "payload",
  "sharedEntry",
  "idKept",
  // By positions in a group, which are others here. It is determined anew.
  "batch",
];

/**
 * An event on its way from one store to another.
 *
 * @category Moving events
 */
export interface PortableEvent {
  /** Its record. The `group` says that it is in an ordering group, and where it was in it. */
  readonly record: PortableRecord;
  /** Its payload, byte for byte; null if it has none any more. */
  readonly body: Uint8Array<ArrayBuffer> | null;
}

/**
 * Makes a portable event of a stored one.
 *
 * @param record The record.
 * @param body The payload.
 * @returns The event. Fields of the record that this version does not know are kept.
 */
export function portableOf(record: EventRecord, body: PortableEvent["body"]): PortableEvent {
  return { record: withoutOwn(record) as PortableRecord, body };
}

/**
 * Checks a portable event, which may come from anywhere.
 *
 * @param event The event.
 * @returns The event, without what belongs to another KV.
 * @throws {TypeError} If it is none that a store of this version can take. The message says why.
 */
export function checkedEvent(event: PortableEvent): PortableEvent {
  const { record: given, body }: PortableEvent = Object(event);
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw refusal(`its record must be an object, got ${met(given)}`);
  }
  const record = withoutOwn(given);
  const wrong = wrongFieldOf(record);
  if (wrong !== undefined) throw refusal(`its '${wrong.name}' is not valid, got ${wrong.value}`);
  const checked = { record: record as PortableRecord, body };
  checkWhole(checked);
  return checked;
}

/**
 * Writes an event as a line.
 *
 * @param event The event.
 * @returns The line, without a line break. No terminal acts on it.
 * @throws {TypeError} If its record holds something that JSON does not have.
 */
export async function lineOfEvent({ record, body }: PortableEvent): Promise<string> {
  const head = escaped(JSON.stringify({ format: FORMAT, version: VERSION, record }));
  if (!body) return head;
  const digest = await digestOf(body);
  return `${head.slice(0, -1)},"payloadSha256":"${digest}",${contentOf(body)}}`;
}

/**
 * Reads an event from its line. That it can be stored is not checked.
 *
 * @param line The line.
 * @returns The event.
 * @throws {SyntaxError} If the line is not that of an event.
 * @throws {TypeError} If it is of a newer format, or its payload has been changed.
 */
export async function eventOfLine(line: string): Promise<PortableEvent> {
  const { format, version, record, payloadSha256, ...others } = Object(parse(line));
  if (format !== FORMAT) {
    throw new SyntaxError(`Cannot read the event: the line is no exported one`);
  }
  if (version !== VERSION) {
    throw new TypeError(
      `Cannot read the event: the line must be of format version ${VERSION}, got ${met(version)}` +
        (version > VERSION ? ". A newer version of this package reads it" : ""),
    );
  }
  const body = bodyIn(line, others);
  if (body && payloadSha256 !== undefined && payloadSha256 !== await digestOf(body)) {
    throw new TypeError(
      "Cannot read the event: its payload is not the one that was exported. " +
        "To take it as it is now, remove 'payloadSha256' from the line",
    );
  }
  return { record, body };
}

function checkWhole({ record, body }: PortableEvent): void {
  const { id, receivedAt, state, settledAt, attempt, run = 0 } = record;
  if (id === "" || !isEventId(id) || !id.isWellFormed()) {
    throw refusal(`its 'id' is not valid, got ${met(id)}`);
  }
  // Lists begin with the time 0, which comes after -0 in a KV.
  if (receivedAt < 0 || Object.is(receivedAt, -0)) {
    throw refusal(`its 'receivedAt' must not be negative, got ${receivedAt}`);
  }
  if (Math.max(attempt, run) > MAX_COUNT) {
    throw refusal(
      `its 'attempt' and 'run' must be at most ${MAX_COUNT}, got ${attempt} and ${run}`,
    );
  }
  const isSettled = state === "done" || state === "dead";
  if (isSettled !== (settledAt !== null)) {
    throw refusal(`its 'settledAt' does not fit its state ${state}, got ${settledAt}`);
  }
  checkBody(state, body);
  if (!isSettled) checkGroup(record);
  if (state === "parked") checkWait(record);
}

function checkBody(state: EventRecord["state"], body: unknown): void {
  if (body !== null && !(body instanceof Uint8Array)) {
    throw refusal(`its payload must be bytes or null, got ${met(body)}`);
  }
  if (state !== "done" && state !== "dead" && !body) {
    throw refusal(`it is ${state}, and has no payload`);
  }
}

/** Refuses a parked event that nothing would ever wake. */
function checkWait({ dueAt, waitingFor }: PortableRecord): void {
  if (waitingFor && dueAt !== null) return;
  const [name, value] = waitingFor ? ["dueAt", dueAt] : ["waitingFor", waitingFor];
  throw refusal(`its '${name}' does not fit its state parked, got ${value}`);
}

function checkGroup({ state, group, joinsLater, orderingKey }: PortableRecord): void {
  if (group === null && !joinsLater) return;
  if (group !== null && (joinsLater || state === "parked")) {
    throw refusal("it is in its ordering group, which it is to join later");
  }
  const isKey = orderingKey !== null && orderingKey.length <= MAX_ORDERING_KEY_LENGTH &&
    orderingKey.isWellFormed();
  if (!isKey) throw refusal(`its 'orderingKey' is not valid, got ${met(orderingKey)}`);
}

function refusal(reason: string): TypeError {
  return new TypeError(`Cannot restore the event: ${reason}`);
}

function withoutOwn(record: object): object {
  const kept: Record<string, unknown> = { ...record };
  for (const name of OWN_FIELDS) delete kept[name];
  return kept;
}

/** Finds a field that no record of this version has like that. */
function wrongFieldOf(record: object): { name: string; value: string } | undefined {
  const fields: Readonly<Record<string, unknown>> = { ...record, lease: null, payload: null };
  if (isEventRecord(fields)) return undefined;
  const names = [...new Set([...Object.keys(SAMPLE), ...Object.keys(fields)])];
  const name = names.find((each) => !isEventRecord({ ...SAMPLE, [each]: fields[each] }));
  return { name: name ?? "record", value: met(name && fields[name]) };
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    // The parser's own message quotes the line, with the payload in it.
    throw new SyntaxError("Cannot read the event: the line is not JSON");
  }
}

function contentOf(body: Uint8Array<ArrayBuffer>): string {
  const text = jsonTextOf(body);
  if (text === undefined) return base64Member(body);
  const isPlain = !CONTROL.test(text) && !text.startsWith(" ") && !text.endsWith(" ");
  if (isPlain) return `"payload":${text}`;
  const quoted = escaped(JSON.stringify(text));
  return quoted.length > 2 * body.byteLength + SHORT
    ? base64Member(body)
    : `"payloadText":${quoted}`;
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
  if (typeof payloadBase64 === "string") return fromBase64(payloadBase64);
  if (given.length === 0) return null;
  throw new TypeError(`Cannot read the event: its payload must be a text, got ${met(given[0])}`);
}

function base64Member(body: Uint8Array): string {
  return `"payloadBase64":"${base64Of(body)}"`;
}

/** Writes bytes as base64. */
function base64Of(body: Uint8Array): string {
  const parts: string[] = [];
  for (let at = 0; at < body.byteLength; at += BASE64_BYTES) {
    parts.push(btoa(String.fromCharCode(...body.subarray(at, at + BASE64_BYTES))));
  }
  return parts.join("");
}

/** Reads bytes from base64. Throws if it is none. */
function bytesOfBase64(text: string): Uint8Array<ArrayBuffer> {
  const decoded = atob(text);
  const body = new Uint8Array(decoded.length);
  for (let i = 0; i < body.length; i++) body[i] = decoded.charCodeAt(i);
  return body;
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  try {
    return bytesOfBase64(text);
  } catch {
    throw new TypeError("Cannot read the event: its payload is not base64");
  }
}

/** Escapes the characters of JSON strings that a terminal would act on, as their UTF-16 code units. */
export function escaped(json: string): string {
  if (!CONTROL.test(json)) return json;
  return json.replaceAll(
    new RegExp(CONTROL, "gu"),
    (character) =>
      character.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
        .join(""),
  );
}

async function digestOf(body: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", body));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
