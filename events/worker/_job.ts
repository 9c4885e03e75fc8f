import { type LogLevel, type LogSink, writeLog } from "../../core/mod.ts";
import type { JsonObject } from "../../core/parse_json.ts";
import { lookable } from "../../core/text_of.ts";
import { type Timeouts, withDeadline } from "../../core/timeouts.ts";
import type { Attempt, AttemptOutcome, Telemetry } from "../../telemetry/mod.ts";
import type { CommitEffects, EventStore, Lease } from "../store/mod.ts";
import { isCancelRequested } from "../store/transitions.ts";
import { HeldLease } from "./_held_lease.ts";
import {
  type EventHandler,
  GiveUpError,
  type HandlerContext,
  toEvent,
  type WebhookEvent,
} from "./event.ts";
import { retryDelay, type RetryPolicy } from "./retry_policy.ts";

/** Settings and timeouts that all jobs of a worker share. */
export interface JobParts {
  readonly store: EventStore;
  readonly handler: EventHandler;
  readonly leaseMs: number;
  readonly retry: RetryPolicy;
  readonly log: LogSink;
  readonly telemetry: Telemetry | undefined;
  /** Timeouts for one try to settle an event: as long as a lease. */
  readonly settling: Timeouts;
  /** Timeouts after which a lease is renewed. */
  readonly renewals: Timeouts;
}

/** A leased event to be run. */
export interface JobOptions {
  readonly lease: Lease;
  /** Time at which the lease was asked for, by the monotonic clock. */
  readonly leasedAt: number;
  /** The event's payload, if it is in memory already. */
  readonly content?: EventContent | undefined;
}

/** An event's payload. */
export interface EventContent {
  readonly body: Uint8Array<ArrayBuffer>;
  /** The same, if it was parsed already. */
  readonly payload?: JsonObject;
}

/** The end of a handler: it returned, perhaps with effects to be committed, or failed. */
type HandlerEnd =
  | { readonly effects?: readonly CommitEffects[] | undefined }
  | { readonly error: unknown };

/** One way to settle an event, and what is logged about it. */
interface Settlement {
  readonly outcome: AttemptOutcome;
  settle(lease: Lease): Promise<boolean>;
  report?(): void;
}

/** Longest wait of a settlement for others to share its commit, which costs as much as a delivery's. */
const SETTLE_WITHIN_MS = 5;

/** First and longest pause between tries to settle an event. */
const SETTLE_PAUSES_MS = [200, 2_000] as const;

/**
 * The run of one leased event, in steps: put it off if its processes keep dying, load its payload, call
 * the handler, settle it by how the handler ended. Meanwhile its lease is renewed.
 *
 * Three things can happen to it on the way. If the lease is lost, the event is another worker's: the
 * handler's signal is aborted and nothing is settled. If somebody asks to cancel the event, the signal is
 * aborted too, but the lease is kept until the handler has ended, so that nothing of the same ordering
 * key starts beside it; then the store settles the event as cancelled, whatever it is asked for. If the
 * worker stops, the signal is aborted, and a handler that throws because of that has its event released.
 */
export class Job {
  readonly #parts: JobParts;
  readonly #lease: HeldLease;
  /** Size of the payload that is in memory before the event is loaded. */
  readonly bytes: number;
  #content: EventContent | undefined;
  #effects: CommitEffects[] | undefined;
  /** Parts whose checkpoint may or may not be stored, and how often each had been noted before. */
  readonly #uncertain = new Map<string, number>();
  readonly #controller = new AbortController();
  #isCancelled = false;
  #stopping = false;
  #handlerEnded = false;
  #attempt: Attempt | undefined;
  #outcome: AttemptOutcome = "lost";

  constructor(parts: JobParts, { lease, leasedAt, content }: JobOptions) {
    const { store, leaseMs, renewals } = parts;
    this.#parts = parts;
    this.#lease = new HeldLease({
      ...{ store, lease, leaseMs, leasedAt, renewals },
      onLost: (message) => this.#abandon(message),
      onCancelRequested: () => this.cancel(),
      onRenewalFailed: (error) => this.#report("error", "lease not renewed", { error }),
    });
    this.#content = content;
    this.bytes = content?.body.byteLength ?? 0;
    // Cancelled before there was a job to tell. If the lease is older than that, its first renewal tells.
    if (isCancelRequested(lease.record)) this.cancel();
  }

  /** The event's id. */
  get id(): string {
    return this.#lease.record.id;
  }

  /** True while this worker holds the event's lease. */
  get isHeld(): boolean {
    return !this.#lease.isEnded;
  }

  /** Time since the event was leased, in milliseconds. */
  get ageMs(): number {
    return this.#lease.ageMs;
  }

  /** Aborts the handler because the worker stops. If the handler throws, the event is released. */
  stop(): void {
    this.#stopping = true;
    this.#controller.abort(new Error("The worker stops"));
  }

  /** Aborts the handler because somebody wants the event cancelled. */
  cancel(): void {
    this.#isCancelled = true;
    this.#controller.abort(new Error("The event was cancelled"));
  }

  /** Releases the event, even while its handler runs. */
  async giveBack(): Promise<void> {
    try {
      const lease = await this.#lease.giveBack();
      if (lease) this.#settledAs("returned", lease);
    } catch (error) {
      this.#report("error", "event not given back", { error });
    }
  }

  /**
   * Runs the event, from its lease to its settlement.
   *
   * @param onHandled Called once the handler has ended, so that another event can have its place.
   */
  async run(onHandled: () => void): Promise<void> {
    const end = await this.#handle();
    // Settling takes a while: what is still referenced then is copied by the garbage collector.
    this.#content = undefined;
    this.#handlerEnded = true;
    this.#attempt?.handlerEnded();
    onHandled();
    if (end) await this.#settle(end);
  }

  /** Takes the steps before the settlement; undefined if the event was put off. */
  async #handle(): Promise<HandlerEnd | undefined> {
    try {
      if (await this.#putOff()) return void this.#lease.end();
      this.#lease.keep();
      this.#attempt = this.#parts.telemetry?.attempt(this.#lease.record);
      if (this.#attempt) await this.#attempt.run(() => this.#callHandler());
      else await this.#callHandler();
      return { effects: this.#effects };
    } catch (error) {
      return { error: lookable(error) };
    }
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
      const report = () => this.#report("error", "event failed for the last time, now dead");
      await withDeadline(this.#settleAs({ outcome: "dead", settle, report }), leaseMs);
      this.#parts.telemetry?.attempt({ ...record, attempt }).settled(this.#outcome);
      return true;
    }
    if (delayMs <= leaseMs) return false;
    const settle = (lease: Lease) => store.release(lease, delayMs - leaseMs);
    await withDeadline(this.#settleAs({ outcome: "returned", settle }), leaseMs);
    return true;
  }

  // Steps 2 and 3: load and handle.

  async #callHandler(): Promise<void> {
    const event = await this.#load();
    // Loading may take long. By now the event may be another worker's, or be cancelled.
    if (!this.isHeld) return;
    if (this.#isCancelled) throw new Error("The event was cancelled before its handler started");
    const { handler, log, store: { kv } } = this.#parts;
    const { progress = [] } = this.#lease.record;
    const [settleWith, checkpoint] = [this.#settleWith, this.#checkpoint];
    const { signal } = this.#controller;
    await handler(event, { signal, log, kv, settleWith, progress, checkpoint });
  }

  async #load(): Promise<WebhookEvent> {
    const { store, leaseMs } = this.#parts;
    const { lease, record } = this.#lease;
    if (this.#content) return toEvent(record, this.#content.body, this.#content.payload);
    return toEvent(record, await withDeadline(store.load(lease), leaseMs));
  }

  readonly #settleWith: HandlerContext["settleWith"] = (effects) => {
    if (this.#handlerEnded) {
      throw new TypeError("Cannot settle with effects: the handler has ended");
    }
    (this.#effects ??= []).push(effects);
  };

  readonly #checkpoint: HandlerContext["checkpoint"] = async (part, effects) => {
    if (this.#handlerEnded) throw new TypeError("Cannot note progress: the handler has ended");
    const add = effects && committing([effects]);
    let before = this.#uncertain.get(part);
    const note = (lease: Lease) => {
      if (this.#isCancelled) throw new Error("Cannot note progress: the event was cancelled");
      before ??= timesNoted(lease, part);
      return this.#note(lease, { part, before, effects: add });
    };
    try {
      if (await this.#lease.change(note, this.#parts.leaseMs / 3)) {
        return void this.#uncertain.delete(part);
      }
    } catch (error) {
      if (before !== undefined) this.#uncertain.set(part, before);
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

  #abandon(message: string): void {
    this.#controller.abort(new Error("The lease was lost"));
    this.#report("warn", message);
  }

  // Step 4: settle, as soon as the KV permits.

  async #settle(end: HandlerEnd): Promise<void> {
    const [first, longest] = SETTLE_PAUSES_MS;
    const settling = { end };
    for (let pauseMs = first as number; this.isHeld; pauseMs *= 2) {
      try {
        await this.#parts.settling.limit(this.#settleOnce(settling));
        break;
      } catch (error) {
        this.#report("error", "event not settled yet", { error });
        if (error instanceof Deno.errors.BadResource) break;
      }
      await this.#lease.pause(Math.min(pauseMs, longest));
    }
    await this.#lease.end();
    this.#attempt?.settled(this.#outcome, "error" in settling.end ? settling.end : undefined);
  }

  /** Tries to settle the event. Effects that cannot be committed make a failure of a success. */
  async #settleOnce(settling: { end: HandlerEnd }): Promise<void> {
    const { end } = settling;
    try {
      await this.#settleAs(this.#settlementOf(end));
    } catch (error) {
      if ("error" in end || !end.effects) throw error;
      settling.end = { error };
      await this.#settleAs(this.#settlementOf(settling.end));
    }
  }

  /** Decides what becomes of an event whose handler has ended. */
  #settlementOf(end: HandlerEnd): Settlement {
    const { store, retry } = this.#parts;
    if (!("error" in end)) {
      const options = end.effects ? committing(end.effects) : { withinMs: SETTLE_WITHIN_MS };
      return { outcome: "handled", settle: (lease) => store.complete(lease, options) };
    }
    const { error } = end;
    if (this.#stopping) return { outcome: "returned", settle: (lease) => store.release(lease) };
    const bury = (lease: Lease) => store.bury(lease, error);
    if (error instanceof GiveUpError) {
      const report = () => this.#report("warn", "event given up, now dead", { error });
      return { outcome: "dead", settle: bury, report };
    }
    const retryInMs = retryDelay(retry, this.#lease.record.attempt);
    if (retryInMs === null) {
      const report = () =>
        this.#report("error", "event failed for the last time, now dead", { error });
      return { outcome: "dead", settle: bury, report };
    }
    return {
      outcome: "retried",
      settle: (lease) => store.retry(lease, retryInMs, error),
      report: () => this.#report("warn", "event failed, to be tried again", { error, retryInMs }),
    };
  }

  async #settleAs({ outcome, settle, report }: Settlement): Promise<void> {
    const lease = await this.#lease.settle(settle);
    if (lease) this.#settledAs(outcome, lease, report);
    else if (this.isHeld) this.#report("warn", "lease lost, event not settled");
  }

  /** Notes how the event was settled: with a lease that shows a request to cancel, as cancelled. */
  #settledAs(outcome: AttemptOutcome, lease: Lease, report?: Settlement["report"]): void {
    const isCancelled = isCancelRequested(lease.record);
    this.#outcome = isCancelled ? "cancelled" : outcome;
    if (isCancelled) this.#report("info", "event cancelled");
    else report?.();
  }

  #report(level: LogLevel, message: string, fields: Record<string, unknown> = {}): void {
    const { id, deliveryId, platform, type, attempt, requestId } = this.#lease.record;
    const event = { platform, type, id, deliveryId, attempt, requestId: requestId ?? undefined };
    const write = () => writeLog(this.#parts.log, level, message, { ...event, ...fields });
    if (this.#attempt) this.#attempt.run(write);
    else write();
  }
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
