import { writeLog } from "../../core/mod.ts";
import { textOf } from "../../core/text_of.ts";
import type { Timeout } from "../../core/timeouts.ts";
import {
  type EventHandler,
  FailedAndPutOff,
  GiveUpError,
  type HandlerContext,
  NoHandler,
  ParkedError,
  RetryLaterError,
  type WebhookEvent,
} from "../worker/event.ts";
import type { ConcurrencyLimit } from "../worker/concurrency_limit.ts";
import type { RateOptions } from "../worker/rate_limit.ts";
import {
  mergedPolicy,
  PLAN,
  type PlannedEvent,
  type PlannedHandler,
  type PlannedRun,
  stillTried,
} from "../worker/handler_plans.ts";
import { type HandlerRun, type RunLimits, runOf } from "../worker/handler_run.ts";
import type { RetryPolicy } from "../worker/retry_policy.ts";
import type { TimeLimit } from "../worker/time_limit.ts";
import { WaitRefusedError } from "../store/mod.ts";

/** A handler, and the key that its progress is noted by. */
export interface NamedHandler {
  /** Its name among all handlers: the same in each process. */
  readonly key: string;
  readonly handler: EventHandler;
  /** Its time limit, in milliseconds; undefined for the worker's. */
  readonly timeoutMs: number | undefined;
  /** Its policy, as far as that differs from the worker's; undefined if it does not. */
  readonly retry: RetryPolicy | undefined;
  /** Limit of its runs at once; undefined for none. */
  readonly limit: ConcurrencyLimit | undefined;
  /** Limit of the rate at which they begin; undefined for none. */
  readonly rate: RateOptions | undefined;
}

interface Failure {
  readonly key: string;
  /** Its name with those of its own handlers that have failed, if it is a router. */
  readonly name: string;
  readonly error: unknown;
  /** The policies by which it is tried again; none if it gives the event up, or waits. */
  readonly retries: readonly RetryPolicy[];
}

const NONE: readonly never[] = [];

/** Largest number of failed handlers that are named in an event's error. */
const MAX_REASONS = 10;

/** Length of the text about them: an event's record keeps 1,000 characters of an error. */
const MAX_REASONS_LENGTH = 900;

/** Runs the handlers of an event that have not succeeded yet, and notes those that succeed. */
export async function handleAll(
  handlers: readonly NamedHandler[],
  event: WebhookEvent,
  context: HandlerContext,
): Promise<void> {
  const around = runOf(context);
  // Somebody has made the context by hand, for a test perhaps: nothing is noted.
  if (!around) return void await Promise.all(handlers.map((each) => each.handler(event, context)));
  const all = around.unfinished(handlers);
  const unfinished = event.attempt === 1 || all.length < 2 ? all : triedOf(all, event, around);
  const limits = new HandlerLimits(unfinished, context, around);
  const failures: Failure[] = unfinished === all ? [] : usedUp(all, unfinished);
  if (failures.length > 0) around.notePartEnded();
  let [running, unwanted] = [unfinished.length, 0];
  const runs = unfinished.map(async ({ key, handler, retry, limit }) => {
    const run = around.partOf(key, limits.of(key, retry));
    run.isAmongOthers = handlers.length > 1;
    try {
      await run.handle(handler, event, context);
      // The last one is noted by the event's settlement, which saves a commit.
      if (running > 1 || failures.length > 0) await run.note();
      else run.handOver();
      if (running > 1) around.notePartEnded();
    } catch (error) {
      // A router that is one of the handlers may have none for this event.
      if (error instanceof NoHandler && !error.isStrict) unwanted++;
      else {
        failures.push(failureOf(key, isHopeless(event, error) ? givenUp(error) : error, run));
        if (running > 1) around.notePartEnded();
      }
    }
    limits.end(key);
    if (limit) around.limits.places?.leave(limit);
    running--;
  });
  await (runs.length === 1 ? runs[0] : Promise.all(runs));
  if (failures.length > 0) {
    around.retries = failures.flatMap(({ retries }) => retries);
    around.failedIn = failures.map(({ name }) => name).sort().join(", ");
    throw endOf(failures, handlers.length, around);
  }
  if (unwanted === handlers.length) throw new NoHandler(event.type);
}

/** Plans the runs of an event's handlers, and of those within handlers that are routers. */
export function planRuns(
  handlers: readonly NamedHandler[],
  event: PlannedEvent,
  retry: RetryPolicy,
): readonly PlannedRun[] {
  return unfinishedOf(handlers, event).flatMap((named) => runsOf(named, event, retry));
}

function runsOf(
  { key, handler, retry: own, limit, rate }: NamedHandler,
  event: PlannedEvent,
  around: RetryPolicy,
): readonly PlannedRun[] {
  const retry = mergedPolicy(own, around);
  const limits = limit ? [limit] : NONE;
  const rates = rate ? [rate] : NONE;
  const plan = (handler as PlannedHandler)[PLAN];
  if (!plan) return [{ retry, limits, rates }];
  const prefix = `${key}/`;
  const inner = event.progress?.filter((part) => part.startsWith(prefix));
  const progress = inner?.map((part) => part.slice(prefix.length));
  const runs = plan.runs({ ...event, progress }, retry);
  return limit || rate
    ? runs.map((run) => ({
      ...run,
      limits: [...limits, ...run.limits],
      rates: [...rates, ...run.rates],
    }))
    : runs;
}

/** Finds the handlers that have not succeeded yet. */
function unfinishedOf(
  handlers: readonly NamedHandler[],
  { progress = [] }: Pick<PlannedEvent, "progress">,
): readonly NamedHandler[] {
  return handlers.filter(({ key }) => !progress.includes(key));
}

/** Finds those whose attempts are not used up. */
function triedOf(
  handlers: readonly NamedHandler[],
  { intake, platform, type, action, attempt }: WebhookEvent,
  { limits, done: progress }: HandlerRun,
): readonly NamedHandler[] {
  const planned = { intake, platform, type, action, attempt, progress };
  return stillTried(
    handlers,
    attempt,
    (named) => runsOf(named, planned, limits.retry).map(({ retry }) => retry),
  );
}

/** Makes the failures of handlers that are not called any more. */
function usedUp(all: readonly NamedHandler[], tried: readonly NamedHandler[]): Failure[] {
  const error = new GiveUpError("Not called any more, since its attempts are used up");
  return all.filter((each) => !tried.includes(each)).map(({ key }) => ({
    key,
    name: key,
    error,
    retries: [],
  }));
}

function failureOf(key: string, error: unknown, run: HandlerRun): Failure {
  const { retries, limits, failedIn } = run;
  const name = failedIn === undefined ? key : `${key}/${failedIn}`;
  const isOver = error instanceof GiveUpError || error instanceof ParkedError;
  return { key, name, error, retries: isOver ? [] : retries ?? [limits.retry] };
}

/** A handler that runs. */
interface RunningHandler {
  readonly key: string;
  /** Its limit, in milliseconds. */
  readonly ms: number;
  /** The timeout of its own signal, if it has one. */
  timeout?: Timeout;
}

/**
 * The time limits of an event's handlers. The attempt has the longest limit among them, and a handler
 * with a shorter one has its own signal. A handler that is alone may be a router, whose handlers have limits
 * as well.
 */
class HandlerLimits {
  readonly #context: HandlerContext;
  readonly #around: RunLimits;
  readonly #startedAt = performance.now();
  #running: readonly RunningHandler[];
  readonly #isAlone: boolean;
  /** The limit of the attempt, in milliseconds. */
  #longest: number;

  constructor(
    handlers: readonly NamedHandler[],
    context: HandlerContext,
    { limits }: HandlerRun,
  ) {
    this.#context = context;
    this.#around = limits;
    const { limit, limitMs } = limits;
    this.#running = handlers.map(({ key, timeoutMs: ms = limitMs }) => ({ key, ms }));
    this.#isAlone = handlers.length === 1;
    this.#longest = this.#longestNow;
    if (this.#longest !== limitMs) limit?.set(this.#longest);
    limit?.nameBy(() => this.#running.map(({ key }) => key));
  }

  /** Makes the signal, the limit and the policy of a handler that starts. */
  of(key: string, ownRetry: RetryPolicy | undefined): RunLimits {
    const { signal } = this.#context;
    const { limit } = this.#around;
    const running = this.#of(key);
    const { ms: limitMs } = running;
    const retry = mergedPolicy(ownRetry, this.#around.retry);
    const { places } = this.#around;
    if (this.#isAlone) return { signal, limit, limitMs, retry, places };
    const isShorter = limit && limitMs < this.#longest;
    const own = isShorter ? this.#signalAfter(limit, running) : signal;
    return { signal: own, limit: undefined, limitMs, retry, places };
  }

  #of(key: string): RunningHandler {
    return this.#running.find((each) => each.key === key)!;
  }

  #signalAfter(limit: TimeLimit, running: RunningHandler): AbortSignal {
    const { key, ms } = running;
    const { signal, log } = this.#context;
    const own = new AbortController();
    running.timeout = limit.start(ms, () => {
      writeLog(log, "error", "handler still running", { handler: key, timeoutMs: ms });
      own.abort(new Error(`The handler has reached its time limit of ${ms} ms`));
    });
    return AbortSignal.any([signal, own.signal]);
  }

  /** Notes that a handler has ended: the attempt must not wait for its limit any more, nor end by it. */
  end(key: string): void {
    const ended = this.#of(key);
    ended.timeout?.cancel();
    this.#running = this.#running.filter((each) => each !== ended);
    const longest = this.#longestNow;
    if (longest === this.#longest) return;
    this.#longest = longest;
    for (const { ms, timeout } of this.#running) if (ms === longest) timeout?.cancel();
    const inMs = Math.max(0, this.#startedAt + longest - performance.now());
    this.#around.limit?.set(longest, inMs);
  }

  get #longestNow(): number {
    let longest = 0;
    for (const { ms } of this.#running) longest = Math.max(longest, ms);
    return longest || this.#around.limitMs;
  }
}

/** Checks whether a handler has failed because events of a batch cannot wait: it would in each attempt. */
function isHopeless({ batch = [] }: WebhookEvent, error: unknown): error is WaitRefusedError {
  return batch.length > 1 && error instanceof WaitRefusedError;
}

const givenUp = (cause: Error): GiveUpError => new GiveUpError(cause.message, { cause });

/**
 * Makes the error of the event if handlers have failed or wait. It waits only if none has failed or put it
 * off; one that gives it up does so again, once the others have ended.
 */
function endOf(failures: readonly Failure[], count: number, around: HandlerRun): unknown {
  const waiting = failures.find(({ error }) => error instanceof ParkedError);
  if (!waiting) return errorOf(failures, count);
  const others = failures.filter(({ error }) => !(error instanceof ParkedError));
  if (others.every(({ error }) => error instanceof GiveUpError)) return waiting.error;
  around.dropWait();
  return errorOf(others, count);
}

/**
 * Makes the error of the event. It is given up only if all its failed handlers give it up, and put off if
 * none has failed otherwise: one that gives it up does so again, once the others have ended.
 */
function errorOf(failures: readonly Failure[], count: number): unknown {
  if (count === 1) return failures[0]!.error;
  const errors = failures.map(({ error }) => error);
  const message = `${failures.length} of ${count} handlers failed: ${reasonsOf(failures)}`;
  const [cause] = errors;
  if (errors.every((error) => error instanceof GiveUpError)) {
    return new GiveUpError(message, { cause });
  }
  const afterMs = longestDelay(errors);
  if (afterMs === undefined) return new AggregateError(errors, message);
  const isPutOff = errors.every((error) =>
    error instanceof RetryLaterError || error instanceof GiveUpError
  );
  return isPutOff
    ? new RetryLaterError(reasonsOf(failures), { afterMs, cause })
    : new FailedAndPutOff(errors, message, afterMs);
}

/** Finds the longest delay that handlers ask for: none of them is to be called too early. */
function longestDelay(errors: readonly unknown[]): number | undefined {
  const delays = errors.flatMap((error) =>
    error instanceof RetryLaterError || error instanceof FailedAndPutOff ? [error.afterMs] : []
  );
  return delays.length === 0 ? undefined : Math.max(...delays);
}

function reasonsOf(failures: readonly Failure[]): string {
  const named = failures.slice(0, MAX_REASONS);
  const length = Math.floor(MAX_REASONS_LENGTH / named.length);
  const reasons = named.map(({ key, error }) => {
    const reason = `${key}: ${textOf(error)}`;
    return reason.length > length ? `${reason.slice(0, length - 1)}…` : reason;
  });
  const more = failures.length - named.length;
  return [...reasons, ...more > 0 ? [`and ${more} more`] : []].join("; ");
}
