import { checkFunction, checkOptions, wholeNumber } from "./check_options.ts";
import { consoleSink, type LogLevel, type LogRecord, type LogSink, writeLog } from "./log.ts";

/** Records of one kind in the current window. */
interface Kind {
  readonly level: LogLevel;
  /** Fields that its records share, for the summary. */
  readonly fields: Readonly<Record<string, unknown>>;
  written: number;
  held: number;
}

/** Largest number of kinds that are told apart, by code and by path. The rest is one kind per level. */
const MAX_KINDS = 100;

const OTHER_KINDS = "other";

/** Longest path that is kept: kinds stay in memory for a window. */
const MAX_PATH_LENGTH = 200;

/**
 * Creates a log that sums up floods of records that anybody can cause. The first records of a kind in a
 * window are written as they come. The rest are counted and written as one record with `count` and
 * `periodMs`.
 *
 * A record with a `code` is a refusal, and anybody can cause one: its kind is message and code. The same
 * goes for a request without a code, such as a health probe: its kind is message, status and path.
 * The request of a delivery, which has an `eventId`, was verified, and is always written. So are all other
 * records. There are no timers: a window that is over is summed up when the next record comes, or by
 * `flush`.
 *
 * @param options The log, and the number of records that are written one by one.
 * @returns The log that sums up.
 * @throws {TypeError} If `log` is not a function.
 * @throws {RangeError} If `limit` or `windowMs` is not a positive whole number.
 *
 * @example
 * ```ts
 * import { createLogSummary, type LogRecord } from "@org/edge-base/middleware";
 * import { assertEquals } from "@std/assert";
 *
 * const records: LogRecord[] = [];
 * const summary = createLogSummary({ limit: 2, log: (record) => records.push(record) });
 * const refusal = { level: "warn", time: "", message: "request", code: "INVALID_SIG" } as const;
 * for (let i = 0; i < 10_000; i++) summary.log(refusal);
 * summary.flush();
 *
 * assertEquals(records.length, 3);
 * assertEquals(records[2]?.count, 9_998);
 * ```
 *
 * @category Log and telemetry
 */
export function createLogSummary(options: {
  /**
   * Log that the records go to.
   *
   * @default {consoleSink}
   */
  readonly log?: LogSink | undefined;
  /**
   * Number of records of one kind that are written one by one in a window.
   *
   * @default {100}
   */
  readonly limit?: number | undefined;
  /**
   * Length of the window, in milliseconds.
   *
   * @default {10_000}
   */
  readonly windowMs?: number | undefined;
} = {}): {
  /** Log to send records to. */
  readonly log: LogSink;
  /** Writes the summaries so far. Call it before the process ends, and from time to time. */
  readonly flush: () => void;
} {
  const checks = { log: checkFunction, limit: wholeNumber(), windowMs: wholeNumber() };
  checkOptions("create the log summary", options, checks);
  const { log = consoleSink, limit = 100, windowMs = 10_000 } = options;
  // Codes are constants of the program; paths are chosen by senders, and must not crowd out the codes.
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
      writeLog(log, level, "records summed up", { ...fields, count: held, periodMs });
    }
  };

  return {
    flush,
    log: (record) => {
      if (startedAt !== undefined && performance.now() - startedAt >= windowMs) flush();
      if (!anybodyCanCause(record)) return log(record);
      startedAt ??= performance.now();
      const kind = kindOf(typeof record.code === "string" ? codes : paths, record);
      if (kind.written === limit) return void kind.held++;
      kind.written++;
      log(record);
    },
  };
}

function anybodyCanCause({ code, requestId, status, eventId }: LogRecord): boolean {
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
