/**
 * The lines of text that events and entries are exported as.
 *
 * A line is a JSON object. The payload of an event is its last member, and the same byte for byte:
 *
 * - `payload`: as it is, if it is JSON on one line without characters that a terminal would act on.
 * - `payloadText`: as a JSON string, if it is other JSON.
 * - `payloadBase64`: any other bytes.
 *
 * @module
 */
import { met } from "../../core/check_options.ts";
import { memberOf } from "../../core/json_text.ts";
import { isPrintable, printable } from "../../core/log.ts";
import {
  checkedEntry,
  checkedEvent,
  ENTRY_SHAPES,
  type PortableEntry,
  type PortableEvent,
} from "./portable_event.ts";

/** The beginning of the formats of lines; the kind follows. */
const FORMAT = "edge-base.";

/** The version of the format. A change that an older version would read wrongly makes a new one. */
const VERSION = 1;

/** The beginning of every line as it is exported, of events and of others. */
export const LINE_START = `{"format":"${FORMAT}`;

/** The largest line: a record and the largest payload, each byte of which may take two. */
export const MAX_LINE_BYTES = 134_217_728;

/** The number of escaped characters up to which a payload is written as text in any case. */
const SHORT = 1_000;

/** The number of items in work at the same time. */
const CONCURRENCY = 32;

/** The bytes of these items, at most, unless it is one alone. */
const MAX_BYTES = 8_388_608;

const LINE_FEED = 10;

/** A line of a stream, of which no more than one line and one chunk are in memory. */
export interface Line {
  /** Its number, from 1. */
  readonly number: number;
  /** Its bytes without the line break; null if it is too long, and was passed over. */
  readonly bytes: Uint8Array | null;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

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
  const { record, body } = item;
  const head = headOf("event", { record });
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
  const { record, payloadSha256, ...others } = members;
  const body = bodyIn(line, others);
  if (body && payloadSha256 !== undefined && payloadSha256 !== await digestOf(body)) {
    throw new TypeError(
      "Cannot read the event: its payload is not the one that was exported. " +
        "To take it as it is now, remove 'payloadSha256' from the line",
    );
  }
  return checkedEvent({ record, body });
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

/**
 * Splits a stream into lines, whatever its chunks are.
 *
 * @param chunks The stream.
 * @param maxBytes The largest line.
 */
export async function* linesOf(
  chunks: AsyncIterable<Uint8Array | string>,
  maxBytes: number,
): AsyncGenerator<Line> {
  let number = 1;
  let [parts, size]: [Uint8Array[], number] = [[], 0];
  const add = (part: Uint8Array) => {
    size += part.byteLength;
    if (size > maxBytes) parts = [];
    else if (part.byteLength > 0) parts.push(part);
  };
  for await (const chunk of chunks) {
    let rest = typeof chunk === "string" ? encoder.encode(chunk) : chunk;
    for (let end; (end = rest.indexOf(LINE_FEED)) >= 0; rest = rest.subarray(end + 1)) {
      add(rest.subarray(0, end));
      yield { number: number++, bytes: size > maxBytes ? null : joined(parts, size) };
      [parts, size] = [[], 0];
    }
    // A copy: the stream may use its buffer again.
    add(rest.slice());
  }
  if (size > 0) yield { number, bytes: size > maxBytes ? null : joined(parts, size) };
}

/**
 * Reads a source until a signal, also while it waits for more.
 *
 * @param source The source.
 * @param signal The signal.
 */
export async function* untilAborted<T>(
  source: AsyncIterable<T>,
  signal: AbortSignal | undefined,
): AsyncGenerator<T> {
  if (!signal) return yield* source;
  const iterator = source[Symbol.asyncIterator]();
  let isEnded = false;
  try {
    while (!signal.aborted) {
      const next = await orAborted(iterator.next(), signal);
      isEnded = next?.done ?? false;
      if (!next || next.done) return;
      yield next.value;
    }
  } finally {
    // Not awaited after a signal: it ends no sooner than what is waited for.
    const returned = isEnded ? undefined : iterator.return?.();
    if (signal.aborted) returned?.catch(() => {});
    else await returned;
  }
}

/** Waits for a value; undefined if the signal comes first. */
function orAborted<T>(value: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const end = () => resolve(undefined);
    signal.addEventListener("abort", end, { once: true });
    value.then(resolve, reject).finally(() => signal.removeEventListener("abort", end));
  });
}

function joined(parts: readonly Uint8Array[], size: number): Uint8Array {
  if (parts.length === 1) return parts[0]!;
  const line = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    line.set(part, at);
    at += part.byteLength;
  }
  return line;
}
