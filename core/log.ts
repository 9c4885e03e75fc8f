import type { Context } from "@hono/hono";

/** How much a record matters. */
export type LogLevel = "debug" | "info" | "warn" | "error";

/** One record of a log: what every record has, and fields of its own. */
export interface LogRecord {
  /** How much it matters. */
  readonly level: LogLevel;
  /** When it was written, ISO 8601 in UTC. */
  readonly time: string;
  /** What happened, in a few constant words. */
  readonly message: string;
  /** The request it belongs to, where there is one. */
  readonly requestId?: string | undefined;
  /** Fields of its own. An `Error` is written with its name, message, stack and causes. */
  readonly [field: string]: unknown;
}

/** Where log records go. */
export type LogSink = (record: LogRecord) => void;

/** Causes below this are left out: a chain of errors can be circular. */
const MAX_CAUSE_DEPTH = 5;

/** A field's text beyond this is cut: a request's head may hold 64 KiB. */
const MAX_TEXT_LENGTH = 8192;

/**
 * What JSON leaves unescaped although a terminal or a viewer acts on it, or shows nothing of it: DEL
 * and the C1 controls, the line separators, and all format characters: the byte order mark, the marks
 * that reverse the order of text (Unicode TR36, section 2.1), invisible tags that spell out ASCII.
 */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * Formats a record as one line of JSON, whatever its fields contain.
 *
 * @param record The record.
 * @returns One line without a line break, printable as it is.
 */
export function formatLogLine(record: LogRecord): string {
  return stringify(record).replace(UNSAFE, escaped);
}

/** JSON escapes a character beyond the first 65,536 as the two that UTF-16 makes of it. */
function escaped(character: string): string {
  return character.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .join("");
}

/**
 * Writes a record to the console as one line of JSON, whatever its level to the standard output: the
 * lines of a request stay together and in order. A line that cannot be written, because the log's disk
 * is full, is dropped: what it tells of goes on.
 *
 * The console waits for whoever reads it: a pipe that is full holds the process up, signals included.
 * {@linkcode createStdoutLog} does not, and takes half of the time, where nothing listens to the console.
 *
 * @param record The record.
 */
export function consoleSink(record: LogRecord): void {
  const line = formatLogLine(record);
  try {
    console.log(line);
  } catch {
    // There is nowhere to tell it.
  }
}

/**
 * Writes a record with the current time.
 *
 * @param log Where it goes.
 * @param level How much it matters.
 * @param message What happened, in a few constant words.
 * @param fields Its further fields.
 */
export function writeLog(
  log: LogSink,
  level: LogLevel,
  message: string,
  fields: Readonly<Record<string, unknown>>,
): void {
  writeRecord(log, { level, time: new Date().toISOString(), message, ...fields });
}

/**
 * Hands a record to a sink. A sink that throws must not be able to fail a request or a worker: its
 * failure is written to the console.
 *
 * @param log Where it goes.
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
 * Finds where a request's log records go: where `createLogger` sends them, else to the console.
 *
 * @param c The request's context.
 * @returns The sink.
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

/** What JSON can hold of a value that it cannot hold as it is: one that is circular, or throws. */
function writableOrText(value: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(value, writable) ?? "null");
  } catch {
    return textOrNone(value);
  }
}

/** What is told of a value that JSON cannot hold: some throw at every look. */
function textOrNone(value: unknown): string {
  try {
    if (value instanceof Error) return `${value.name}: ${value.message}`;
  } catch {
    // Nothing can be told of it.
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
