import { createHash } from "node:crypto";
import {
  checkFunction,
  checkOptions,
  met,
  oneOf,
  type OptionCheck,
  wholeNumber,
} from "../../core/check_options.ts";
import type { EventRecord } from "../store/mod.ts";
import { MAX_TIMEOUT_MS } from "../store/waits.ts";
import type { HandlerContext } from "./event.ts";

/** The longest name of a step, in characters. */
const MAX_NAME_LENGTH = 200;

/**
 * The part of a handler's context that a step has as well. What is added with it is committed together with the
 * step's result, and skipped with it in later attempts.
 *
 * @typeParam TTx What the functions of `settleWith` get: the store's commit, or its transaction.
 * @category Handlers
 */
export type StepContext<TTx = unknown> = Pick<
  HandlerContext<TTx>,
  "signal" | "settleWith" | "emit" | "wake" | "state"
>;

/**
 * Options of {@linkcode HandlerContext.step}.
 *
 * @typeParam T The result.
 * @category Handlers
 */
export interface StepOptions<T = unknown> {
  /**
   * What is done if the step has begun in an earlier attempt, and it is not known how it ended: the process was
   * killed meanwhile, or the step has thrown.
   *
   * - A function looks for what the step would have made. What it returns is the result; if it returns undefined, it
   *   has not happened, and the step is taken.
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
    | ((context: { readonly signal: AbortSignal }) => T | undefined | Promise<T | undefined>)
    | "repeat"
    | "skip"
    | "fail"
    | undefined;
}

/**
 * Takes a step, see {@linkcode HandlerContext.step}.
 *
 * @typeParam TTx What the functions of `settleWith` get.
 * @category Handlers
 */
export type TakeStep<TTx = unknown> = <T>(
  name: string,
  fn: (context: StepContext<TTx>) => T | Promise<T>,
  options?: StepOptions<T>,
) => Promise<T>;

/**
 * Thrown by a step that has an option `unknown`, to say that it has not happened: the service has refused it, or
 * was not reached. Any other error leaves that unknown.
 *
 * @example
 * ```ts
 * import type { EventHandler } from "@org/edge-base";
 * import { NotDoneError } from "@org/edge-base/events";
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
}

/** Checks the option `unknown`. */
export const checkUnknown: OptionCheck = (doing, name, value) => {
  if (typeof value !== "function") oneOf("repeat", "skip", "fail")(doing, name, value);
};

/** Checks a step before it is taken. */
export function checkStep(name: unknown, fn: unknown, options: object | undefined): void {
  checkName("take the step", name);
  const doing = `take the step ${met(name)}`;
  checkFunction(doing, "fn", fn);
  checkOptions<StepOptions>(doing, options === undefined ? {} : options, { unknown: checkUnknown });
}

/** Checks a wait that only time ends. */
export function checkSleep(name: unknown, ms: unknown): asserts name is string {
  checkName("sleep", name);
  wholeNumber({ max: MAX_TIMEOUT_MS })("sleep", "ms", ms);
}

/** Checks the name of a step, or of what is done like one. */
export function checkName(doing: string, name: unknown): asserts name is string {
  const isName = typeof name === "string" && name.length > 0 && name.length <= MAX_NAME_LENGTH;
  if (isName && name.isWellFormed()) return;
  throw new TypeError(
    `Cannot ${doing}: the name must be a well-formed text of 1 to ${MAX_NAME_LENGTH} characters, got ${
      met(name)
    }`,
  );
}

/**
 * Makes the name of a wait that no other event has, and no later run of this one that begins anew. It has 22 letters,
 * digits, `-` and `_`, so it fits the data of a button: Telegram takes 64 bytes.
 *
 * @param record The record of the event.
 * @param purpose What the event waits for, with the name of its handler.
 */
export function ownName({ id, keyRun }: EventRecord, purpose: string): string {
  const hash = createHash("sha256").update(JSON.stringify([id, keyRun ?? 0, purpose]));
  return hash.digest("base64url").slice(0, 22);
}
