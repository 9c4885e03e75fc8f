import { type LogLevel, type LogSink, writeLog } from "../../core/mod.ts";
import type { JsonObject } from "../../core/parse_json.ts";
import { lookable } from "../../core/text_of.ts";
import { type Timeouts, withDeadline } from "../../core/timeouts.ts";
import type { Attempt, Telemetry } from "../../telemetry/mod.ts";
import type { EventRecord, Lease } from "../store/mod.ts";
import { canBeInterrupted, hasBegun } from "../store/settlement.ts";
import { HeldLease } from "./_held_lease.ts";
import { loadMembers } from "./_members.ts";
import { Watch, type Watches } from "./_newer.ts";
import { type EventLog, Settlement, type SettlementParts } from "./_settlement.ts";
import type { Turns } from "./_turns.ts";
import type { Versions } from "./_versions.ts";
import { type ConcurrencyLimit, Places } from "./concurrency_limit.ts";
import {
  type EventHandler,
  HandledElsewhere,
  type HandlerStore,
  isUnhandled,
  NoHandler,
  toBatch,
  toEvent,
  type WebhookEvent,
} from "./event.ts";
import { HandlerRun } from "./handler_run.ts";
import { type RateOptions, type RateRoom, roomsUnder } from "./rate_limit.ts";
import { TimeLimit } from "./time_limit.ts";

/** Settings and timeouts that all jobs of a worker share. */
export interface JobParts extends SettlementParts {
  readonly handler: EventHandler;
  /** The part of the store that handlers work with. */
  readonly events: HandlerStore;
  readonly timeoutMs: number;
  readonly log: LogSink;
  readonly telemetry: Telemetry | undefined;
  /** The versions of the code that run. */
  readonly versions: Versions;
  /** Timeouts after which a lease is renewed. */
  readonly renewals: Timeouts;
  /** Timeouts of the handlers. */
  readonly limits: Timeouts;
  /** Turns in which handlers start. */
  readonly turns: Turns;
  /** Lists the worker's handlers of an event. */
  readonly handlersOf: (event: EventRecord) => readonly unknown[];
  /** The watches over the groups of the handlers that newer events interrupt. */
  readonly watches: Watches;
}

/** Places that a job reports to while it runs. */
export interface JobListener {
  /** Called once another event can have the job's place: its handler has ended, or is overdue. */
  onFree(): void;
  /** Called before that if the handler has reached its time limit and still runs. */
  onOverdue(job: Job): void;
  /** Called once an overdue handler has ended. */
  onLateEnd(job: Job): void;
  /** Called when the handler was told to end, since the event is cancelled or another worker's, and has not yet. */
  onUnwanted(job: Job): void;
}

/**
 * The run of one leased event, in steps: put it off if its processes keep dying, load its payload, call
 * the handler, settle it by how the handler ended. Meanwhile its lease is renewed.
 *
 * Five things can happen to it on the way. If the lease is lost, the event is another worker's: the
 * handler's signal is aborted and nothing is settled. If somebody asks to cancel the event, the signal is
 * aborted too, but the lease is kept until the handler has ended, so that nothing of the same ordering
 * key starts beside it; then the store settles the event as cancelled, whatever it is asked for. If the
 * worker stops, the signal is aborted, and a handler that throws because of that has its event released.
 * A handler that has put its event off has ended by itself, so that counts even then.
 * If a newer event of its group interrupts it, the signal is aborted, and a handler that throws because of that has its
 * event put back, to be handled together with the newer one.
 * If the handler reaches its time limit, the signal is aborted and another event gets its place; the
 * lease is kept, and how the handler ends decides, however late that is.
 */
export class Job implements EventLog {
  readonly #parts: JobParts;
  readonly #lease: HeldLease;
  readonly #settlement: Settlement;
  /** Size of the payload that is in memory before the event is loaded. */
  readonly bytes: number;
  #body: Uint8Array<ArrayBuffer> | undefined;
  #payload: JsonObject | undefined;
  #stopping = false;
  /** Set if the event is left as it is. */
  #isAbandoned = false;
  /** Set if there was no handler for the event. */
  #isIgnored = false;
  #handlerEnded = false;
  /** Time at which the handler was called, by the monotonic clock; undefined before that. */
  #startedAt: number | undefined;
  /** Time at which its running handler was told to end, milliseconds since the epoch; undefined before that. */
  #unwantedAt: number | undefined;
  /** Time that the handler took, in milliseconds, once it has ended. */
  #tookMs: number | undefined;
  /** The run of the handler and its time limit, once it was called. */
  #run: HandlerRun | undefined;
  #limit: TimeLimit | undefined;
  #listener: JobListener | undefined;
  #attempt: Attempt | undefined;
  /** Set once the telemetry was told what has become of the event. */
  #isTold = false;
  #members: readonly EventRecord[] = [];
  /** Set if the handler failed. */
  #failure: { readonly error: unknown } | undefined;
  /** The places under the limits of its handlers, if there are any. */
  #places: Places | undefined;
  /** Its rooms under the limits of rates, if there are any. */
  #rooms: readonly RateRoom[] | undefined;
  /** The watch over its group, if newer events interrupt its handler. */
  #watch: Watch | undefined;

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
    this.#lease = new HeldLease(parts, lease, leasedAt, this.report, this.#onUnwanted);
    this.#settlement = new Settlement(parts, this.#lease, this);
    this.#body = body;
    this.#payload = payload;
    this.bytes = body?.byteLength ?? 0;
  }

  /** The event's id. */
  get id(): string {
    return this.#lease.record.id;
  }

  /** True while this worker holds the event's lease. */
  get isHeld(): boolean {
    return this.#lease.isHeld;
  }

  /** True once somebody wants the event cancelled. */
  get isCancelled(): boolean {
    return this.#lease.isCancelled;
  }

  /** Time since the event was leased, in milliseconds. */
  get ageMs(): number {
    return this.#lease.ageMs;
  }

  /** Time for which the handler has run, in milliseconds. */
  get #durationMs(): number | undefined {
    if (this.#startedAt === undefined) return undefined;
    return this.#tookMs ?? Math.round((performance.now() - this.#startedAt) * 1_000) / 1_000;
  }

  /** Time since which its handler runs although nobody wants it any more; undefined if it does not. */
  get hungSince(): number | undefined {
    return this.isRunning ? this.#unwantedAt : undefined;
  }

  /** True from the call of its handler until that has ended. */
  get isRunning(): boolean {
    return this.#startedAt !== undefined && !this.#handlerEnded;
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

  /** Leaves the event as it is: it is neither renewed nor settled nor given back, and its handler is not told. */
  abandon(): void {
    this.#isAbandoned = true;
    this.#limit?.end();
    this.#watch?.end();
    void this.#lease.end();
  }

  /** Renews the lease now. */
  async renew(): Promise<void> {
    await this.#lease.renew();
  }

  /**
   * Takes the places that its handlers need.
   *
   * @param onLeft Called when one of them is free again.
   * @returns The limit that does not permit it; undefined if it has them all, or fails at once.
   */
  takePlaces(onLeft: () => void): ConcurrencyLimit | RateRoom | undefined {
    const needed = this.#parts.plans.limitsOf(this.#lease.record);
    if (!needed) return undefined;
    const { limits, rates } = needed;
    const reached = limits.find(({ isReached }) => isReached) ?? this.#missingRoom(rates);
    if (!reached && limits.length > 0) this.#places = new Places(limits, onLeft);
    return reached;
  }

  /** Takes room under limits of rates; returns the first one without. */
  #missingRoom(rates: readonly RateOptions[]): RateRoom | undefined {
    if (rates.length === 0) return undefined;
    const { store: { tokens } } = this.#parts;
    try {
      this.#rooms ??= roomsUnder(rates, this.#lease.record, tokens);
    } catch (error) {
      this.#failure = { error: lookable(error) };
    }
    return this.#rooms?.find((room) => !room.take());
  }

  /**
   * Puts the event back on the schedule, since a handler has as many runs as it may, or a limit has no room. If its
   * processes keep dying, it waits or is given up as it would be if its handler were called.
   *
   * @param delayMs The time until it is due again, in milliseconds.
   * @param limit The name of the limit; undefined if it waits for a handler.
   */
  async putBack(delayMs: number, limit?: string): Promise<void> {
    if (this.#isAbandoned) return;
    try {
      if (this.#lease.lease.takenOver && await this.#putOff()) return void this.#lease.end();
    } catch (error) {
      this.report("error", "event not given back", { error });
    }
    await this.giveBack(delayMs, limit);
  }

  /**
   * Releases the event, even while its handler runs. One that runs past its time limit has failed.
   *
   * @param delayMs The time until it is due again, in milliseconds.
   * @param limitedBy The name of the limit that has no room for it, if one has none.
   */
  async giveBack(delayMs?: number, limitedBy?: string): Promise<void> {
    if (this.#isAbandoned) return;
    const [isRunning, limit] = [this.isRunning, this.#limit];
    limit?.end();
    if (limit?.isReached && isRunning) await this.#settlement.giveUpWaiting(limit.ms);
    else await this.#settlement.giveBack(isRunning, delayMs, limitedBy);
    const { outcome } = this.#settlement;
    // The process ends before its handler does, or there is no attempt that would tell it.
    if (isRunning) this.#attempt?.handlerEnded();
    if (this.#attempt ? outcome !== "lost" : outcome === "cancelled") this.#tellEnd();
  }

  /** Tells the telemetry, once, what has become of the event. */
  #tellEnd(attempt = this.#attempt ?? this.#parts.telemetry?.attempt(this.#lease.record)): void {
    if (this.#isTold) return;
    this.#isTold = true;
    const { outcome, failure } = this.#settlement;
    attempt?.settled(outcome, failure, this.#run?.taken.length);
  }

  /**
   * Runs the event, from its lease to its settlement.
   *
   * @param listener The place that it reports to.
   */
  async run(listener: JobListener): Promise<void> {
    this.#listener = listener;
    const isHandled = await this.#handle();
    this.#limit?.end();
    // Settling takes a while: what is still referenced then is copied by the garbage collector.
    this.#body = this.#payload = undefined;
    this.#tookMs = this.#durationMs;
    this.#handlerEnded = true;
    this.#watch?.end();
    this.#places?.leaveAll();
    this.#attempt?.handlerEnded();
    if (this.#limit?.isReached) listener.onLateEnd(this);
    else listener.onFree();
    if (isHandled) await this.#settle();
  }

  /** Takes the steps before the settlement; false if the event was put off. */
  async #handle(): Promise<boolean> {
    try {
      if (this.#lease.lease.takenOver && await this.#putOff()) {
        this.#lease.end();
        return false;
      }
      this.#lease.keep();
      if (this.#failure) return true;
      this.#attempt = this.#parts.telemetry?.attempt(this.#lease.record);
      if (this.#attempt) await this.#attempt.run(() => this.#callHandler());
      else await this.#callHandler();
    } catch (error) {
      this.#failure = { error: lookable(error) };
    }
    return true;
  }

  // Step 1: an event whose processes keep dying waits, and is given up, like one whose handler throws.

  async #putOff(): Promise<boolean> {
    const { record } = this.#lease;
    const way = await this.#settlement.putOff();
    const { outcome } = this.#settlement;
    if (outcome === "dead" || outcome === "cancelled") {
      this.#tellEnd(this.#parts.telemetry?.attempt({ ...record, attempt: record.attempt - 1 }));
    }
    return way !== "not";
  }

  // Steps 2 and 3: load and handle.

  async #callHandler(): Promise<void> {
    if (this.#lease.record.newer) await this.#beginWatch();
    const { store, leaseMs } = this.#parts;
    const { lease, record } = this.#lease;
    const body = this.#body ?? await withDeadline(store.load(lease), leaseMs);
    const first = toEvent(record, body, this.#payload);
    const isBatch = record.batch !== undefined && record.batch.events > 1;
    const event = isBatch ? await this.#loadBatch(first) : first;
    try {
      await this.#parts.turns.run(() => this.#startHandler(event));
    } catch (thrown) {
      const error = lookable(thrown);
      if (isUnhandled(error)) {
        const delayMs = await this.#parts.versions.delayFor(this.#lease.record);
        if (delayMs !== undefined) throw new HandledElsewhere(error, delayMs);
      }
      const isBegun = this.#run?.hasAny || hasBegun(this.#lease.record);
      if (!(error instanceof NoHandler) || error.isStrict || isBegun) throw error;
      this.#isIgnored = true;
    }
  }

  async #beginWatch(): Promise<void> {
    if (!canBeInterrupted(this.#lease.record)) return;
    this.#watch = new Watch(this.#parts, this.#lease, () => this.#run?.isPartlyDone ?? false);
    await this.#watch.begin();
  }

  #startHandler(event: WebhookEvent): Promise<void> | undefined {
    // Loading may take long. By now the event may be another worker's, or be cancelled.
    if (!this.isHeld) return undefined;
    if (this.#lease.isCancelled) {
      throw new Error("The event was cancelled before its handler started");
    }
    if (this.#stopping) throw new Error("The worker has stopped before the handler started");
    const { handler, events, limits, timeoutMs, store: { db } } = this.#parts;
    const { signal } = this.#lease;
    this.#startedAt = performance.now();
    const limit = this.#limit = new TimeLimit(limits, timeoutMs, this.#onLimit);
    const retry = this.#parts.plans.retryOf(this.#lease.record);
    const places = { places: this.#places, rooms: this.#rooms };
    const within = { signal, limit, limitMs: timeoutMs, retry, ...places };
    const run = this.#run = new HandlerRun(this.#parts, this.#lease, within);
    return run.handle(handler, event, { log: this.#log, db, store: events });
  }

  /** Loads the events of a batch. */
  async #loadBatch(first: WebhookEvent): Promise<WebhookEvent> {
    const { store, leaseMs } = this.#parts;
    const { lease, record } = this.#lease;
    this.#members = await withDeadline(store.members(lease), leaseMs);
    return toBatch([first, ...await loadMembers(this.#parts, this.#members, record.attempt)]);
  }

  readonly #onUnwanted = (): void => {
    if (!this.isRunning || this.#unwantedAt !== undefined) return;
    this.#unwantedAt = Date.now();
    this.#listener!.onUnwanted(this);
  };

  readonly #log: LogSink = (record) =>
    this.#parts.log({ ...record, eventId: record.eventId ?? this.id });

  /** Frees the place of a handler that has reached its time limit, and reports it from time to time. */
  readonly #onLimit = (isFirst: boolean): void => {
    const { ms: timeoutMs, running: handler } = this.#limit!;
    this.report("error", "handler still running", { handler, timeoutMs });
    if (!isFirst) return;
    this.#lease.abort(`The handler has reached its time limit of ${timeoutMs} ms`);
    this.#listener!.onOverdue(this);
    this.#listener!.onFree();
  };

  // Step 4: settle, as soon as the store permits.

  async #settle(): Promise<void> {
    await this.#settlement.settle({
      run: this.#run,
      failure: this.#failure,
      isIgnored: this.#isIgnored,
      isStopped: this.#stopping && !this.#limit?.isReached,
      interruption: this.#watch?.reason,
    });
    if (this.#attempt) this.#tellEnd();
  }

  readonly report = (level: LogLevel, message: string, fields?: object): void =>
    this.#write(level, message, this.#lease.record, fields);

  reportEnd(level: LogLevel, message: string, fields?: object): void {
    const { record } = this.#lease;
    this.#write(level, message, record, fields);
    for (const member of [...this.#members, ...this.#run?.taken ?? []]) {
      this.#write(level, message, member, { handledWith: record.id });
    }
  }

  #write(level: LogLevel, message: string, record: EventRecord, fields?: object): void {
    const { id: eventId, deliveryId, platform, type, requestId } = record;
    const { attempt } = this.#lease.record;
    const event = {
      platform,
      type,
      eventId,
      deliveryId,
      attempt,
      durationMs: this.#durationMs,
      requestId: requestId ?? undefined,
      ...fields,
    };
    if (this.#attempt) this.#attempt.run(() => writeLog(this.#parts.log, level, message, event));
    else writeLog(this.#parts.log, level, message, event);
  }
}
