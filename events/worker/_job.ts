import { type LogLevel, type LogSink, writeLog } from "../../core/mod.ts";
import type { Attempt, AttemptOutcome, Telemetry } from "../../telemetry/mod.ts";
import { HeldLease } from "./_held_lease.ts";
import type { Timeouts } from "../../core/timeouts.ts";
import { withDeadline } from "../../core/deadline.ts";
import { addEffects } from "./_effects.ts";
import { type EventHandler, type HandlerContext, toEvent, type WebhookEvent } from "./event.ts";
import { GiveUpError } from "./give_up_error.ts";
import type { JsonObject } from "../../core/parse_json.ts";
import { lookable } from "../../core/text_of.ts";
import { retryDelay, type RetryPolicy } from "./retry_policy.ts";
import type { CommitEffects, EventStore, Lease } from "../store/mod.ts";

/** What the jobs of a worker share. */
export interface JobParts {
  readonly store: EventStore;
  readonly handler: EventHandler;
  readonly leaseMs: number;
  readonly retry: RetryPolicy;
  readonly log: LogSink;
  readonly telemetry: Telemetry | undefined;
  /** How long settling may take: as long as a lease. */
  readonly settling: Timeouts;
  /** After what time a lease is renewed. */
  readonly renewals: Timeouts;
}

/** An event's payload. */
export interface EventContent {
  readonly body: Uint8Array<ArrayBuffer>;
  /** The same, parsed, where it was parsed before. */
  readonly payload?: JsonObject;
}

/** How long a settlement waits for company: a commit of its own would cost as much as a delivery's. */
const SETTLE_WITHIN_MS = 5;

/** How long it is waited at first, and at most, before a settlement that failed is tried again. */
const SETTLE_PAUSES_MS = [200, 2_000] as const;

/** One leased event: handled, its lease renewed meanwhile, and settled by how the handler ends. */
export class Job {
  readonly #parts: JobParts;
  readonly #lease: HeldLease;
  /** How many bytes of the event are in memory from the start. */
  readonly bytes: number;
  #content: EventContent | undefined;
  #effects: CommitEffects[] | undefined;
  #failure: { readonly error: unknown } | undefined;
  /** Of parts that were to be noted and nobody knows whether they are: how often they had been before. */
  readonly #unknown = new Map<string, number>();
  readonly #controller = new AbortController();
  #stopping = false;
  #handlerEnded = false;
  #attempt: Attempt | undefined;
  #outcome: AttemptOutcome = "lost";

  /**
   * @param parts What the jobs share.
   * @param lease The lease.
   * @param leasedAt When it was asked for, by the monotonic clock.
   * @param content The event's payload, where that is at hand.
   */
  constructor(parts: JobParts, lease: Lease, leasedAt: number, content?: EventContent) {
    this.#parts = parts;
    this.#lease = new HeldLease(parts, lease, leasedAt, this);
    this.#content = content;
    this.bytes = content?.body.byteLength ?? 0;
  }

  /** The event's id. */
  get id(): string {
    return this.#lease.record.id;
  }

  /** Whether the event is no longer this worker's. */
  get isLost(): boolean {
    return this.#lease.isLost;
  }

  /** For how long the event has been leased, in milliseconds. */
  get ageMs(): number {
    return this.#lease.ageMs;
  }

  /** Tells the handler to give up; if it does, the event goes to another worker at once. */
  stop(): void {
    this.#stopping = true;
    this.#controller.abort(new Error("The worker stops"));
  }

  /** Gives the event back, whatever its handler still does. */
  async giveBack(): Promise<void> {
    try {
      await this.#lease.giveBack();
      this.#outcome = "returned";
    } catch (error) {
      this.#report("error", "event not given back", { error });
    }
  }

  onLost(message: string): void {
    this.#controller.abort(new Error("The lease was lost"));
    this.#report("warn", message);
  }

  onError(error: unknown): void {
    this.#report("error", "lease not renewed", { error });
  }

  /** Has the handler handle the event. */
  async handle(): Promise<void> {
    try {
      if (await this.#defer()) return void this.#lease.end();
      this.#lease.keep();
      this.#attempt = this.#parts.telemetry?.attempt(this.#lease.record);
      if (this.#attempt) await this.#attempt.run(() => this.#handle());
      else await this.#handle();
    } catch (error) {
      this.#failure = { error: lookable(error) };
    }
    // Until it is settled others are handled: what is not let go is copied by the garbage collector.
    this.#content = undefined;
    this.#handlerEnded = true;
    this.#attempt?.handlerEnded();
  }

  /** Settles the event by how its handler has ended, and as soon as the KV lets it. */
  async settle(): Promise<void> {
    const [first, longest] = SETTLE_PAUSES_MS;
    for (let pauseMs = first as number; !this.#lease.isLost; pauseMs *= 2) {
      try {
        const settled = await this.#parts.settling.limit(this.#settleOnce());
        if (!settled && !this.#lease.isLost) this.#report("warn", "lease lost, event not settled");
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

  async #settleOnce(): Promise<boolean> {
    if (this.#failure) return await this.#fail(this.#failure.error);
    const { store } = this.#parts;
    const effects = this.#effects;
    if (!effects) {
      const options = { withinMs: SETTLE_WITHIN_MS };
      return await this.#settleAs("handled", (lease) => store.complete(lease, options));
    }
    try {
      const add = (commit: Deno.AtomicOperation) => addEffects(commit, effects);
      return await this.#settleAs("handled", (lease) => store.complete(lease, add));
    } catch (error) {
      this.#failure = { error };
      return await this.#fail(error);
    }
  }

  async #settleAs(
    outcome: AttemptOutcome,
    action: (lease: Lease) => Promise<boolean>,
  ): Promise<boolean> {
    const settled = await this.#lease.settle(action);
    if (settled) this.#outcome = outcome;
    return settled;
  }

  /**
   * Keeps an event that is taken over again and again, for it may be what kills its processes, from
   * being tried more often than one that fails: the lease it has waited for counts.
   */
  async #defer(): Promise<boolean> {
    const { store, retry, leaseMs } = this.#parts;
    const { record, versionstamp, takenOver } = this.#lease.lease;
    if (!takenOver) return false;
    const attempt = record.attempt - 1;
    const delayMs = retryDelay(retry, attempt);
    if (delayMs === null) {
      this.#report("error", "event failed for the last time, now dead");
      const last: Lease = { record: { ...record, attempt }, versionstamp };
      await withDeadline(store.bury(last, "Given up: its lease expired too often"), leaseMs);
      this.#parts.telemetry?.attempt(last.record).settled("dead");
      return true;
    }
    if (delayMs <= leaseMs) return false;
    await withDeadline(store.release(this.#lease.lease, delayMs - leaseMs), leaseMs);
    return true;
  }

  async #handle(): Promise<void> {
    const event = await this.#load();
    // A payload that takes long to read may come when the event is somebody else's already.
    if (this.#lease.isLost) return;
    const { handler, log, store: { kv } } = this.#parts;
    const { progress = [] } = this.#lease.record;
    const [settleWith, checkpoint] = [this.#settleWith, this.#checkpoint];
    const { signal } = this.#controller;
    await handler(event, { signal, log, kv, settleWith, progress, checkpoint });
  }

  readonly #settleWith: HandlerContext["settleWith"] = (effects) => {
    if (this.#handlerEnded) {
      throw new TypeError("Cannot settle with effects: the handler has ended");
    }
    (this.#effects ??= []).push(effects);
  };

  readonly #checkpoint: HandlerContext["checkpoint"] = async (part, effects) => {
    if (this.#handlerEnded) throw new TypeError("Cannot note progress: the handler has ended");
    const add = effects && ((commit: Deno.AtomicOperation) => addEffects(commit, [effects]));
    let before = this.#unknown.get(part);
    const note = (lease: Lease) => {
      before ??= timesNoted(lease, part);
      return this.#note(lease, part, before, add);
    };
    try {
      if (await this.#lease.change(note, this.#parts.leaseMs / 3)) {
        return void this.#unknown.delete(part);
      }
    } catch (error) {
      if (before !== undefined) this.#unknown.set(part, before);
      throw error;
    }
    this.#lease.lose("lease lost, handler aborted");
    throw new Error("Cannot note progress: the lease was lost");
  };

  /** Notes a part, unless that was done without an answer: its effects were committed with it then. */
  async #note(
    lease: Lease,
    part: string,
    before: number,
    effects: CommitEffects | undefined,
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

  async #load(): Promise<WebhookEvent> {
    const { store, leaseMs } = this.#parts;
    const { lease, record } = this.#lease;
    if (this.#content) return toEvent(record, this.#content.body, this.#content.payload);
    return toEvent(record, await withDeadline(store.load(lease), leaseMs));
  }

  async #fail(error: unknown): Promise<boolean> {
    const { store, retry } = this.#parts;
    if (this.#stopping) return await this.#settleAs("returned", (lease) => store.release(lease));
    const givenUp = error instanceof GiveUpError;
    const retryInMs = givenUp ? null : retryDelay(retry, this.#lease.record.attempt);
    if (retryInMs === null) {
      const buried = await this.#settleAs("dead", (lease) => store.bury(lease, error));
      if (givenUp && buried) this.#report("warn", "event given up, now dead", { error });
      else if (buried) this.#report("error", "event failed for the last time, now dead", { error });
      return buried;
    }
    const given = await this.#settleAs(
      "retried",
      (lease) => store.retry(lease, retryInMs, error),
    );
    if (given) this.#report("warn", "event failed, to be tried again", { error, retryInMs });
    return given;
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
