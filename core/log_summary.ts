import { checkFunctions, met } from "./check_options.ts";
import { consoleSink, type LogLevel, type LogRecord, type LogSink, writeLog } from "./log.ts";

/** Options of {@linkcode createLogSummary}. */
export interface LogSummaryOptions {
  /**
   * Where records go.
   *
   * @default {consoleSink}
   */
  readonly sink?: LogSink | undefined;
  /**
   * How many records of one kind are written one by one in a window.
   *
   * @default {100}
   */
  readonly limit?: number | undefined;
  /**
   * The length of the window, in milliseconds.
   *
   * @default {10_000}
   */
  readonly window?: number | undefined;
}

/** A log that sums up floods. */
export interface LogSummary {
  /** Where to send records. */
  readonly sink: LogSink;
  /** Writes what is held back so far. Call it before the end, and now and then where nothing is logged. */
  readonly flush: () => void;
}

/** Records of one kind in the current window. */
interface Kind {
  readonly level: LogLevel;
  /** What its records have in common, and its summary says. */
  readonly fields: Readonly<Record<string, unknown>>;
  written: number;
  held: number;
}

/** Past this the rest counts as one kind for each level: of codes, and of paths. */
const MAX_KINDS = 100;

const OTHER_KINDS = "other";

/** A path beyond this is cut: kinds are kept for a window. */
const MAX_PATH_LENGTH = 200;

/**
 * Creates a log that sums up floods of what anybody can cause: the first records of a kind in a window
 * are written as they come, the rest is counted and written as one record with `count` and `periodMs`.
 *
 * Anybody can cause a refusal, which is a record with a `code`: its kind is message and code. So they can
 * the records of a request without one, such as a health probe: their kind is message, status and path.
 * The request of a delivery, which has an `eventId`, was proved, and always written. So are all other
 * records. There are no timers: a window that is over is summed up when the next record comes, or by
 * `flush`.
 *
 * @param options Where records go, and how many are written.
 * @returns The log.
 * @throws {RangeError} If `limit` is not a positive integer, or `window` not a positive number.
 *
 * @example
 * ```ts
 * import { createLogSummary, type LogRecord } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * const records: LogRecord[] = [];
 * const log = createLogSummary({ limit: 2, sink: (record) => records.push(record) });
 * const refusal = { level: "warn", time: "", message: "request", code: "INVALID_SIG" } as const;
 * for (let i = 0; i < 10_000; i++) log.sink(refusal);
 * log.flush();
 *
 * assertEquals(records.length, 3);
 * assertEquals(records[2]?.count, 9_998);
 * ```
 */
export function createLogSummary(options: LogSummaryOptions = {}): LogSummary {
  const { sink = consoleSink, limit = 100, window = 10_000 } = options;
  checkFunctions("create the log summary", { sink });
  if (!Number.isSafeInteger(limit) || limit < 1) throw rangeError("limit", limit);
  if (!Number.isFinite(window) || window <= 0) throw rangeError("window", window);
  // Codes are constants of the program, and paths are anybody's: they must not use up each other's room.
  const codes = new Map<string, Kind>();
  const paths = new Map<string, Kind>();
  let startedAt: number | undefined;

  const flush = () => {
    if (startedAt === undefined) return;
    const periodMs = Math.round(performance.now() - startedAt);
    const summedUp = [...codes.values(), ...paths.values()].filter(({ held }) => held > 0);
    startedAt = undefined;
    codes.clear();
    paths.clear();
    for (const { level, fields, held } of summedUp) {
      writeLog(sink, level, "records summed up", { ...fields, count: held, periodMs });
    }
  };

  return {
    flush,
    sink: (record) => {
      if (startedAt !== undefined && performance.now() - startedAt >= window) flush();
      if (!isAnybodys(record)) return sink(record);
      startedAt ??= performance.now();
      const kind = kindOf(typeof record.code === "string" ? codes : paths, record);
      if (kind.written === limit) return void kind.held++;
      kind.written++;
      sink(record);
    },
  };
}

function isAnybodys({ code, requestId, status, eventId }: LogRecord): boolean {
  return typeof code === "string" ||
    (requestId !== undefined && typeof status === "number" && eventId === undefined);
}

function kindOf(kinds: Map<string, Kind>, record: LogRecord): Kind {
  const { level, message } = record;
  const common = inCommon(record);
  const key = [level, message, ...Object.values(common)].join(" ");
  const known = kinds.get(key);
  if (known) return known;
  const isOther = kinds.size >= MAX_KINDS;
  const otherKey = `${OTHER_KINDS} ${level}`;
  const other = isOther ? kinds.get(otherKey) : undefined;
  if (other) return other;
  const fields = isOther ? { of: OTHER_KINDS, code: OTHER_KINDS } : { of: message, ...common };
  const kind: Kind = { level, fields, written: 0, held: 0 };
  kinds.set(isOther ? otherKey : key, kind);
  return kind;
}

function inCommon({ code, status, path }: LogRecord): Readonly<Record<string, unknown>> {
  return typeof code === "string"
    ? { code }
    : { status, path: String(path).slice(0, MAX_PATH_LENGTH) };
}

function rangeError(name: string, got: unknown): RangeError {
  return new RangeError(
    `Cannot create the log summary: '${name}' must be a positive number, got ${met(got)}`,
  );
}
