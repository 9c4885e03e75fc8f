/**
 * The runs of handlers that an attempt at an event consists of, planned before it begins: by which policy each is tried
 * again, and under which limits each is.
 *
 * An event has one count of attempts, and each attempt calls the handlers that have not succeeded. Each of them has the
 * worker's policy, or its own. A handler whose attempts are used up is not called any more while another one of the
 * event is tried again. The event comes again after the longest delay among the handlers that have failed, so that none
 * is called too early, and dies once the attempts of all of them are used up.
 *
 * A worker has one function for all events. If that is a router or an app, it tells by {@linkcode PLAN} which handlers
 * are behind it.
 *
 * @module
 */
import type { EventRecord } from "../store/mod.ts";
import type { ConcurrencyLimit } from "./concurrency_limit.ts";
import type { RateOptions } from "./rate_limit.ts";
import type { EventHandler } from "./event.ts";
import { retryDelay, type RetryPolicy } from "./retry_policy.ts";

/** Key of a {@linkcode PlannedHandler}. */
export const PLAN = Symbol("plan");

/** Facts of an event by which its runs are planned: those of its record. */
export type PlannedEvent = Pick<
  EventRecord,
  "intake" | "platform" | "type" | "action" | "attempt" | "progress"
>;

/** Run of a handler that is planned. */
export interface PlannedRun {
  /** Policy by which the handler is tried again. */
  readonly retry: RetryPolicy;
  /** Limits under which the run takes a place. */
  readonly limits: readonly ConcurrencyLimit[];
  /** Limits of the rate at which it begins. */
  readonly rates: readonly RateOptions[];
}

/** Planner of the runs of a handler that calls others. */
export interface HandlerPlan {
  /** True if there may be limits. */
  readonly hasLimits: boolean;
  /**
   * Finds the policy for an event if the worker has none.
   *
   * @param event The event.
   * @returns The policy of its platform; undefined if that has none.
   */
  retryOf?(event: PlannedEvent): RetryPolicy | undefined;
  /**
   * Plans the runs of an event's attempt.
   *
   * @param event The event.
   * @param retry The policy of handlers without one.
   * @returns The runs of the handlers that have not succeeded; none if it has no handler for the event.
   */
  runs(event: PlannedEvent, retry: RetryPolicy): readonly PlannedRun[];
}

/** A handler that may tell which others it calls. */
export interface PlannedHandler extends EventHandler {
  readonly [PLAN]?: HandlerPlan | undefined;
}

/** The plans of a worker. */
export class HandlerPlans {
  readonly #plan: HandlerPlan | undefined;
  readonly #retry: RetryPolicy | undefined;
  readonly #rate: RateOptions | undefined;

  /**
   * @param handler The worker's handler.
   * @param retry The worker's policy; undefined if it has none.
   * @param rate The limit of the rate of all events; undefined for none.
   */
  constructor(
    handler: PlannedHandler,
    retry: RetryPolicy | undefined,
    rate?: RateOptions,
  ) {
    this.#plan = handler[PLAN];
    this.#retry = retry;
    this.#rate = rate;
  }

  /** Finds the policy of those handlers of an event that have none of their own. */
  retryOf(event: PlannedEvent): RetryPolicy {
    return this.#retry ?? this.#plan?.retryOf?.(event) ?? {};
  }

  /** Lists the policies of an event's handlers that have not succeeded. */
  retriesOf(event: PlannedEvent): readonly RetryPolicy[] {
    const retry = this.retryOf(event);
    const runs = this.#plan?.runs(event, retry) ?? [];
    return runs.length === 0 ? [retry] : runs.map((run) => run.retry);
  }

  /** Lists the limits of the handlers that the next attempt at an event calls; undefined if there are none at all. */
  limitsOf(event: PlannedEvent): Pick<PlannedRun, "limits" | "rates"> | undefined {
    if (!this.#plan?.hasLimits) return this.#rate && { limits: [], rates: [this.#rate] };
    const runs = this.#plan.runs(event, this.retryOf(event));
    const tried = stillTried(runs, event.attempt, ({ retry }) => [retry]);
    return {
      limits: tried.flatMap(({ limits }) => limits),
      rates: [...this.#rate ? [this.#rate] : [], ...tried.flatMap(({ rates }) => rates)],
    };
  }
}

/**
 * Completes a handler's policy.
 *
 * @param own The handler's policy, or undefined.
 * @param retry The policy that gives what it leaves out.
 */
export function mergedPolicy(own: RetryPolicy | undefined, retry: RetryPolicy): RetryPolicy {
  if (!own) return retry;
  const { minDelayMs = retry.minDelayMs } = own;
  const { maxDelayMs = retry.maxDelayMs, maxAttempts = retry.maxAttempts } = own;
  return { minDelayMs, maxDelayMs, maxAttempts };
}

/**
 * Chooses the handlers that an attempt calls: those whose attempts are not used up, or else all of them.
 *
 * @param handlers The handlers that have not succeeded.
 * @param attempt The number of the attempt.
 * @param retriesOf Lists the policies of a handler: it is called while one of them has attempts left.
 */
export function stillTried<T>(
  handlers: readonly T[],
  attempt: number,
  retriesOf: (handler: T) => readonly RetryPolicy[],
): readonly T[] {
  const tried = handlers.filter((each) => longestDelay(retriesOf(each), attempt - 1) !== null);
  return tried.length === 0 ? handlers : tried;
}

/**
 * Calculates the delay until an event is tried again whose handlers have failed: the longest of theirs.
 *
 * @param retries The policies of the handlers.
 * @param attempt The attempt that failed, from 1.
 * @returns Milliseconds; null if the attempts of all of them are used up.
 */
export function longestDelay(retries: readonly RetryPolicy[], attempt: number): number | null {
  const delays = retries.flatMap((retry) => retryDelay(retry, attempt) ?? []);
  return delays.length === 0 ? null : Math.max(...delays);
}
