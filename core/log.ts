/**
 * The log: records, their two forms (JSON for machines, text for people), and the console that they are
 * written to by default. `log_summary.ts` sums up floods, and `stdout_log.ts` writes without blocking.
 *
 * @module
 */
import type { Context } from "@hono/hono";

/**
 * Severity of a log record.
 *
 * @category Log and telemetry
 */
export type LogLevel = "debug" | "info" | "warn" | "error";

/**
 * One log record: the fields that every record has, and further ones.
 *
 * @category Log and telemetry
 */
export interface LogRecord {
  /** Severity. */
  readonly level: LogLevel;
  /** Time of the record, ISO 8601 in UTC. */
  readonly time: string;
  /** Description of what happened, in a few constant words. */
  readonly message: string;
  /** Id of the request that the record belongs to, if any. */
  readonly requestId?: string | undefined;
  /** Further fields. An `Error` is written with its name, message, stack and causes. */
  readonly [field: string]: unknown;
}

/**
 * Receiver of log records.
 *
 * @category Log and telemetry
 */
export type LogSink = (record: LogRecord) => void;

/** Form of the log's records: `json`, one line each; `text`, for people; `auto` is `text` on a terminal. */
export type LogFormat = "json" | "text" | "auto";

/** Deepest cause that is written: a chain of errors can be circular. */
const MAX_CAUSE_DEPTH = 5;

/** Longest text of a field: a request's headers may hold 64 KiB. */
const MAX_TEXT_LENGTH = 8192;

/**
 * Characters that JSON leaves unescaped although a terminal or a viewer acts on them or hides them: DEL
 * and the C1 controls, the line separators, and all format characters, such as the byte order mark, the
 * marks that reverse the order of text (Unicode TR36, section 2.1) and invisible tags that spell ASCII.
 */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

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

const ERROR_FIELDS: readonly string[] = ["name", "message", "stack", "cause", "errors"];

/** Width of the messages that are logged most: `event handled`. */
const MESSAGE_WIDTH = 13;

const LEVEL_WIDTH = 5;

/** Most lines below the first one. */
const MAX_ERROR_LINES = 40;

const INDENT = "    ";

const NO_TIME = "--:--:--.---";

/** Text that is written without quotes: it cannot be taken for another field. */
const BARE = /^[^\s"=]+$/;

/** SGR parameters (ECMA-48, 8.3.117). */
const COLOURS: Readonly<Record<LogLevel, number>> = { debug: 90, info: 32, warn: 33, error: 31 };
const DIM = 2;

/**
 * Formats a record, with any fields, as one line of JSON.
 *
 * @param record The record.
 * @returns One line without a line break, safe to print.
 * @category Log and telemetry
 */
export function formatLogLine(record: LogRecord): string {
  return printable(stringify(record));
}

/** Escapes characters that a terminal would act on or hide. */
export function printable(text: string): string {
  return text.replace(UNSAFE, escaped);
}

/** Checks whether a text has nothing that a terminal would act on or hide. */
export function isPrintable(text: string): boolean {
  return text.search(UNSAFE) < 0;
}

/** Makes one line of a text, without characters that a terminal would act on. */
export function oneLine(text: string): string {
  return text.replace(UNSAFE, " ");
}

/** Escapes a character as JSON does: one beyond U+FFFF as its two UTF-16 code units. */
function escaped(character: string): string {
  return character.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .join("");
}

/**
 * Formats a record for people: a line with the local time, level, message and fields, and below it the
 * stacks of errors. It holds what {@linkcode formatLogLine} would write, bounded and escaped as there, and
 * only the first line of a record begins without white space.
 *
 * @param record The record.
 * @param colour Whether a terminal's colours are used.
 * @returns The lines, without a line break at the end, safe to print.
 */
export function formatLogText(record: LogRecord, colour: boolean): string {
  // From JSON, so that every value is plain, bounded and harmless to read.
  const { level, time, message, ...fields } = JSON.parse(formatLogLine(record));
  const paint = (as: number | undefined, text: string) =>
    colour && as !== undefined ? `\x1b[${as}m${text}\x1b[0m` : text;
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
 * Makes the function that formats records for an output.
 *
 * @param format The form.
 * @param output The output. A terminal gets colours, unless `NO_COLOR` is set.
 * @returns The function. Its text has no line break at the end.
 */
export function formatFor(
  format: LogFormat,
  output: { isTerminal?(): boolean } | undefined,
): (record: LogRecord) => string {
  const isTerminal = output?.isTerminal?.() === true;
  if (format === "json" || format === "auto" && !isTerminal) return formatLogLine;
  const colour = isTerminal && !globalThis.Deno?.noColor;
  return (record) => formatLogText(record, colour);
}

/**
 * Writes a record to the console as one line of JSON. All levels go to the standard output, so that the
 * lines of a request stay together and in order. A line that cannot be written, because the disk is full,
 * is dropped, and the work goes on.
 *
 * The console waits for its reader: a full pipe blocks the process, signals included.
 * {@linkcode createStdoutLog} never blocks and takes half the time, but listeners to the console do not
 * see its lines.
 *
 * @param record The record.
 * @category Log and telemetry
 */
export function consoleSink(record: LogRecord): void {
  print(formatLogLine(record));
}

/**
 * Makes a log that writes to the console, as {@linkcode consoleSink} does.
 *
 * @param format The form of the records.
 * @returns The log.
 */
export function consoleLog(format: LogFormat): LogSink {
  const formatted = formatFor(format, globalThis.Deno?.stdout);
  return formatted === formatLogLine ? consoleSink : (record) => print(formatted(record));
}

function print(text: string): void {
  try {
    console.log(text);
  } catch {
    // There is nowhere to report it.
  }
}

/**
 * Writes a record with the current time.
 *
 * @param log The log.
 * @param level The severity.
 * @param message A description of what happened, in a few constant words.
 * @param fields Further fields. They cannot replace `level`, `time` and `message`: what somebody has sent, such
 * as a messenger's `message`, must not be taken for the words of the app.
 * @category Log and telemetry
 */
export function writeLog(
  log: LogSink,
  level: LogLevel,
  message: string,
  fields: Readonly<Record<string, unknown>> & {
    readonly level?: never;
    readonly time?: never;
    readonly message?: never;
  } = {},
): void {
  const head = { level, time: new Date().toISOString(), message };
  // The head twice: it begins the line, and prevails.
  writeRecord(log, { ...head, ...fields, ...head });
}

/**
 * Hands a record to a log. A log that throws cannot fail a request or a worker: its failure is written to
 * the console.
 *
 * @param log The log.
 * @param record The record.
 */
export function writeRecord(log: LogSink, record: LogRecord): void {
  try {
    log(record);
  } catch (error) {
    const { time } = record;
    consoleSink({ level: "error", time, message: "log failed", error, record });
  }
}

/**
 * Finds the log for a request's records: the one of `createLogger`, or else the console.
 *
 * @param c The request's context.
 * @returns The log.
 * @category Log and telemetry
 */
export function logSinkOf(c: Context): LogSink {
  const log: unknown = c.get("log");
  return typeof log === "function" ? log as LogSink : consoleSink;
}

function stringify(record: LogRecord): string {
  try {
    return JSON.stringify(record, writable);
  } catch {
    const fields = Object.entries(record).map(([name, value]) => [name, writableOrText(value)]);
    return JSON.stringify(Object.fromEntries(fields));
  }
}

/** Makes JSON of a value that may be circular or throw. */
function writableOrText(value: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(value, writable) ?? "null");
  } catch {
    return textOrNone(value);
  }
}

/** Describes a value that JSON cannot hold. Some throw whenever they are read. */
function textOrNone(value: unknown): string {
  try {
    if (value instanceof Error) return `${value.name}: ${value.message}`;
  } catch {
    // The error's properties throw.
  }
  return "[not writable]";
}

function writable(_key: string, value: unknown): unknown {
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "string" && value.length > MAX_TEXT_LENGTH) {
    return `${value.slice(0, MAX_TEXT_LENGTH)}…`;
  }
  return value instanceof Error ? describeError(value, 0) : value;
}

function describeError(error: unknown, depth: number): unknown {
  if (!(error instanceof Error)) return error;
  const { name, message, stack, cause } = error;
  const inner = depth < MAX_CAUSE_DEPTH
    ? {
      cause: cause === undefined ? undefined : describeError(cause, depth + 1),
      errors: error instanceof AggregateError
        ? error.errors.slice(0, MAX_CAUSE_DEPTH).map((each) => describeError(each, depth + 1))
        : undefined,
    }
    : {};
  return { name, message, stack, ...inner };
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
    Object.keys(value).every((field) => ERROR_FIELDS.includes(field));
}

/** Writes the stack of an error, and its causes. */
function linesBelow(error: ErrorFields, indent: string): string[] {
  const causes: [string, unknown][] = error.cause === undefined ? [] : [["cause", error.cause]];
  if (Array.isArray(error.errors)) {
    causes.push(...error.errors.map((each, i): [string, unknown] => [`errors[${i}]`, each]));
  }
  return [
    ...framesOf(error).map((frame) => `${indent}${printable(frame)}`),
    ...causes.flatMap(([name, cause]) => [
      `${indent}${name}: ${textOfField(cause)}`,
      ...isError(cause) ? linesBelow(cause, `${indent}  `) : [],
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
