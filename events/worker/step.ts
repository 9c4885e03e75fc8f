import {
  checkBoolean,
  checkFunction,
  checkOptions,
  met,
  oneOf,
  type OptionCheck,
  wholeNumber,
} from "../../core/check_options.ts";
import type { Take } from "./take.ts";
import type { CommitEffects, Emit, HandlerState, StateOptions } from "../store/mod.ts";
import { MAX_PUT_OFF_MS } from "../store/settlement.ts";
import { checkName, MAX_TIMEOUT_MS } from "../store/waits.ts";

/** Checks of the options of an error that may put an event off. */
export const PUT_OFF_CHECKS = { afterMs: checkDelay, cause: undefined };

function checkDelay(doing: string, name: string, value: unknown): void {
  if (Number.isFinite(value) && (value as number) >= 0) return;
  throw new RangeError(
    `Cannot ${doing}: '${name}' must be a number of milliseconds from 0 on, got ${met(value)}`,
  );
}

/** Limits a delay to the longest for which an event is put off: a service may ask for more. */
export function putOffDelay(afterMs: number): number {
  return Math.min(afterMs, MAX_PUT_OFF_MS);
}

/** The longest name of a step, in characters. */
const MAX_NAME_LENGTH = 200;

/**
 * The part of a handler's context that a step has as well. What is added with that of a step is committed together with
 * its result, and skipped with it in later attempts.
 *
 * @typeParam TTx What the functions of `settleWith` get: the store's commit, or its transaction.
 * @category Handlers
 */
export interface StepContext<TTx = unknown> {
  /**
   * Aborted when the event is cancelled, when its lease is lost to another worker, when the handler has
   * reached its time limit, when a newer event interrupts it ({@linkcode NewerEventError}), or when the worker
   * stops: the handler should end then. The next event of the same ordering key waits until it has.
   */
  readonly signal: AbortSignal;
  /**
   * Adds writes to the commit that settles the event as done, for effects in the same database. They happen
   * exactly once, and not at all if the handler fails or the event is cancelled. If they cannot be committed, the
   * attempt fails. So it does if they change what belongs to the store.
   *
   * @param effects Called with the commit after the handler has ended, see {@linkcode StoreDefinition}. It must be
   * synchronous. It may be called twice, if the commit is tried again: only what the last call adds is committed.
   * @throws {TypeError} If the handler has ended.
   */
  settleWith(effects: CommitEffects<TTx>): void;
  /**
   * Emits an event from the app itself: a follow-up, one of many items, a reminder. It is stored exactly once, in
   * the commit that settles this event as done, or that notes this handler as done if it is one of several. It
   * is not stored at all if the handler fails, or the event is cancelled. What a step emits is stored with the step.
   */
  readonly emit: Emit;
  /**
   * Wakes the event that waits for a name, in the commit that settles this event, like the effects of
   * `settleWith`: once, and not at all if the handler fails or waits itself. If no event waits, the value is
   * kept for seven days. If an earlier value is there that no event has taken yet, that one counts.
   *
   * @param name The name, a text of 1 to 256 characters.
   * @param value A value that can be written as JSON, of up to 8,192 bytes in UTF-8.
   * @throws {TypeError} If the name is another value or that of a question, the value cannot be written as JSON, or the handler has
   * ended.
   * @throws {RangeError} If the value is too large, or the handler wakes more than three names.
   */
  wake(name: string, value?: unknown): void;
  /**
   * Opens a state that outlives the event, such as the step of a conversation. What the handler sets is committed
   * with the settlement of the event as done, exactly once, and not at all if the handler fails, puts the
   * event off, or the event is cancelled. If somebody else has changed the same state meanwhile, the attempt
   * fails with a `StateConflictError`, and is tried again as any other. One that is only read is not checked.
   *
   * Of several handlers of an event each commits its own states, when it is noted as done. An event has
   * up to three.
   *
   * @typeParam TValue The type of its value. It is not checked.
   * @param key The key, of up to 256 characters: `chat/42`.
   * @param options The intake that the state belongs to: by default the event's.
   * @returns The state as it is stored, the same object for each call.
   * @throws {TypeError} If the key is not a text, or the handler has ended.
   * @throws {RangeError} If the key is too long, or it would be the fourth state.
   * @throws {Error} If another version wrote the state, or it is damaged.
   */
  state<TValue>(key: string, options?: StateOptions): Promise<HandlerState<TValue>>;
  /**
   * Waits for room under the limit of a service, and counts a call of it: call the service right after. The limit is one
   * for all processes on the store, and never exceeded over any time of the length `perMs`, as far as their clocks agree.
   * About 97 % of it can be used. A process takes room for several calls in one commit, up to a 20th of the limit: for
   * those that wait and, while half of the limit is free, for further ones. What it has not used after a 32nd of `perMs`,
   * or when it is killed, is lost.
   *
   * If there is no room in `waitMs`, the event is put off until there is, without an attempt, each at a time of its own.
   * If calls with different rules name the same limit, each counts by its own.
   *
   * In a step with the option `unknown`, take before anything else: if there is no room, the step counts as not begun.
   *
   * @param name The name of the limit: `telegram`.
   * @param options The rule, the part of the limit that is counted alone, and the longest wait.
   * @throws {RetryLaterError} If there is no room in that time. Let it pass. In a step it is a {@linkcode NotDoneError}.
   * @throws {TypeError | RangeError} If an option is something else, or the handler has ended.
   * @throws {Error} If the store does not answer.
   *
   * @example
   * ```ts
   * import { type EventHandler, retryAtOf } from "@org/edge-base/events";
   *
   * export const handler: EventHandler = async ({ chat }, { take, signal }) => {
   *   const key = chat?.id;
   *   await take("telegram", { key, limit: 1, perMs: 1_000 });
   *   const answer = await fetch("https://api.telegram.org/...", { method: "POST", signal });
   *   await take.later("telegram", { key, untilMs: retryAtOf(answer) });
   * };
   * ```
   */
  readonly take: Take;
}

/**
 * Finding about a step that may have happened: its result, `true` if it has none, undefined if it has not happened.
 *
 * @typeParam T The result.
 * @category Handlers
 */
export type FoundStep<T> = T | undefined | ([T] extends [void] ? true : never);

/**
 * Options of {@linkcode HandlerContext.step}.
 *
 * @typeParam T The result.
 * @category Handlers
 */
export interface StepOptions<T = unknown> {
  /**
   * Way to go on if the step has begun in an earlier attempt, and it is not known how it ended: the process was
   * killed meanwhile, or the step has thrown.
   *
   * - A function looks for what the step would have made. What it returns is the result; if it returns undefined, it
   *   has not happened, and the step is taken. For a step without a result it returns `true`.
   * - `"repeat"`: the step is taken again.
   * - `"skip"`: it counts as taken. The result is undefined.
   * - `"fail"`: the event is given up, with the error `unknown outcome of step '...'`.
   *
   * With it a step takes one commit more, for the note that it begins. A step that throws a {@linkcode NotDoneError}
   * has not happened.
   *
   * @default {undefined} The step is taken again, and no note is made.
   */
  readonly unknown?:
    | ((context: { readonly signal: AbortSignal }) => FoundStep<T> | Promise<FoundStep<T>>)
    | "repeat"
    | "skip"
    | "fail"
    | undefined;
  /**
   * Set if the result stays when a newer event interrupts the handler, or false if it is dropped, whatever the rule of
   * the group says ({@linkcode InterruptRule}). Keep a message that the next run is to edit.
   *
   * @default {undefined} The rule of the group decides.
   */
  readonly keep?: boolean | undefined;
}

/**
 * Takes a step, see {@linkcode HandlerContext.step}.
 *
 * @typeParam TTx What the functions of `settleWith` get.
 * @category Handlers
 */
export interface TakeStep<TTx = unknown> {
  /** Takes a step that is skipped if it is not known whether it has happened: then it has no result. */
  <T>(
    name: string,
    fn: (context: StepContext<TTx>) => T | Promise<T>,
    options: StepOptions<T> & { readonly unknown: "skip" },
  ): Promise<T | undefined>;
  /** Takes a step. */
  <T>(
    name: string,
    fn: (context: StepContext<TTx>) => T | Promise<T>,
    options?: StepOptions<T>,
  ): Promise<T>;
}

/**
 * Thrown by a step that has an option `unknown`, to say that it has not happened: the service has refused it, or
 * was not reached. Any other error leaves that unknown. With `afterMs` the event is put off, as by a
 * {@linkcode RetryLaterError}.
 *
 * @example
 * ```ts
 * import { type EventHandler, NotDoneError } from "@org/edge-base";
 *
 * export const handler: EventHandler = async (_event, { step }) => {
 *   await step("post", async ({ signal }) => {
 *     const response = await fetch("https://api.example.com/posts", { method: "POST", signal });
 *     if (response.status === 429) throw new NotDoneError("Too many requests");
 *     if (!response.ok) throw new Error(`Status ${response.status}`);
 *   }, { unknown: "fail" });
 * };
 * ```
 *
 * @category Handlers
 */
export class NotDoneError extends Error {
  /** The class's name. */
  override readonly name = "NotDoneError";
  /** Delay until the event is due again, in milliseconds; undefined if this counts as a failure. */
  readonly afterMs: number | undefined;

  /**
   * Creates the error.
   *
   * @param message The reason.
   * @param options `afterMs` puts the event off, for a number of milliseconds from 0 on: more than 604,800,000, which is
   * seven days, counts as that. `cause` is the error's cause.
   * @throws {TypeError} If there is another option.
   * @throws {RangeError} If the delay is out of range.
   */
  constructor(
    message: string,
    options: { readonly afterMs?: number | undefined; readonly cause?: unknown } = {},
  ) {
    checkOptions("say that the step is not done", options, PUT_OFF_CHECKS);
    const { afterMs, cause } = options;
    super(message, cause === undefined ? undefined : { cause });
    this.afterMs = afterMs && putOffDelay(afterMs);
  }
}

/** Checks the option `unknown`. */
export const checkUnknown: OptionCheck = (doing, name, value) => {
  if (typeof value !== "function") oneOf("repeat", "skip", "fail")(doing, name, value);
};

/** Checks a step before it is taken. */
export function checkStep(name: unknown, fn: unknown, options: object | undefined): void {
  checkStepName("take the step", name);
  const doing = `take the step ${met(name)}`;
  checkFunction(doing, "fn", fn);
  checkOptions<StepOptions>(doing, options === undefined ? {} : options, {
    unknown: checkUnknown,
    keep: checkBoolean,
  });
}

/** Checks a wait that only time ends. */
export function checkSleep(name: unknown, ms: unknown): asserts name is string {
  checkStepName("sleep", name);
  wholeNumber({ max: MAX_TIMEOUT_MS })("sleep", "ms", ms);
}

/** Checks the name of a step, or of what is done like one. */
export function checkStepName(doing: string, name: unknown): asserts name is string {
  checkName(doing, name, MAX_NAME_LENGTH);
}
