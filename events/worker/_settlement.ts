import { reasonOf, textOf } from "../../core/text_of.ts";
import { type Timeouts, withDeadline } from "../../core/timeouts.ts";
import type { AttemptOutcome } from "../../telemetry/telemetry.ts";
import { NoTurnError } from "../store/event_store.ts";
import { type EventStore, type Lease, type Wait, WaitRefusedError } from "../store/mod.ts";
import { canBePutOff, isCancelRequested } from "../store/record_notes.ts";
import type { HandlerCommits } from "./_handler_commits.ts";
import type { HeldLease } from "./_held_lease.ts";
import type { JobLog } from "./_job_log.ts";
import {
  FailedAndPutOff,
  GiveUpError,
  HandledElsewhere,
  PutOffUnbegun,
  RetryLaterError,
} from "./event.ts";
import { retryDelay, type RetryPolicy } from "./retry_policy.ts";

/** Longest wait of a settlement for others to share its commit, which costs as much as a delivery's. */
const SETTLE_WITHIN_MS = 5;

/** Shortest time for which a handler puts its event off: that uses up no attempt, and could go on and on. */
const MIN_PUT_OFF_MS = 100;

/** First and longest pause between tries to settle an event. */
const SETTLE_PAUSES_MS = [200, 2_000] as const;

/** Settings of settlements. */
export interface SettlementParts {
  readonly store: EventStore;
  readonly leaseMs: number;
  readonly retry: RetryPolicy;
  readonly reportDead: boolean;
  /** Timeouts for one try to settle an event: as long as a lease. */
  readonly settling: Timeouts;
}

/** The end of an event's handler. */
export interface HandlerEnd {
  /** Thrown value, if it failed. */
  readonly failure?: { readonly error: unknown } | undefined;
  /** Set if there was no handler for the event. */
  readonly isIgnored?: boolean;
  /** Set if it failed because the worker stops: then the event is released. */
  readonly isStopped?: boolean;
  /** Set if the handler was called. */
  readonly isBegun?: boolean;
}

/**
 * The settlement of one leased event: done, ignored, tried again, put off, parked, given back or dead, by how
 * its handler has ended. It is tried until the KV permits it, as long as the lease is held.
 *
 * Whatever is asked for, the store settles an event as cancelled if its lease shows a request to cancel it.
 */
export class Settlement {
  readonly #parts: SettlementParts;
  readonly #lease: HeldLease;
  readonly #commits: HandlerCommits;
  readonly #log: JobLog;
  #outcome: AttemptOutcome = "lost";
  #failure: { readonly error: unknown } | undefined;

  /**
   * Creates the settlement of an event.
   *
   * @param parts The settings of all settlements.
   * @param lease The lease of the event.
   * @param commits The changes that its handlers want committed.
   * @param log The log of the event.
   */
  constructor(
    parts: SettlementParts,
    lease: HeldLease,
    commits: HandlerCommits,
    log: JobLog,
  ) {
    this.#parts = parts;
    this.#lease = lease;
    this.#commits = commits;
    this.#log = log;
  }

  /** The outcome so far. */
  get outcome(): AttemptOutcome {
    return this.#outcome;
  }

  /** The reason for which the attempt has failed: of the handler, or of committing what it wanted. A wait is none. */
  get failure(): { readonly error: unknown } | undefined {
    const isNone = this.#outcome === "put_off" || this.#outcome === "parked";
    return isNone ? undefined : this.#failure;
  }

  // Before the handler: an event whose processes keep dying waits, and is given up, as if it had thrown.

  /**
   * Puts off an event whose lease expired, since it may be what kills its processes: otherwise it would
   * be tried more often than one that fails. The length of the expired lease counts as waiting.
   *
   * @returns What was done: an event whose attempts are used up is given up.
   */
  async putOff(): Promise<"not" | "put_off" | "given_up"> {
    const { store, retry, leaseMs } = this.#parts;
    const { record, takenOver } = this.#lease.lease;
    if (!takenOver) return "not";
    const attempt = record.attempt - 1;
    const delayMs = retryDelay(retry, attempt);
    if (delayMs === null) {
      const last = (lease: Lease) => ({ ...lease, record: { ...lease.record, attempt } });
      const settle = (lease: Lease) =>
        this.#bury(last(lease), "Given up: its lease expired too often");
      await withDeadline(this.#settleAs("dead", settle, () => this.#reportLast()), leaseMs);
      return "given_up";
    }
    if (delayMs <= leaseMs) return "not";
    const settle = (lease: Lease) => store.release(lease, { delayMs: delayMs - leaseMs });
    await withDeadline(this.#settleAs("returned", settle), leaseMs);
    return "put_off";
  }

  // While the handler runs: the worker has stopped, and does not wait for it any longer.

  /** Releases the event, even while its handler runs. */
  async giveBack(isBegun: boolean): Promise<void> {
    try {
      const { store } = this.#parts;
      const lease = await this.#lease.giveBack((lease) => store.release(lease, { isBegun }));
      const report = () => this.#log.report("warn", "event given back while its handler runs");
      if (lease) this.#settledAs("returned", lease, isBegun ? report : undefined);
    } catch (error) {
      this.#log.report("error", "event not given back", { error });
    }
  }

  /** Fails an event whose handler has not ended after its time limit: else it would hang the next process. */
  async giveUpWaiting(limitMs: number): Promise<void> {
    const { store, retry } = this.#parts;
    const error = new Error(`Still running after its time limit of ${limitMs} ms`);
    const retryInMs = retryDelay(retry, this.#lease.record.attempt);
    try {
      const lease = await this.#lease.giveBack((lease) =>
        retryInMs === null ? this.#bury(lease, error) : store.retry(lease, retryInMs, error)
      );
      const report = () => {
        if (retryInMs === null) this.#reportLast({ error });
        else this.#log.report("warn", "event failed, to be tried again", { error, retryInMs });
      };
      if (lease) this.#settledAs(retryInMs === null ? "dead" : "retried", lease, report);
    } catch (error) {
      this.#log.report("error", "event not given back", { error });
    }
  }

  // After the handler.

  /** Settles the event, as soon as the KV permits. */
  async settle(end: HandlerEnd): Promise<void> {
    this.#failure = end.failure;
    const [first, longest] = SETTLE_PAUSES_MS;
    for (let pauseMs = first as number; this.#lease.isHeld; pauseMs *= 2) {
      try {
        await this.#parts.settling.limit(this.#settleOnce(end));
        break;
      } catch (error) {
        this.#log.report("error", "event not settled yet", { error });
        if (error instanceof Deno.errors.BadResource) break;
      }
      await this.#lease.pause(Math.min(pauseMs, longest));
    }
    await this.#lease.end();
  }

  /** Tries to settle the event. Effects that cannot be committed make a failure of a success. */
  async #settleOnce(end: HandlerEnd): Promise<void> {
    const commits = this.#commits;
    if (commits.wait) return await this.#settleParked(commits.wait, end);
    if (this.#failure) return await this.#settleFailed(this.#failure.error, end);
    try {
      await this.#settleHandled(end);
    } catch (error) {
      // Nothing was tried: it says nothing about what is to be committed.
      if (error instanceof NoTurnError) throw error;
      const isTooMuch = commits.emits !== undefined && error instanceof RangeError;
      if (!commits.effects && !commits.wakes && !isTooMuch) throw error;
      this.#failure = { error: await commits.reasonOf(error) };
      await this.#settleFailed(this.#failure.error, end);
    }
  }

  #settleHandled({ isIgnored = false }: HandlerEnd): Promise<void> {
    const { store } = this.#parts;
    const outcome = isIgnored ? "ignored" : "handled";
    const { effects, emits, wakes } = this.#commits;
    const options = effects
      ? { effects, emits, wakes, outcome } as const
      : { withinMs: SETTLE_WITHIN_MS, emits, wakes, outcome } as const;
    const report = isIgnored ? () => this.#log.reportEnd("debug", "event ignored") : undefined;
    return this.#settleAs(outcome, (lease) => store.complete(lease, options), report);
  }

  /** Parks an event whose handler waits, however that has ended. */
  async #settleParked(wait: Wait, end: HandlerEnd): Promise<void> {
    const { name, timeoutMs } = wait;
    const report = () => this.#log.report("info", "event parked", { waitsFor: name, timeoutMs });
    const park = (lease: Lease) => this.#parts.store.park(lease, wait);
    try {
      await this.#settleAs("parked", park, report);
    } catch (error) {
      // Another event has begun to wait for the same name meanwhile.
      if (!(error instanceof WaitRefusedError)) throw error;
      this.#commits.dropWait();
      this.#failure = { error };
      await this.#settleFailed(error, end);
    }
  }

  /** Settles an event whose handler failed: it is put off, released, tried again later, or dead. */
  #settleFailed(error: unknown, { isStopped = false, isBegun = false }: HandlerEnd): Promise<void> {
    const { store, retry } = this.#parts;
    if (error instanceof HandledElsewhere) return this.#settlePutOff(error, error.afterMs);
    const afterMs = this.#putOffMs(error);
    if (afterMs !== undefined && error instanceof RetryLaterError) {
      return this.#settlePutOff(error, afterMs);
    }
    if (isStopped) {
      const report = () => this.#log.report("info", "event given back");
      return this.#settleAs("returned", (lease) => store.release(lease, { isBegun }), report);
    }
    const bury = (lease: Lease) => this.#bury(lease, error);
    if (error instanceof GiveUpError || this.#waitsInBatch(error)) {
      const report = () => this.#log.reportEnd("warn", "event given up, now dead", { error });
      return this.#settleAs("dead", bury, report);
    }
    const delayMs = retryDelay(retry, this.#lease.record.attempt);
    if (delayMs === null) return this.#settleAs("dead", bury, () => this.#reportLast({ error }));
    const retryInMs = Math.max(delayMs, afterMs ?? 0);
    const options = afterMs === undefined ? undefined : { reason: error };
    const again = (lease: Lease) => store.retry(lease, retryInMs, error, options);
    const report = () =>
      this.#log.report("warn", "event failed, to be tried again", { error, retryInMs });
    return this.#settleAs("retried", again, report);
  }

  /** Settles an event that its handler puts off. */
  #settlePutOff(error: RetryLaterError, afterMs: number): Promise<void> {
    const isUnhandled = error instanceof HandledElsewhere;
    const isBegun = !isUnhandled && !(error instanceof PutOffUnbegun);
    const options = { delayMs: afterMs, isBegun, isUnhandled, reason: textOf(error.message) };
    const report = () =>
      this.#log.report("info", "event put off", { reason: reasonOf(error), afterMs });
    const settle = (lease: Lease) => this.#parts.store.release(lease, options);
    return this.#settleAs("put_off", settle, report);
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

  #bury(lease: Lease, error: unknown): Promise<boolean> {
    const { store, reportDead } = this.#parts;
    return store.bury(lease, error, reportDead ? { reports: true } : undefined);
  }

  /**
   * Settles the event in one way.
   *
   * @param outcome The state that it gets, as an outcome of the attempt.
   * @param settle Settles it, and may be called twice.
   * @param report Logs that.
   */
  async #settleAs(
    outcome: AttemptOutcome,
    settle: (lease: Lease) => Promise<boolean>,
    report?: () => void,
  ): Promise<void> {
    const lease = await this.#lease.settle(settle);
    if (lease) this.#settledAs(outcome, lease, report);
    else if (this.#lease.isHeld) this.#log.report("warn", "lease lost, event not settled");
  }

  /** Notes how the event was settled: with a lease that shows a request to cancel, as cancelled. */
  #settledAs(outcome: AttemptOutcome, { record }: Lease, report?: () => void): void {
    const isCancelled = isCancelRequested(record);
    this.#outcome = isCancelled ? "cancelled" : outcome;
    if (isCancelled) this.#log.reportEnd("info", "event cancelled");
    else if (report) report();
    else if (outcome === "handled") {
      const emitted = this.#commits.emits?.length;
      this.#log.reportEnd("info", "event handled", emitted === undefined ? {} : { emitted });
    }
  }

  #reportLast(fields?: object): void {
    this.#log.reportEnd("error", "event failed for the last time, now dead", fields);
  }
}
