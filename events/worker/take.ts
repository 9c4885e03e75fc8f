import {
  checkFilled,
  checkOptions,
  checkWellFormed,
  MAX_TIMER_MS,
  met,
  type OptionCheck,
  wholeNumber,
} from "../../core/check_options.ts";
import { MAX_PUT_OFF_MS } from "../store/settlement.ts";

/** The longest name and key of a limit, in characters: a key of a KV takes 2,048 bytes. */
const [MAX_NAME_LENGTH, MAX_KEY_LENGTH] = [200, 256] as const;

/** The largest limit. */
const MAX_LIMIT = 1_000_000_000;

/** First and last time that is taken for one in milliseconds, and not in seconds: in 2001, and the last of a date. */
const [FIRST_TIME, LAST_TIME] = [1e12, 8.64e15] as const;

/**
 * Options of {@linkcode HandlerContext.take}.
 *
 * @category Flows
 */
export interface TakeOptions {
  /**
   * Part of the limit that is counted alone, such as a chat.
   *
   * @default {""} One for all.
   */
  readonly key?: string | number | undefined;
  /** Largest number of calls in any time of the length `perMs`. */
  readonly limit: number;
  /** Length of that time, in milliseconds: up to 604,800,000, which is seven days. */
  readonly perMs: number;
  /**
   * Number of calls that this one counts for, such as the tokens that a model is sent: up to the limit.
   *
   * @default {1}
   */
  readonly count?: number | undefined;
  /**
   * Longest time to wait for room, in milliseconds. The handler keeps its place meanwhile.
   *
   * @default {2_000}
   */
  readonly waitMs?: number | undefined;
}

/**
 * Options of {@linkcode Take.later}.
 *
 * @category Flows
 */
export interface LaterOptions extends Pick<TakeOptions, "key"> {
  /**
   * Time before which no calls are to be made, milliseconds since the epoch. Undefined changes nothing, so the result of
   * {@linkcode retryAtOf} fits. More than seven days from now counts as seven days.
   */
  readonly untilMs: number | undefined;
}

/**
 * Takes part in a limit, see {@linkcode HandlerContext.take}.
 *
 * @category Flows
 */
export interface Take {
  /** Waits for room for a call, and counts it. */
  (name: string, options: TakeOptions): Promise<void>;
  /**
   * Counts a call if there is room for it at once: for one that can be left out, such as an edit of a text that is edited
   * again soon. Calls that wait come first. Without room nothing is put off.
   *
   * @param name The name of the limit.
   * @param options The rule, and the part of the limit. `waitMs` does not matter.
   * @returns True if there is room: make the call right after.
   * @throws {TypeError | RangeError} If an option is something else, or the handler has ended.
   * @throws {Error} If the store does not answer.
   */
  now(name: string, options: TakeOptions): Promise<boolean>;
  /**
   * Closes a limit for all processes, since the service has refused a call and says when it takes the next one. Calls
   * that another process has room for already are made: for a 32nd of `perMs`.
   *
   * @param name The name of the limit.
   * @param options The time, and the part of the limit.
   * @throws {TypeError | RangeError} If an option is something else.
   */
  later(name: string, options: LaterOptions): Promise<void>;
}

/** Checks the name of a limit. */
export const checkLimitName: OptionCheck = (doing, name, value) => {
  checkFilled(doing, name, value);
  checkWellFormed(doing, name, value);
  checkLength(doing, name, value as string, MAX_NAME_LENGTH);
};

/** Checks the part of a limit. */
export const checkKey: OptionCheck = (doing, name, value) => {
  if (typeof value === "number" && Number.isFinite(value)) return;
  checkWellFormed(doing, name, value);
  checkLength(doing, name, value as string, MAX_KEY_LENGTH);
};

function checkLength(doing: string, name: string, { length }: string, max: number): void {
  if (length <= max) return;
  throw new RangeError(
    `Cannot ${doing}: '${name}' must have up to ${max} characters, has ${length}`,
  );
}

/** Checks of the rule of a limit. */
export const RULE_CHECKS = {
  limit: wholeNumber({ max: MAX_LIMIT }),
  perMs: wholeNumber({ max: MAX_PUT_OFF_MS }),
};

const TAKE_CHECKS = {
  key: checkKey,
  ...RULE_CHECKS,
  count: wholeNumber(),
  waitMs: wholeNumber({ min: 0, max: MAX_TIMER_MS }),
};

const checkTime: OptionCheck = (doing, name, value) => {
  if (typeof value === "number" && value >= FIRST_TIME && value <= LAST_TIME) return;
  throw new RangeError(
    `Cannot ${doing}: '${name}' must be a time in milliseconds since the epoch, got ${met(value)}`,
  );
};

/** Checks a call that takes part in a limit. */
export function checkTake(name: unknown, options: TakeOptions): asserts name is string {
  checkLimitName("take part in the limit", "name", name);
  const doing = `take part in the limit ${met(name)}`;
  checkOptions(doing, options, TAKE_CHECKS, ["limit", "perMs"]);
  const { count = 1, limit } = options;
  if (count <= limit) return;
  throw new RangeError(
    `Cannot ${doing}: 'count' must be up to the limit of ${limit}, got ${count}`,
  );
}

/** Checks that a limit can be closed. */
export function checkLater(name: unknown, options: LaterOptions): asserts name is string {
  checkLimitName("close the limit", "name", name);
  checkOptions(`close the limit ${met(name)}`, options, { key: checkKey, untilMs: checkTime });
}
