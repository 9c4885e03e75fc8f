import { checkFunctions, met } from "../../core/check_options.ts";
import { consoleSink, type LogSink } from "../../core/mod.ts";
import type { Telemetry } from "../../telemetry/mod.ts";
import { checkRetryPolicy, type RetryPolicy } from "./retry_policy.ts";

/** The longest delay of a timer: 2^31 - 1 ms. Beyond, it fires at once. */
export const MAX_TIMER_MS = 2_147_483_647;

/** More handlers than this in one process are a mistake, and one claim reads no more. */
const MAX_CONCURRENCY = 10_000;

/** Options of {@linkcode startWorker}. */
export interface WorkerOptions {
  /**
   * How many events are handled at the same time.
   *
   * @default {10}
   */
  readonly concurrency?: number | undefined;
  /**
   * How long an event is leased, in milliseconds. The lease is renewed while the handler runs; when the
   * process dies, another takes the event over after this time.
   *
   * @default {30_000}
   */
  readonly leaseMs?: number | undefined;
  /**
   * How often the schedule is looked at without a ring, in milliseconds: how late a retry, or an event
   * taken in by another process, can be noticed.
   *
   * @default {1_000}
   */
  readonly pollMs?: number | undefined;
  /** When a failed event is tried again. */
  readonly retry?: RetryPolicy | undefined;
  /**
   * Where the worker reports failures.
   *
   * @default {consoleSink}
   */
  readonly log?: LogSink | undefined;
  /**
   * Where the worker reports attempts, and how long events have waited.
   *
   * @default {undefined} Nowhere.
   */
  readonly telemetry?: Telemetry | undefined;
}

/**
 * Fills in what options leave open, and checks them.
 *
 * @param options The options.
 * @returns The options with all members.
 * @throws {TypeError} If `log` is no function, or `retry` no object.
 * @throws {RangeError} If a number makes no sense.
 */
export function withDefaults(options: WorkerOptions): {
  readonly concurrency: number;
  readonly leaseMs: number;
  readonly pollMs: number;
  readonly retry: RetryPolicy;
  readonly log: LogSink;
  readonly telemetry: Telemetry | undefined;
} {
  const { concurrency = 10, leaseMs = 30_000, pollMs = 1_000 } = options;
  const { retry = {}, log = consoleSink, telemetry } = options;
  checkFunctions("start the worker", { log: options.log });
  checkInteger("concurrency", concurrency, MAX_CONCURRENCY);
  checkInteger("leaseMs", leaseMs, MAX_TIMER_MS);
  checkInteger("pollMs", pollMs, MAX_TIMER_MS);
  checkRetryPolicy(retry);
  return { concurrency, leaseMs, pollMs, retry, log, telemetry };
}

function checkInteger(name: string, value: number, max: number): void {
  if (Number.isInteger(value) && value >= 1 && value <= max) return;
  throw new RangeError(
    `Cannot start the worker: '${name}' must be a whole number from 1 to ${max}, got ${met(value)}`,
  );
}
