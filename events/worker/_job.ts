import { type LogLevel, type LogSink, writeLog } from "../../core/mod.ts";
import type { JsonObject } from "../../core/parse_json.ts";
import { lookable } from "../../core/text_of.ts";
import { type Timeout, Timeouts, withDeadline } from "../../core/timeouts.ts";
import type { Attempt, AttemptOutcome, Telemetry } from "../../telemetry/mod.ts";
import type { CommitEffects, EventStore, Lease } from "../store/mod.ts";
import { hasBegun, isCancelRequested } from "../store/transitions.ts";
import { HeldLease } from "./_held_lease.ts";
import {
  type EventHandler,
  GiveUpError,
  type HandlerContext,
  type LimitedContext,
  NoHandler,
  TIME_LIMIT,
  toEvent,
  type WebhookEvent,
} from "./event.ts";
import { retryDelay, type RetryPolicy } from "./retry_policy.ts";

/** Settings and timeouts that all jobs of a worker share. */
export interface JobParts {
  readonly store: EventStore;
  readonly handler: EventHandler;
  readonly leaseMs: number;
  readonly timeoutMs: number;
  readonly retry: RetryPolicy;
  readonly log: LogSink;
  readonly telemetry: Telemetry | undefined;
  /** Timeouts for one try to settle an event: as long as a lease. */
  readonly settling: Timeouts;
  /** Timeouts after which a lease is renewed. */
  readonly renewals: Timeouts;
  /** Timeouts of the handlers. */
  readonly limits: Timeouts;
}

/** Places that a job reports to while it runs. */
export interface JobListener {
  /** Called once another event can have the job's place: its handler has ended, or is overdue. */
  onFree(): void;
  /** Called before that if the handler has reached its time limit and still runs. */
  onOverdue(job: Job): void;
  /** Called once an overdue handler has ended. */
  onLateEnd(job: Job): void;
}

/** Longest wait of a settlement for others to share its commit, which costs as much as a delivery's. */
const SETTLE_WITHIN_MS = 5;

/** Shortest time between two log records about a handler that is overdue. */
const REMIND_MS = 60_000;

/** First and longest pause between tries to settle an event. */
const SETTLE_PAUSES_MS = [200, 2_000] as const;

/**
 * The run of one leased event, in steps: put it off if its processes keep dying, load its payload, call
 * the handler, settle it by how the handler ended. Meanwhile its lease is renewed.
 *
 * Four things can happen to it on the way. If the lease is lost, the event is another worker's: the
 * handler's signal is aborted and nothing is settled. If somebody asks to cancel the event, the signal is
 * aborted too, but the lease is kept until the handler has ended, so that nothing of the same ordering
 * key starts beside it; then the store settles the event as cancelled, whatever it is asked for. If the
 * worker stops, the signal is aborted, and a handler that throws because of that has its event released.
 * If the handler reaches its time limit, the signal is aborted and another event gets its place; the
 * lease is kept, and how the handler ends decides, however late that is.
 */
export class Job {
  readonly #parts: JobParts;
  readonly #lease: HeldLease;
  /** Size of the payload that is in memory before the event is loaded. */
  readonly bytes: number;
  #body: Uint8Array<ArrayBuffer> | undefined;
  #payload: JsonObject | undefined;
  #effects: CommitEffects[] | undefined;
  /** Parts whose checkpoint may or may not be stored, and how often each had been noted before. */
  #uncertain: Map<string, number> | undefined;
  #stopping = false;
  /** Set if there was no handler for the event. */
  #isIgnored = false;
  #handlerEnded = false;
  /** Time at which the handler was called, by the monotonic clock; undefined before that. */
  #startedAt: number | undefined;
  /** Time that the handler took, in milliseconds, once it has ended. */
  #tookMs: number | undefined;
  #limit: Timeout | undefined;
  /** Timeouts that a router has started for some of the event's handlers. */
  readonly #limits: Timeout[] = [];
  #limitMs: number;
  #listener: JobListener | undefined;
  #isOverdue = false;
  #attempt: Attempt | undefined;
  /** Set if the handler, or committing its effects, failed. */
  #failure: { readonly error: unknown } | undefined;
  #outcome: AttemptOutcome = "lost";

  /**
   * Creates a job that waits for its run.
   *
   * @param parts The settings of all jobs.
   * @param lease The lease of the event.
   * @param leasedAt The time at which it was asked for, by the monotonic clock.
   * @param body The event's payload, if it is in memory already.
   * @param payload The same, if it was parsed already.
   */
  constructor(
    parts: JobParts,
    lease: Lease,
    leasedAt: number,
    body: Uint8Array<ArrayBuffer> | undefined,
    payload?: JsonObject,
  ) {
    this.#parts = parts;
    this.#lease = new HeldLease(parts, lease, leasedAt, this.#report);
    this.#body = body;
    this.#payload = payload;
    this.bytes = body?.byteLength ?? 0;
    this.#limitMs = parts.timeoutMs;
  }

  /** The event's id. */
  get id(): string {
    return this.#lease.record.id;
  }

  /** True while this worker holds the event's lease. */
  get isHeld(): boolean {
    return this.#lease.isHeld;
  }

  /** Time since the event was leased, in milliseconds. */
  get ageMs(): number {
    return this.#lease.ageMs;
  }

  get #isRunning(): boolean {
    return this.#startedAt !== undefined && !this.#handlerEnded;
  }

  /** Time for which the handler has run, in milliseconds. */
  get #durationMs(): number | undefined {
    if (this.#startedAt === undefined) return undefined;
    return this.#tookMs ?? Math.round((performance.now() - this.#startedAt) * 1_000) / 1_000;
  }

  /** Aborts the handler because the worker stops. If the handler throws, the event is released. */
  stop(): void {
    this.#stopping = true;
    this.#lease.abort("The worker stops");
  }

  /** Aborts the handler because somebody wants the event cancelled. */
  cancel(): void {
    this.#lease.cancel();
  }

  /** Releases the event, even while its handler runs. */
  async giveBack(): Promise<void> {
    for (const limit of [this.#limit, ...this.#limits]) limit?.cancel();
    if (this.#isOverdue && this.#isRunning) return await this.#giveUpWaiting();
    const isBegun = this.#isRunning;
    try {
      const { store } = this.#parts;
      const lease = await this.#lease.giveBack((lease) => store.release(lease, { isBegun }));
      const report = () => this.#report("warn", "event given back while its handler runs");
      if (lease) this.#settledAs("returned", lease, isBegun ? report : undefined);
    } catch (error) {
      this.#report("error", "event not given back", { error });
    }
  }

  /** Fails an event whose handler has not ended after its time limit: else it would hang the next process. */
  async #giveUpWaiting(): Promise<void> {
    const { store, retry } = this.#parts;
    const error = new Error(`Still running after its time limit of ${this.#limitMs} ms`);
    const retryInMs = retryDelay(retry, this.#lease.record.attempt);
    try {
      const lease = await this.#lease.giveBack((lease) =>
        retryInMs === null ? store.bury(lease, error) : store.retry(lease, retryInMs, error)
      );
      const report = retryInMs === null
        ? () => this.#reportLast({ error })
        : () => this.#report("warn", "event failed, to be tried again", { error, retryInMs });
      if (lease) this.#settledAs(retryInMs === null ? "dead" : "retried", lease, report);
    } catch (error) {
      this.#report("error", "event not given back", { error });
    }
  }

  /**
   * Runs the event, from its lease to its settlement.
   *
   * @param listener The place that it reports to.
   */
  async run(listener: JobListener): Promise<void> {
    this.#listener = listener;
    const isHandled = await this.#handle();
    this.#limit?.cancel();
    // Settling takes a while: what is still referenced then is copied by the garbage collector.
    this.#body = this.#payload = undefined;
    this.#tookMs = this.#durationMs;
    this.#handlerEnded = true;
    this.#attempt?.handlerEnded();
    if (this.#isOverdue) listener.onLateEnd(this);
    else listener.onFree();
    if (isHandled) await this.#settle();
  }

  /** Takes the steps before the settlement; false if the event was put off. */
  async #handle(): Promise<boolean> {
    try {
      if (await this.#putOff()) {
        this.#lease.end();
        return false;
      }
      this.#lease.keep();
      this.#attempt = this.#parts.telemetry?.attempt(this.#lease.record);
      if (this.#attempt) await this.#attempt.run(() => this.#callHandler());
      else await this.#callHandler();
    } catch (error) {
      this.#failure = { error: lookable(error) };
    }
    return true;
  }

  // Step 1: an event whose processes keep dying waits, and is given up, like one whose handler throws.

  /**
   * Puts off an event whose lease expired, since it may be what kills its processes: otherwise it would
   * be tried more often than one that fails. The length of the expired lease counts as waiting.
   */
  async #putOff(): Promise<boolean> {
    const { store, retry, leaseMs } = this.#parts;
    const { record, takenOver } = this.#lease.lease;
    if (!takenOver) return false;
    const attempt = record.attempt - 1;
    const delayMs = retryDelay(retry, attempt);
    if (delayMs === null) {
      const last = (lease: Lease) => ({ ...lease, record: { ...lease.record, attempt } });
      const settle = (lease: Lease) =>
        store.bury(last(lease), "Given up: its lease expired too often");
      await withDeadline(this.#settleAs("dead", settle, () => this.#reportLast()), leaseMs);
      this.#parts.telemetry?.attempt({ ...record, attempt }).settled(this.#outcome);
      return true;
    }
    if (delayMs <= leaseMs) return false;
    const settle = (lease: Lease) => store.release(lease, { delayMs: delayMs - leaseMs });
    await withDeadline(this.#settleAs("returned", settle), leaseMs);
    return true;
  }

  // Steps 2 and 3: load and handle.

  async #callHandler(): Promise<void> {
    const event = await this.#load();
    // Loading may take long. By now the event may be another worker's, or be cancelled.
    if (!this.isHeld) return;
    if (this.#lease.isCancelled) {
      throw new Error("The event was cancelled before its handler started");
    }
    const { handler, limits, timeoutMs, store: { kv } } = this.#parts;
    const { signal, record: { progress = [] } } = this.#lease;
    this.#startedAt = performance.now();
    this.#limit = limits.start(this.#onLimit);
    const context: LimitedContext = {
      signal,
      log: this.#log,
      kv,
      settleWith: this.#settleWith,
      progress,
      checkpoint: this.#checkpoint,
      [TIME_LIMIT]: { ms: timeoutMs, change: this.#changeLimit, start: this.#startLimit },
    };
    try {
      await handler(event, context);
    } catch (thrown) {
      const error = lookable(thrown);
      const isBegun = this.#effects !== undefined || hasBegun(this.#lease.record);
      if (!(error instanceof NoHandler) || isBegun) throw error;
      this.#isIgnored = true;
    }
  }

  async #load(): Promise<WebhookEvent> {
    const { store, leaseMs } = this.#parts;
    const { lease, record } = this.#lease;
    if (this.#body) return toEvent(record, this.#body, this.#payload);
    return toEvent(record, await withDeadline(store.load(lease), leaseMs));
  }

  readonly #log: LogSink = (record) =>
    this.#parts.log({ ...record, eventId: record.eventId ?? this.id });

  readonly #startLimit = (ms: number, onLimit: () => void): Timeout => {
    const limit = new Timeouts(ms).start(onLimit);
    this.#limits.push(limit);
    return limit;
  };

  readonly #changeLimit = (ms: number): void => {
    if (this.#handlerEnded || this.#isOverdue) return;
    this.#limit?.cancel();
    this.#limitMs = ms;
    this.#limit = new Timeouts(ms).start(this.#onLimit);
  };

  /** Frees the place of a handler that has reached its time limit, and reports it from time to time. */
  readonly #onLimit = (): void => {
    this.#limit = new Timeouts(Math.max(this.#limitMs, REMIND_MS)).start(this.#onLimit);
    this.#report("error", "handler still running", { timeoutMs: this.#limitMs });
    if (this.#isOverdue) return;
    this.#isOverdue = true;
    this.#lease.abort(`The handler has reached its time limit of ${this.#limitMs} ms`);
    this.#listener!.onOverdue(this);
    this.#listener!.onFree();
  };

  readonly #settleWith: HandlerContext["settleWith"] = (effects) => {
    if (this.#handlerEnded) {
      throw new TypeError("Cannot settle with effects: the handler has ended");
    }
    (this.#effects ??= []).push(effects);
  };

  readonly #checkpoint: HandlerContext["checkpoint"] = async (part, effects) => {
    if (this.#handlerEnded) throw new TypeError("Cannot note progress: the handler has ended");
    const add = effects && committing([effects]);
    let before = this.#uncertain?.get(part);
    const note = (lease: Lease) => {
      if (this.#lease.isCancelled) throw new Error("Cannot note progress: the event was cancelled");
      before ??= timesNoted(lease, part);
      return this.#note(lease, { part, before, effects: add });
    };
    try {
      if (await this.#lease.change(note, this.#parts.leaseMs / 3)) {
        return void this.#uncertain?.delete(part);
      }
    } catch (error) {
      if (before !== undefined) (this.#uncertain ??= new Map()).set(part, before);
      throw error;
    }
    this.#lease.lose("lease lost, handler aborted");
    throw new Error("Cannot note progress: the lease was lost");
  };

  /** Notes a part, unless an earlier call that was not answered did: its effects were committed too. */
  async #note(
    lease: Lease,
    { part, before, effects }: { part: string; before: number; effects: CommitEffects | undefined },
  ): Promise<Lease | null> {
    const { store } = this.#parts;
    if (timesNoted(lease, part) > before) return lease;
    try {
      return await store.checkpoint(lease, part, effects);
    } catch (error) {
      const recovered = await store.recover(lease).catch(() => null);
      if (recovered && timesNoted(recovered, part) > before) return recovered;
      throw error;
    }
  }

  // Step 4: settle, as soon as the KV permits.

  async #settle(): Promise<void> {
    const [first, longest] = SETTLE_PAUSES_MS;
    for (let pauseMs = first as number; this.isHeld; pauseMs *= 2) {
      try {
        await this.#parts.settling.limit(this.#settleOnce());
        break;
      } catch (error) {
        this.#report("error", "event not settled yet", { error });
        if (error instanceof Deno.errors.BadResource) break;
      }
      await this.#lease.pause(Math.min(pauseMs, longest));
    }
    await this.#lease.end();
    this.#attempt?.settled(this.#outcome, this.#failure);
  }

  /** Tries to settle the event. Effects that cannot be committed make a failure of a success. */
  async #settleOnce(): Promise<void> {
    if (this.#failure) return await this.#settleFailed(this.#failure.error);
    try {
      await this.#settleHandled();
    } catch (error) {
      if (!this.#effects) throw error;
      this.#failure = { error };
      await this.#settleFailed(error);
    }
  }

  #settleHandled(): Promise<void> {
    const { store } = this.#parts;
    const outcome = this.#isIgnored ? "ignored" : "handled";
    const options = this.#effects
      ? { effects: committing(this.#effects), outcome } as const
      : { withinMs: SETTLE_WITHIN_MS, outcome } as const;
    const report = this.#isIgnored ? () => this.#report("debug", "event ignored") : undefined;
    return this.#settleAs(outcome, (lease) => store.complete(lease, options), report);
  }

  /** Settles an event whose handler failed: it is released, tried again later, or dead. */
  #settleFailed(error: unknown): Promise<void> {
    const { store, retry } = this.#parts;
    if (this.#stopping && !this.#isOverdue) {
      const isBegun = this.#startedAt !== undefined;
      return this.#settleAs("returned", (lease) => store.release(lease, { isBegun }));
    }
    const bury = (lease: Lease) => store.bury(lease, error);
    if (error instanceof GiveUpError) {
      const report = () => this.#report("warn", "event given up, now dead", { error });
      return this.#settleAs("dead", bury, report);
    }
    const retryInMs = retryDelay(retry, this.#lease.record.attempt);
    if (retryInMs === null) return this.#settleAs("dead", bury, () => this.#reportLast({ error }));
    const again = (lease: Lease) => store.retry(lease, retryInMs, error);
    const report = () =>
      this.#report("warn", "event failed, to be tried again", { error, retryInMs });
    return this.#settleAs("retried", again, report);
  }

  /**
   * Settles the event in one way.
   *
   * @param outcome What becomes of it.
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
    else if (this.isHeld) this.#report("warn", "lease lost, event not settled");
  }

  /** Notes how the event was settled: with a lease that shows a request to cancel, as cancelled. */
  #settledAs(outcome: AttemptOutcome, { record }: Lease, report?: () => void): void {
    const isCancelled = isCancelRequested(record);
    this.#outcome = isCancelled ? "cancelled" : outcome;
    if (isCancelled) this.#report("info", "event cancelled");
    else if (report) report();
    else if (outcome === "handled") this.#report("info", "event handled");
  }

  #reportLast(fields?: object): void {
    this.#report("error", "event failed for the last time, now dead", fields);
  }

  readonly #report = (level: LogLevel, message: string, fields: object = {}): void => {
    const { id, deliveryId, platform, type, attempt, requestId } = this.#lease.record;
    const event = {
      platform,
      type,
      eventId: id,
      deliveryId,
      attempt,
      durationMs: this.#durationMs,
      requestId: requestId ?? undefined,
    };
    const write = () => writeLog(this.#parts.log, level, message, { ...event, ...fields });
    if (this.#attempt) this.#attempt.run(write);
    else write();
  };
}

function timesNoted({ record: { progress = [] } }: Lease, part: string): number {
  return progress.filter((each) => each === part).length;
}

/** Joins effects. Asynchronous ones are refused: what they add later would be lost. */
function committing(effects: readonly CommitEffects[]): CommitEffects {
  return (commit) => {
    for (const each of effects) {
      const result: unknown = each(commit);
      if (!(result instanceof Promise)) continue;
      result.catch(() => {});
      throw new TypeError("Effects must be added synchronously");
    }
  };
}
