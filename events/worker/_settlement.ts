import type { LogLevel } from "../../core/mod.ts";
import { reasonOf, textOf } from "../../core/text_of.ts";
import { type Timeouts, withDeadline } from "../../core/timeouts.ts";
import type { AttemptOutcome } from "../../telemetry/telemetry.ts";
import { ClosedError, NoTurnError } from "../store/engine.ts";
import { dueRules, type FailingRule } from "../store/failing.ts";
import { type EventStore, type Lease, WaitRefusedError } from "../store/mod.ts";
import { canBePutOff, isCancelRequested } from "../store/settlement.ts";
import type { Wait } from "../store/waits.ts";
import type { HeldLease } from "./_held_lease.ts";
import { comesOf } from "./_newer.ts";
import {
  FailedAndPutOff,
  GiveUpError,
  HandledElsewhere,
  type NewerEventError,
  PutOffUnbegun,
  RetryLaterError,
} from "./event.ts";
import type { HandlerRun } from "./handler_run.ts";
import { type HandlerPlans, longestDelay } from "./handler_plans.ts";

/** Longest wait of a settlement for others to share its commit, which costs as much as a delivery's. */
const SETTLE_WITHIN_MS = 5;

/** Shortest time for which a handler puts its event off: that uses up no attempt, and could go on and on. */
const MIN_PUT_OFF_MS = 100;

/** First and longest pause between tries to settle an event. */
const SETTLE_PAUSES_MS = [200, 2_000] as const;

/** Outcomes of attempts that have not failed, although their handlers have thrown. */
const UNFAILED: ReadonlySet<AttemptOutcome> = new Set(["put_off", "parked", "interrupted"]);

/** Settings of settlements. */
export interface SettlementParts {
  readonly store: EventStore;
  readonly leaseMs: number;
  /** The plans of the handlers: by them events are tried again. */
  readonly plans: HandlerPlans;
  readonly reportDead: boolean;
  readonly reportFailing: readonly FailingRule[];
  /** Timeouts for one try to settle an event: as long as a lease. */
  readonly settling: Timeouts;
}

/** The end of an event's handler. */
interface HandlerEnd {
  /** Its run, if it was called, with what it has added to the commit. */
  readonly run: HandlerRun | undefined;
  /** Thrown value, if it failed. */
  readonly failure: { readonly error: unknown } | undefined;
  /** Set if there was no handler for the event. */
  readonly isIgnored: boolean;
  /** Set if it failed because the worker stops: then the event is released. */
  readonly isStopped: boolean;
  /** The reason with which a newer event has aborted its signal, if one has. */
  readonly interruption: NewerEventError | undefined;
}

/** The lines that are logged about an event. */
export interface EventLog {
  /** Reports something about the event. */
  report(level: LogLevel, message: string, fields?: object): void;
  /** Reports its end and, in a line for each, the end of the events that were handled together with it. */
  reportEnd(level: LogLevel, message: string, fields?: object): void;
}

/** A way to settle an event. */
interface Way {
  /** The state that it gets, as an outcome of the attempt. */
  readonly outcome: AttemptOutcome;
  /** Settles it, and may be called twice. */
  settle(lease: Lease): Promise<boolean>;
  /** Logs that. */
  readonly report?: (() => void) | undefined;
}

/**
 * The settlement of one leased event: done, ignored, tried again, put off, parked, given back or dead, by how
 * its handler has ended. It is tried until the store permits it, as long as the lease is held.
 *
 * Whatever is asked for, the store settles an event as cancelled if its lease shows a request to cancel it.
 */
export class Settlement {
  readonly #parts: SettlementParts;
  readonly #lease: HeldLease;
  readonly #log: EventLog;
  #outcome: AttemptOutcome = "lost";
  #failure: { readonly error: unknown } | undefined;

  /**
   * Creates the settlement of an event.
   *
   * @param parts The settings of all settlements.
   * @param lease The lease of the event.
   * @param log The log of the event.
   */
  constructor(parts: SettlementParts, lease: HeldLease, log: EventLog) {
    this.#parts = parts;
    this.#lease = lease;
    this.#log = log;
  }

  /** The outcome so far. */
  get outcome(): AttemptOutcome {
    return this.#outcome;
  }

  /** Reason why the attempt failed: handler or commit. Waiting is not failing. */
  get failure(): { readonly error: unknown } | undefined {
    return UNFAILED.has(this.#outcome) ? undefined : this.#failure;
  }

  // Before the handler: an event whose processes keep dying waits, and is given up, as if it had thrown.

  /**
   * Puts off an event whose lease expired, since it may be what kills its processes: otherwise it would
   * be tried more often than one that fails. The length of the expired lease counts as waiting.
   *
   * @returns What was done: an event whose attempts are used up is given up.
   */
  async putOff(): Promise<"not" | "put_off" | "given_up"> {
    const { store, plans, leaseMs, reportFailing } = this.#parts;
    const attempt = this.#lease.record.attempt - 1;
    const delayMs = longestDelay(plans.retriesOf({ ...this.#lease.record, attempt }), attempt);
    const leftMs = Math.max(0, (delayMs ?? 0) - leaseMs);
    const isOver = delayMs !== null && delayMs <= leaseMs;
    if (isOver && !this.#isToBeReported(attempt)) return "not";
    const way: Way = delayMs === null
      ? {
        outcome: "dead",
        settle: (lease) =>
          this.#bury(
            { ...lease, record: { ...lease.record, attempt } },
            "Given up: its lease expired too often",
          ),
        report: () => this.#reportLast(),
      }
      : {
        outcome: "returned",
        settle: (lease) => store.release(lease, { delayMs: leftMs, reports: reportFailing }),
      };
    await withDeadline(this.#settleAs(way), leaseMs);
    return delayMs === null ? "given_up" : "put_off";
  }

  /** Checks whether it is to be reported that the event fails: it is given back for that. */
  #isToBeReported(attempt: number): boolean {
    const { reportFailing } = this.#parts;
    if (reportFailing.length === 0) return false;
    const now = Date.now();
    return dueRules({ ...this.#lease.record, attempt, dueAt: now }, reportFailing, now).length > 0;
  }

  // While the handler runs: the worker has stopped, and does not wait for it any longer.

  /** Releases the event, even while its handler runs. */
  async giveBack(isBegun: boolean, delayMs?: number, limit?: string): Promise<void> {
    const report = () => this.#log.report("warn", "event given back while its handler runs");
    await this.#giveBackAs({
      ...this.#released(isBegun, delayMs, limit),
      report: isBegun ? report : undefined,
    });
  }

  /** Fails an event whose handler has not ended after its time limit: else it would hang the next process. */
  async giveUpWaiting(limitMs: number): Promise<void> {
    const error = new Error(`Still running after its time limit of ${limitMs} ms`);
    this.#failure = { error };
    await this.#giveBackAs(this.#triedAgain(error, undefined));
  }

  async #giveBackAs({ outcome, settle, report }: Way): Promise<void> {
    try {
      const lease = await this.#lease.giveBack(settle);
      if (lease) this.#settledAs(outcome, lease, report);
    } catch (error) {
      this.#log.report("error", "event not given back", { error });
    }
  }

  // After the handler.

  /** Settles the event, as soon as the store permits. */
  async settle(end: HandlerEnd): Promise<void> {
    this.#failure = end.failure;
    const [first, longest] = SETTLE_PAUSES_MS;
    for (let pauseMs = first as number; this.#lease.isHeld; pauseMs *= 2) {
      try {
        await this.#parts.settling.limit(this.#settleOnce(end));
        break;
      } catch (error) {
        this.#log.report("error", "event not settled yet", { error });
        if (error instanceof ClosedError) break;
      }
      await this.#lease.pause(Math.min(pauseMs, longest));
    }
    await this.#lease.end();
  }

  /** Tries to settle the event. A success whose effects cannot be committed is a failure. */
  async #settleOnce(end: HandlerEnd): Promise<void> {
    const { run } = end;
    if (run?.wait) return await this.#settleParked(run, run.wait, end);
    if (this.#failure) return await this.#settleAs(this.#failed(this.#failure.error, end));
    try {
      await this.#settleAs(this.#handled(end));
    } catch (error) {
      // Nothing was tried: it says nothing about what is to be committed.
      if (error instanceof NoTurnError) throw error;
      const isTooMuch = run?.emits !== undefined && error instanceof RangeError;
      if (!run?.effects && !run?.cells && !run?.wakes && !isTooMuch) throw error;
      this.#failure = { error: await run!.reasonOf(error) };
      await this.#settleAs(this.#failed(this.#failure.error, end));
    }
  }

  /** Parks an event whose handler waits, however that has ended. */
  async #settleParked(run: HandlerRun, wait: Wait, end: HandlerEnd): Promise<void> {
    const { name, timeoutMs } = wait;
    try {
      await this.#settleAs({
        outcome: "parked",
        settle: (lease) => this.#parts.store.park(lease, wait),
        report: () => this.#log.report("info", "event parked", { waitsFor: name, timeoutMs }),
      });
    } catch (error) {
      // Another event has begun to wait for the same name meanwhile.
      if (!(error instanceof WaitRefusedError)) throw error;
      run.dropWait();
      this.#failure = { error };
      await this.#settleAs(this.#failed(error, end));
    }
  }

  #handled({ run, isIgnored }: HandlerEnd): Way {
    const { store } = this.#parts;
    const outcome = isIgnored ? "ignored" : "handled";
    const { effects, cells, emits, wakes } = run ?? {};
    const withinMs = effects || cells ? undefined : SETTLE_WITHIN_MS;
    const options = { effects, cells, emits, wakes, withinMs, outcome } as const;
    return {
      outcome,
      settle: (lease) => store.complete(lease, options),
      report: () => {
        if (isIgnored) this.#log.reportEnd("debug", "event ignored");
        else this.#log.reportEnd("info", "event handled", emits && { emitted: emits.length });
      },
    };
  }

  /** Finds the way for an event whose handler failed: it is put off, released, tried again later, or dead. */
  #failed(error: unknown, { isStopped, run, interruption }: HandlerEnd): Way {
    if (interruption && comesOf(error, interruption)) return this.#interrupted(interruption);
    if (error instanceof HandledElsewhere) return this.#putOff(error, error.afterMs);
    const afterMs = this.#putOffMs(error);
    if (afterMs !== undefined && error instanceof RetryLaterError) {
      return this.#putOff(error, afterMs);
    }
    if (isStopped) return this.#released(run !== undefined);
    if (!(error instanceof GiveUpError) && !this.#waitsInBatch(error)) {
      return this.#triedAgain(error, run, { afterMs, newerEventId: interruption?.eventId });
    }
    return {
      outcome: "dead",
      settle: (lease) => this.#bury(lease, error, run),
      report: () => this.#log.reportEnd("warn", "event given up, now dead", { error }),
    };
  }

  /** The way for an event that is handled anew, together with a newer one. */
  #interrupted({ eventId: newerEventId }: NewerEventError): Way {
    return {
      outcome: "interrupted",
      settle: (lease) => this.#parts.store.interrupt(lease, newerEventId),
      report: () => this.#log.report("info", "handler interrupted", { newerEventId }),
    };
  }

  /**
   * The way for an event that is tried again, or dead after its last attempt. The log names a newer event that has aborted
   * its signal: the error does not tell.
   */
  #triedAgain(
    error: unknown,
    run: HandlerRun | undefined,
    { afterMs, newerEventId }: { afterMs?: number | undefined; newerEventId?: string | undefined } =
      {},
  ): Way {
    const { store, plans, reportFailing: reports } = this.#parts;
    const { record } = this.#lease;
    const delayMs = longestDelay(run?.retries ?? plans.retriesOf(record), record.attempt);
    if (delayMs === null) {
      return {
        outcome: "dead",
        settle: (lease) => this.#bury(lease, error, run),
        report: () => this.#reportLast({ error }),
      };
    }
    const retryInMs = Math.max(delayMs, afterMs ?? 0);
    const handler = run?.failedIn;
    const options = { reports, handler, ...(afterMs !== undefined && { reason: error }) };
    return {
      outcome: "retried",
      settle: (lease) => store.retry(lease, retryInMs, error, options),
      report: () =>
        this.#log.report("warn", "event failed, to be tried again", {
          ...{ error, retryInMs },
          ...(newerEventId !== undefined && { newerEventId }),
        }),
    };
  }

  #released(isBegun: boolean, delayMs?: number, limit?: string): Way {
    // Only an event that waits for a limit has a delay.
    const options = { isBegun, delayMs, isLimited: delayMs !== undefined, limit };
    return {
      outcome: "returned",
      settle: (lease) => this.#parts.store.release(lease, options),
      report: () => this.#log.report("info", "event given back"),
    };
  }

  /** The way for an event that its handler puts off. */
  #putOff(error: RetryLaterError, afterMs: number): Way {
    const isUnhandled = error instanceof HandledElsewhere;
    const isBegun = !isUnhandled && !(error instanceof PutOffUnbegun);
    const options = { delayMs: afterMs, isBegun, isUnhandled, reason: textOf(error.message) };
    return {
      outcome: "put_off",
      settle: (lease) => this.#parts.store.release(lease, options),
      report: () => this.#log.report("info", "event put off", { reason: reasonOf(error), afterMs }),
    };
  }

  /** Reads for how long the event is to be put off; undefined if it is not, or was for too long. */
  #putOffMs(error: unknown): number | undefined {
    if (!(error instanceof RetryLaterError || error instanceof FailedAndPutOff)) return undefined;
    if (!canBePutOff(this.#lease.record, Date.now())) return undefined;
    return Math.max(Math.ceil(error.afterMs) || 0, MIN_PUT_OFF_MS);
  }

  /** Checks whether a handler has failed because events of a batch cannot wait: no later attempt can. */
  #waitsInBatch(error: unknown): boolean {
    const { events = 1 } = this.#lease.record.batch ?? {};
    return events > 1 && error instanceof WaitRefusedError;
  }

  #bury(lease: Lease, error: unknown, run?: HandlerRun): Promise<boolean> {
    const { store, reportDead: reports } = this.#parts;
    return store.bury(lease, error, { reports, handler: run?.failedIn });
  }

  async #settleAs({ outcome, settle, report }: Way): Promise<void> {
    const lease = await this.#lease.settle(settle);
    if (lease) this.#settledAs(outcome, lease, report);
    else if (this.#lease.isHeld) this.#log.report("warn", "lease lost, event not settled");
  }

  /** Notes how the event was settled: with a lease that shows a request to cancel, as cancelled. */
  #settledAs(outcome: AttemptOutcome, { record }: Lease, report?: () => void): void {
    const isCancelled = isCancelRequested(record);
    this.#outcome = isCancelled ? "cancelled" : outcome;
    if (isCancelled) this.#log.reportEnd("info", "event cancelled");
    else report?.();
  }

  #reportLast(fields?: object): void {
    this.#log.reportEnd("error", "event failed for the last time, now dead", fields);
  }
}
