import { formatLogLine, type LogLevel, type LogRecord, print, printable } from "./log.ts";

/** Appearance of a record's text. */
export interface LogTextOptions {
  /** Uses a terminal's colours. */
  readonly colour: boolean;
}

/** Error as it is in a record's JSON. */
interface ErrorFields {
  readonly name: string;
  readonly message: string;
  readonly stack?: unknown;
  readonly cause?: unknown;
  readonly errors?: unknown;
}

/** Fields that come first, in this order. All others follow in the order of the record. */
const FIRST = [
  ...["method", "path", "status", "code"],
  ...["type", "id", "attempt", "durationMs", "eventId", "error"],
];

const ERROR_FIELDS = new Set(["name", "message", "stack", "cause", "errors"]);

/** Width of the messages that are logged most: `event handled`. */
const MESSAGE_WIDTH = 13;

const LEVEL_WIDTH = 5;

/** Most lines below the first one. */
const MAX_ERROR_LINES = 40;

/** Deepest cause that is written, as in JSON. */
const MAX_CAUSE_DEPTH = 5;

const INDENT = "    ";

const NO_TIME = "--:--:--.---";

/** Text that is written without quotes: it cannot be taken for another field. */
const BARE = /^[^\s"=]+$/;

/** SGR parameters (ECMA-48, 8.3.117). */
const COLOURS: Readonly<Record<LogLevel, number>> = { debug: 90, info: 32, warn: 33, error: 31 };
const DIM = 2;

/**
 * Formats a record for people: a line with the local time, level, message and fields, and below it the
 * stacks of errors. It holds what {@linkcode formatLogLine} would write, bounded and escaped as there, and
 * only the first line of a record begins without white space.
 *
 * @param record The record.
 * @param options The appearance.
 * @returns The lines, without a line break at the end, safe to print.
 */
export function formatLogText(record: LogRecord, { colour }: LogTextOptions): string {
  // From JSON, so that every value is plain, bounded and harmless to read.
  const { level, time, message, ...fields } = JSON.parse(formatLogLine(record));
  const paint = colour ? painted : plain;
  const first = FIRST.filter((name) => Object.hasOwn(fields, name));
  const pairs = [...new Set([...first, ...Object.keys(fields)])].map((name) =>
    `${paint(DIM, `${textOfValue(name)}=`)}${textOfField(fields[name])}`
  );
  const severity = printable(String(level).toUpperCase()).padEnd(LEVEL_WIDTH);
  const what = printable(String(message));
  const head = `${clockTime(time)} ${paint(COLOURS[level as LogLevel], severity)} `;
  const line = pairs.length === 0 ? what : `${what.padEnd(MESSAGE_WIDTH)}  ${pairs.join(" ")}`;
  const below = Object.values(fields).filter(isError).flatMap((error) => linesBelow(error, INDENT));
  const hidden = below.splice(MAX_ERROR_LINES).length;
  if (hidden > 0) below.push(`${INDENT}... ${hidden} more lines`);
  return [head + line, ...below.map((each) => paint(DIM, each))].join("\n");
}

/**
 * Writes a record to the console as text, in colours if that is a terminal.
 *
 * @param record The record.
 */
export function consoleTextSink(record: LogRecord): void {
  print(formatLogText(record, { colour: hasColours(globalThis.Deno?.stdout) }));
}

/**
 * Tells whether to write colours to an output: it is a terminal, and `NO_COLOR` is not set.
 *
 * @param output The output.
 * @returns True if colours are wanted.
 */
export function hasColours(output: { isTerminal?(): boolean } | undefined): boolean {
  return output?.isTerminal?.() === true && !globalThis.Deno?.noColor;
}

function painted(colour: number | undefined, text: string): string {
  return colour === undefined ? text : `\x1b[${colour}m${text}\x1b[0m`;
}

function plain(_colour: number | undefined, text: string): string {
  return text;
}

/** Shortens a time to its local hour, minute, second and millisecond. */
function clockTime(time: string): string {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return NO_TIME;
  return `${date.toTimeString().slice(0, 8)}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

function textOfField(value: unknown): string {
  return textOfValue(isError(value) ? `${value.name}: ${value.message}` : value);
}

/** Writes a value as JSON, or a plain text without its quotes. */
function textOfValue(value: unknown): string {
  const json = printable(JSON.stringify(value));
  return typeof value === "string" && json === `"${value}"` && BARE.test(value) ? value : json;
}

function isError(value: unknown): value is ErrorFields {
  if (typeof value !== "object" || value === null) return false;
  const { name, message } = value as Record<string, unknown>;
  return typeof name === "string" && typeof message === "string" &&
    Object.keys(value).every((field) => ERROR_FIELDS.has(field));
}

/** Writes the stack of an error, and what it was caused by. */
function linesBelow(error: ErrorFields, indent: string, depth = 0): string[] {
  const causes: [string, unknown][] = error.cause === undefined ? [] : [["cause", error.cause]];
  if (Array.isArray(error.errors)) {
    causes.push(...error.errors.map((each, i): [string, unknown] => [`errors[${i}]`, each]));
  }
  if (depth === MAX_CAUSE_DEPTH) causes.length = 0;
  return [
    ...framesOf(error).map((frame) => `${indent}${printable(frame)}`),
    ...causes.flatMap(([name, cause]) => [
      `${indent}${name}: ${textOfField(cause)}`,
      ...isError(cause) ? linesBelow(cause, `${indent}  `, depth + 1) : [],
    ]),
  ];
}

/** Takes the frames from a stack, which begins with the message. */
function framesOf({ message, stack }: ErrorFields): string[] {
  if (typeof stack !== "string") return [];
  const start = stack.indexOf(message);
  const frames = stack.slice(start < 0 ? 0 : start + message.length);
  return frames.split("\n").map((frame) => frame.trim()).filter((frame) => frame !== "");
}
