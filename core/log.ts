import type { Context } from "@hono/hono";

/**
 * Severity of a log record.
 *
 * @category Log and telemetry
 */
export type LogLevel = "debug" | "info" | "warn" | "error";

/**
 * One log record: the fields that every record has, and fields of its own.
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

/**
 * Formats a record as one line of JSON, whatever its fields contain.
 *
 * @param record The record.
 * @returns One line without a line break, safe to print.
 * @category Log and telemetry
 */
export function formatLogLine(record: LogRecord): string {
  return printable(stringify(record));
}

/**
 * Escapes what a terminal would act on or hide.
 *
 * @param text The text.
 * @returns The text in one line, safe to print.
 */
export function printable(text: string): string {
  return text.replace(UNSAFE, escaped);
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
 * Writes to the console. What cannot be written is dropped.
 *
 * @param text The text, without a line break at its end.
 */
export function print(text: string): void {
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
    // The error's own properties throw.
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
