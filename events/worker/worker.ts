import {
  checkBoolean,
  checkFunction,
  checkKeys,
  checkObject,
  checkOptions,
  checkPart,
  checkString,
  checkTelemetry,
  MAX_TIMER_MS,
  met,
  wholeNumber,
} from "../../core/check_options.ts";
import { consoleSink, type LogSink, reasonOf, writeLog } from "../../core/mod.ts";
import type { JsonObject } from "../../core/parse_json.ts";
import { SharedTimer, Timeouts, withDeadline } from "../../core/timeouts.ts";
import type { Telemetry } from "../../telemetry/mod.ts";
import { ClosedError } from "../store/engine.ts";
import { checkFailingRules, type FailingRule } from "../store/failing.ts";
import type { AcceptResult, EventRecord, EventStore, Lease } from "../store/mod.ts";
import { MAX_PUT_OFF_MS } from "../store/settlement.ts";
import { RENEWAL } from "./_held_lease.ts";
import { JobQueue } from "./_job_queue.ts";
import { Watches } from "./_newer.ts";
import { Upkeep } from "./_upkeep.ts";
import { Versions } from "./_versions.ts";
import { type EventHandler, type HandlerContext, handlersOf, type HandlerStore } from "./event.ts";
import { checkRate, type RateOptions } from "./rate_limit.ts";
import { HandlerPlans } from "./handler_plans.ts";
import { checkRetryPolicy, type RetryPolicy } from "./retry_policy.ts";

/** Beginning of all errors about wrong options. */
const DOING = "start the worker";

/** Longest time for a claim, for which `poll` waits for one that succeeds, too. Locally it takes a millisecond. */
const CLAIM_TIMEOUT_MS = 10_000;

/**
 * Time between two looks at the clock, in milliseconds: it may be set, or the machine may have slept. It is also the time
 * after which the schedule is read again if that has failed, or has brought events that nothing had announced.
 */
const TICK_MS = 1_000;

/** More handlers than this in one process are a mistake, and one claim reads no more. */
const MAX_CONCURRENCY = 10_000;

/**
 * Options of {@linkcode startWorker}.
 *
 * @category Event store and worker
 */
export interface WorkerOptions {
  /**
   * Largest number of events that are handled at the same time.
   *
   * @default {10}
   */
  readonly concurrency?: number | undefined;
  /**
   * Length of a lease, in milliseconds. The lease is renewed while the handler runs; if the process dies,
   * another takes the event over after this time.
   *
   * @default {30_000}
   */
  readonly leaseMs?: number | undefined;
  /**
   * Longest time between two polls of the schedule by an idle worker, in milliseconds. The worker looks as well when it
   * is woken, when the first event is due that it knows of, and once a second while it finds events that other processes
   * have left. So only what another process has made due without waking it is found up to this much later.
   *
   * @default {store.pollMs} 15,000 in a Deno KV. In a SQLite file, where all that others write is noticed, 300,000.
   */
  readonly pollMs?: number | undefined;
  /**
   * Time limit of a handler, in milliseconds. Then its `signal` is aborted and the next event gets its place,
   * but the event stays its own: the lease is renewed until the handler ends, the next event of the
   * ordering group waits, and how the handler ends decides. The log names it until then.
   *
   * @default {900_000} 15 minutes.
   */
  readonly timeoutMs?: number | undefined;
  /**
   * Called once when as many handlers run past their time limit as may run at once. Only the end of the
   * process frees what they hold. {@linkcode runApp} ends the app in order then, with exit code 1.
   *
   * @default {undefined} The worker goes on.
   */
  readonly onStuck?: (() => void) | undefined;
  /**
   * Stores an event for each event that dies by failure, in the same commit: of the type and the source
   * `dead`, with a {@linkcode DeadEvent}. Events that are cancelled are not reported, and neither are these
   * reports. In an app, `bot.onDead` sets this.
   *
   * @default {false}
   */
  readonly reportDead?: boolean | undefined;
  /**
   * Stores an event for each event that has failed for some attempts or some time, in the commit that notes the failed
   * attempt: of the type and the source `failing`, with a {@linkcode FailingEvent}, once for each rule and each run of
   * the event. Reports, and what comes of them, are not reported. In an app, `bot.onFailing` sets this.
   *
   * @default {[]} None.
   */
  readonly reportFailing?: readonly FailingRule[] | undefined;
  /** The delays between attempts, and their number. */
  readonly retry?: RetryPolicy | undefined;
  /**
   * Limit of how many events are begun in a time, by all processes together, see {@linkcode HandlerOptions}.
   *
   * @default {undefined} None.
   */
  readonly rate?: RateOptions | undefined;
  /**
   * Longest time for which an event that has no handler is put off, in milliseconds, because another process on the
   * same store has one: while a new version replaces an old one, neither ignores what only the other handles. It is
   * due again after a second, and later after up to a minute. From 0, which ignores it at once, to 604,800,000, which
   * is seven days.
   *
   * @default {600_000} 10 minutes.
   */
  readonly waitForHandlerMs?: number | undefined;
  /**
   * Version of the code, with which the process notes itself in the store. In an app, its `version` sets this.
   *
   * @default {undefined} None.
   */
  readonly version?: string | undefined;
  /**
   * The log: one line for each event that was handled, and one for each failure.
   *
   * @default {consoleSink}
   */
  readonly log?: LogSink | undefined;
  /**
   * Traces and metrics of attempts, of how long events have waited, and of what else becomes of them.
   *
   * @default {undefined} None are reported.
   */
  readonly telemetry?: Telemetry | undefined;
}

/**
 * A running worker.
 *
 * @category Event store and worker
 */
export interface EventWorker {
  /**
   * Polls the schedule at once.
   *
   * @returns A promise that resolves once nothing is due and no handler runs, or the worker stops.
   * @throws {Error} If the schedule could not be read for 10 s. The worker goes on trying.
   */
  poll(): Promise<void>;
  /**
   * Stops claiming events, aborts the handlers' signals, and waits for the handlers. If a handler has not
   * ended within the grace, its event is given back.
   *
   * @param options `graceMs` is how long to wait, in milliseconds: 4,000 by default, and `Infinity` for as
   * long as it takes.
   * @returns A promise that resolves once nothing runs any more, or everything is given back.
   * @throws {TypeError} If the options are not an object.
   * @throws {RangeError} If `graceMs` is not a number from 0 on.
   */
  stop(options?: { readonly graceMs?: number | undefined }): Promise<void>;
}

/**
 * Starts a worker: it takes events from the store as they become due, calls the handler, and settles
 * them by how that ends. A store's notifier wakes one worker; start one per store.
 *
 * @typeParam TTx The commit or transaction of the store, for effects.
 * @typeParam TReader The reader of the store, `db`.
 * @typeParam TPayload The payload that the handler expects.
 * @param store The event store.
 * @param handler Handles the events.
 * @param options Concurrency, leases and retries.
 * @returns The worker.
 * @throws {TypeError} If the store, the handler or an option is something else.
 * @throws {RangeError} If a number among the options is out of range.
 *
 * @example
 * ```ts ignore
 * import { openEventStore, startWorker, writeLog } from "@org/edge-base";
 *
 * const store = await openEventStore(await Deno.openKv());
 * const worker = startWorker(store, ({ type, payload }, { log }) => {
 *   writeLog(log, "info", "received", { type, payload });
 * });
 * Deno.addSignalListener("SIGTERM", () => worker.stop());
 * ```
 *
 * @category Event store and worker
 */
export function startWorker<TTx, TReader, TPayload = JsonObject>(
  store: EventStore<TTx, TReader>,
  handler: EventHandler<TPayload, HandlerContext<NoInfer<TTx>, NoInfer<TReader>>>,
  options: WorkerOptions = {},
): EventWorker {
  checkPart(DOING, store, "listen", "the store must be what openEventStore() resolves with");
  checkWorkerOptions(options);
  if (typeof handler !== "function") {
    throw new TypeError(`Cannot ${DOING}: the handler must be a function, got ${met(handler)}`);
  }
  return new StoreWorker(store, handler as unknown as EventHandler, withDefaults(options, store));
}

/**
 * Waits until a worker has noted its process in the store, so that other versions know what it handles.
 *
 * @param worker The worker.
 * @returns A promise that resolves once it has, or that has failed.
 */
export async function workerNoted(worker: EventWorker): Promise<void> {
  if (worker instanceof StoreWorker) await worker.noted;
}

/**
 * Ends a worker as the end of its process would, for a test: what it holds is neither settled nor given back, the signals
 * of its handlers are not aborted, and its note stays in the store. The steps of a handler that still runs are refused,
 * and its end settles nothing.
 *
 * @param worker The worker.
 */
export function killWorker(worker: EventWorker): void {
  if (worker instanceof StoreWorker) worker.kill();
}

/**
 * Renews all leases of a worker at once, for a test that has moved the time of day: while that time passes, a worker
 * would renew them.
 *
 * @param worker The worker.
 * @returns A promise that resolves once each was renewed, is lost, or that has failed.
 */
export async function renewLeases(worker: EventWorker): Promise<void> {
  if (worker instanceof StoreWorker) await worker.renewAll();
}

/**
 * Has a worker take the time of day for the right one, for a test that has moved it: leases that have expired by it are
 * taken over at once, and not only after a while, as if the clock had been set.
 *
 * @param worker The worker.
 */
export function acceptTime(worker: EventWorker): void {
  if (worker instanceof StoreWorker) worker.acceptTime();
}

/** A number of milliseconds that a timer takes. */
const timerMs = wholeNumber({ max: MAX_TIMER_MS });

const CHECKS = {
  concurrency: wholeNumber({ max: MAX_CONCURRENCY }),
  leaseMs: timerMs,
  pollMs: timerMs,
  timeoutMs: timerMs,
  onStuck: checkFunction,
  reportDead: checkBoolean,
  reportFailing: checkFailingRules,
  retry: checkRetryPolicy,
  rate: checkRate,
  waitForHandlerMs: wholeNumber({ min: 0, max: MAX_PUT_OFF_MS }),
  version: checkString,
  log: checkFunction,
  telemetry: checkTelemetry,
};

/**
 * Checks the options of a worker.
 *
 * @param options The options.
 * @throws {TypeError} If there is another option, or one has the wrong type.
 * @throws {RangeError} If a number is out of range.
 */
export function checkWorkerOptions(options: WorkerOptions): void {
  checkOptions(DOING, options, CHECKS);
}

/** Options with their defaults. */
type FullOptions = ReturnType<typeof withDefaults>;

function withDefaults(options: WorkerOptions, store: Pick<EventStore, "pollMs">) {
  const { concurrency = 10, leaseMs = 30_000, pollMs = store.pollMs, timeoutMs = 900_000 } =
    options;
  const { onStuck, reportDead = false, retry, waitForHandlerMs = 600_000 } = options;
  const { version, log = consoleSink, telemetry, reportFailing = [], rate } = options;
  return {
    ...{ concurrency, leaseMs, pollMs, timeoutMs, onStuck, reportDead, reportFailing, retry },
    ...{ waitForHandlerMs, version, log, telemetry, rate },
  };
}

/** Makes the part of a store that handlers work with. They are not held up for ever by a store that does not answer. */
function handlerStore(store: EventStore, leaseMs: number): HandlerStore {
  const within =
    <TArgs extends unknown[], T>(call: (...args: TArgs) => Promise<T>) =>
    async (...args: TArgs): Promise<T> => await withDeadline(call.apply(store, args), leaseMs);
  return Object.freeze({
    get: within(store.get),
    list: store.list.bind(store) as HandlerStore["list"],
    emit: within(
      store.emit as (...args: unknown[]) => Promise<AcceptResult>,
    ) as HandlerStore["emit"],
    wake: within(store.wake),
    cancel: within(store.cancel),
  });
}

/** A call of `poll` that waits. */
interface Poll {
  readonly done: PromiseWithResolvers<void>;
  /** Time by the monotonic clock since which claims fail; undefined unless the last one has failed. */
  failingSince?: number | undefined;
}

class StoreWorker implements EventWorker {
  readonly #store: EventStore;
  readonly #options: FullOptions;
  readonly #owner = crypto.randomUUID();
  readonly #queue: JobQueue;
  readonly #upkeep: Upkeep;
  readonly #versions: Versions;
  readonly #handlersOf: (event: EventRecord) => readonly unknown[];
  /** Resolves once this process is noted in the store, or that has failed. */
  readonly noted: Promise<void>;
  readonly #loop: Promise<void>;
  readonly #unwatch: (() => void) | undefined;
  /** Aborted once the worker has stopped, even if calls of the store are not answered. */
  readonly #ended = new AbortController();
  readonly #nextClaim: NextClaim;
  #polls: Poll[] = [];
  #stopping = false;
  #isKilled = false;
  #woken = false;
  #resume: (() => void) | undefined;

  constructor(store: EventStore, handler: EventHandler, options: FullOptions) {
    const { concurrency, leaseMs, pollMs, timeoutMs, log, telemetry } = options;
    this.#nextClaim = new NextClaim(pollMs);
    const timer = new SharedTimer();
    const settling = new Timeouts(leaseMs, timer);
    const renewals = new Timeouts(leaseMs * RENEWAL, timer);
    const limits = new Timeouts(timeoutMs, timer);
    const [owner, wake, { signal }] = [this.#owner, this.#wake, this.#ended];
    this.#store = store;
    this.#options = options;
    this.#handlersOf = (event) => handlersOf(handler, event);
    this.#versions = new Versions({ ...options, store, handler, owner });
    const versions = this.#versions;
    const events = handlerStore(store, leaseMs);
    const plans = new HandlerPlans(handler, options.retry, options.rate);
    const watches = new Watches(timer);
    const parts = {
      ...options,
      store,
      events,
      handler,
      plans,
      versions,
      settling,
      renewals,
      limits,
      handlersOf: this.#handlersOf,
      watches,
    };
    this.#queue = new JobQueue(parts, concurrency, owner, wake, options.onStuck);
    const { reserve, cancel } = this.#queue;
    const count = telemetry?.countStep.bind(telemetry);
    this.#upkeep = new Upkeep({ store, leaseMs, log, signal, count, wake });
    const onDueLater = (time: number) => this.#lookAt(time);
    const { onNewer } = watches;
    const listening = store.listen({
      ...{ wake, onDueLater, reserve, onCancelRequested: cancel, onNewer, count },
      version: options.version,
    });
    listening.catch((error) => writeLog(log, "error", "notifier failed", { error }));
    this.noted = this.#versions.begin();
    this.#loop = this.#run();
    this.#unwatch = telemetry?.watchOldestDue(() => store.oldestDueAt());
  }

  poll(): Promise<void> {
    if (this.#stopping) return Promise.resolve();
    const done = Promise.withResolvers<void>();
    // One that nobody waits for must not end the process.
    done.promise.catch(() => {});
    this.#polls.push({ done });
    this.#wake();
    return done.promise;
  }

  async stop(options: { readonly graceMs?: number | undefined } = {}): Promise<void> {
    checkObject("stop the worker", options);
    checkKeys("stop the worker", options, ["graceMs"]);
    const { graceMs = 4_000 } = options;
    if (typeof graceMs !== "number" || !(graceMs >= 0)) {
      const wanted = "'graceMs' must be a number of milliseconds from 0 on";
      throw new RangeError(`Cannot stop the worker: ${wanted}, got ${met(graceMs)}`);
    }
    const { signal } = this.#ended;
    if (signal.aborted) return;
    this.#stopping = true;
    this.#unwatch?.();
    this.#wake();
    this.#queue.stop();
    const quiet = Promise.all([this.#loop, this.#upkeep.stop()]).then(() => this.#queue.emptied());
    try {
      await withDeadline(quiet, Math.min(graceMs, MAX_TIMER_MS), signal);
    } catch {
      // Here, or by a stop with a shorter grace: the events of handlers that still run are given back.
    }
    if (!signal.aborted) await Promise.all([this.#queue.giveBackAll(), this.#versions.end()]);
    this.#ended.abort();
  }

  /** Ends it at once, without another change of the store. */
  kill(): void {
    this.#stopping = this.#isKilled = true;
    this.#unwatch?.();
    this.#queue.abandon();
    this.#giveUp();
    this.#ended.abort();
    this.#wake();
  }

  /** Renews all leases now. */
  renewAll(): Promise<void> {
    return this.#queue.renewAll();
  }

  /** Takes the time of day for the right one. */
  acceptTime(): void {
    this.#upkeep.acceptTime();
  }

  readonly #wake = (): void => {
    this.#nextClaim.setDue();
    this.#woken = true;
    this.#resume?.();
  };

  /** Has the schedule read at a time, if not before. A pause that has yet to begin is no longer than that. */
  #lookAt(time: number): void {
    if (this.#nextClaim.setFor(time)) this.#resume?.();
  }

  async #run(): Promise<void> {
    await this.noted;
    while (!this.#stopping) {
      // One that runs an event for long is not idle.
      if (this.#queue.hasJobs) this.#versions.stir();
      this.#queue.noteHung();
      this.#versions.keep();
      this.#upkeep.run();
      this.#queue.returnStale();
      const limit = this.#queue.toClaim;
      if (limit > 0 && this.#isTimeToLook) await this.#look(limit);
      // The next place that gets free is looked for at once.
      else if (this.#isTimeToLook) this.#queue.isBehind = true;
      // After a full claim more may be due; otherwise nothing is until something happens.
      if (limit <= 0) await this.#pause(this.#nextClaim.tickMs);
      else if (!this.#queue.isBehind) await this.#pause(this.#nextClaim.leftMs);
    }
    for (const { done } of this.#polls.splice(0)) done.resolve();
  }

  get #isTimeToLook(): boolean {
    return this.#queue.isBehind || this.#nextClaim.isDue || this.#polls.length > 0;
  }

  /** Claims what is due. Those who wait for that are told once nothing was, and nothing runs. */
  async #look(limit: number): Promise<void> {
    const polls = this.#polls.splice(0);
    // What is given back during a claim may be due, and that claim does not see it.
    const hadJobs = this.#queue.hasJobs;
    const since = performance.now();
    const failure = await this.#claim(limit);
    if (failure || hadJobs || !this.#queue.isEmpty) this.#polls.push(...polls);
    else for (const { done } of polls) done.resolve();
    for (const poll of polls) poll.failingSince = failure && (poll.failingSince ?? since);
    if (failure && !this.#stopping) this.#failPolls(failure.error);
  }

  /** Fails those who have waited for a claim that succeeds for long. */
  #failPolls(error: unknown): void {
    const begunBy = performance.now() - CLAIM_TIMEOUT_MS;
    const isLate = ({ failingSince = Infinity }: Poll) => failingSince <= begunBy;
    for (const { done } of this.#polls.filter(isLate)) {
      done.reject(new Error(`The schedule cannot be read: ${reasonOf(error)}`, { cause: error }));
    }
    this.#polls = this.#polls.filter((poll) => !isLate(poll));
  }

  /** Claims what is due. Returns the failure if it fails. */
  async #claim(limit: number): Promise<{ readonly error: unknown } | undefined> {
    const { leaseMs, log } = this.#options;
    const takeOver = !this.#upkeep.hasClockJumped();
    const [{ holds }, handlersOf, owner] = [this.#queue, this.#handlersOf, this.#owner];
    const endClaim = this.#queue.beginClaim(limit);
    this.#nextClaim.begin();
    const claiming = this.#store.claim({ limit, owner, leaseMs, takeOver, holds, handlersOf });
    try {
      const leases = await withDeadline(claiming, CLAIM_TIMEOUT_MS, this.#ended.signal);
      this.#nextClaim.end(leases.length > 0);
      endClaim(leases);
      return undefined;
    } catch (error) {
      endClaim([]);
      if (!this.#ended.signal.aborted) writeLog(log, "error", "claim failed", { error });
      if (!this.#isKilled) this.#releaseAll(claiming);
      if (error instanceof ClosedError) this.#giveUp();
      return { error };
    }
  }

  /** Releases what a claim leased too late. Otherwise it would wait for its lease to expire. */
  async #releaseAll(claiming: Promise<Lease[]>): Promise<void> {
    try {
      for (const lease of await claiming) await this.#store.release(lease);
    } catch {
      // The claim leased nothing, or its leases will expire.
    }
  }

  /** Ends the loop, since the store is closed. */
  #giveUp(): void {
    this.#stopping = true;
    this.#upkeep.stop();
  }

  async #pause(ms: number): Promise<void> {
    if (!this.#woken) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#resume = resolve;
      const timer = setTimeout(resolve, ms);
      await promise;
      clearTimeout(timer);
      this.#resume = undefined;
    }
    this.#woken = false;
  }
}

/**
 * The time of the next claim: when the worker is woken, when the first event is due that it knows of, or after a while.
 *
 * That while is a second after a claim that has found events, and doubles with each one that has found none: another
 * process that has more than it can take does not always wake this one. It is a second, too, after another process was
 * quicker to take what was due: that may put it off, and does not always wake this one then.
 */
class NextClaim {
  /** Longest time until the worker looks at the clock, in milliseconds. */
  readonly tickMs: number;
  readonly #pollMs: number;
  #afterMs: number;
  /** Time of the next claim by the monotonic clock. */
  #at = -Infinity;
  /** First time at which an event is due, milliseconds since the epoch. */
  #dueAt = Infinity;
  /** Set if the last claim was made since an event was due. */
  #wasForEvent = false;

  /** @param pollMs The longest time between two claims, in milliseconds. */
  constructor(pollMs: number) {
    this.#pollMs = pollMs;
    this.tickMs = Math.min(TICK_MS, pollMs);
    this.#afterMs = this.tickMs / 2;
  }

  get isDue(): boolean {
    return performance.now() >= this.#at || Date.now() >= this.#dueAt;
  }

  /** Time until the worker looks again, in milliseconds: at the schedule, or only at the clock. */
  get leftMs(): number {
    const ms = Math.min(this.tickMs, this.#at - performance.now(), this.#dueAt - Date.now());
    // `setTimeout` cuts off parts of a millisecond.
    return Math.max(0, Math.ceil(ms));
  }

  /** Makes it now. */
  setDue(): void {
    this.#at = -Infinity;
  }

  /** Makes it the time at which an event is due, if that is sooner. Returns false if it is not. */
  setFor(time: number): boolean {
    if (time >= this.#dueAt) return false;
    this.#dueAt = time;
    return true;
  }

  /** Notes that a claim begins, which finds all that is due by now. If it fails, the next one is soon. */
  begin(): void {
    this.#wasForEvent = Date.now() >= this.#dueAt;
    this.#dueAt = Infinity;
    this.#at = performance.now() + this.tickMs;
  }

  /** Notes that a claim has ended. The worker may have been woken meanwhile. */
  end(hasFound: boolean): void {
    const isSoon = hasFound || this.#wasForEvent;
    this.#afterMs = isSoon ? this.tickMs : Math.min(this.#pollMs, 2 * this.#afterMs);
    if (this.#at !== -Infinity) this.#at = performance.now() + this.#afterMs;
  }
}
