import {
  checkKeys,
  checkObject,
  met,
  numberFrom,
  oneOf,
  wholeNumber,
} from "../../core/check_options.ts";

/**
 * Rule for how many events of an ordering group are handled at a time.
 *
 * @category Flows
 */
export interface PlacesOptions {
  /**
   * Largest number of events of the group that are handled at a time, over all processes: from 1 to 100. They begin in
   * the order received. One that waits to be tried again, or was put off, keeps its place; a parked one leaves it. The
   * number of the event that has joined the group last counts. With more than 1 there is no `quietMs`, and newer events
   * wait.
   *
   * Only events that have a place are on the schedule, so a flood in one group does not hold up another. In a KV over the
   * network, the events of a group end one after the other, each in the time of some answers.
   *
   * @default {1}
   */
  readonly places?: number | undefined;
}

/**
 * Rule by which an event of an ordering group is handled together with others.
 *
 * @category Flows
 */
export interface BatchOptions {
  /**
   * Time without a new event of the group, in milliseconds, after which one call of the handler gets all that
   * wait: the latest one, with all of them as {@linkcode WebhookEvent.batch}. From 0 to 86,400,000, a day. With 0
   * nothing waits for others, but events that came meanwhile are handled together.
   *
   * Events of another type or action begin the next call. A call gets up to 100 events, and up to 8 MB of payloads. If
   * events of one key differ in this, the first event's value counts. One commit settles all of them: in a KV the handler
   * of a full batch may emit 150 events, or add 400 mutations with `settleWith`.
   *
   * @default {undefined} Each event is handled by itself, unless newer ones are heard ({@linkcode NewerOptions}): then 0.
   */
  readonly quietMs?: number | undefined;
  /**
   * Longest time for which the first event waits, in milliseconds: from `quietMs` to 604,800,000, a week.
   *
   * @default {10 * quietMs}
   */
  readonly maxWaitMs?: number | undefined;
  /**
   * Events that it is handled together with. `all` are those of any type and action that have this, too, and that the
   * same handlers take: one `on(["pull_request.opened", "pull_request.synchronize"], ...)`, for instance. An event that
   * a further handler takes, or none, begins the next call. A later attempt in another version of the bot gets the same
   * events if its handlers take them all; otherwise they are cut before the first one that others take, and the first part
   * keeps its id.
   *
   * @default {undefined} Only events of one type and action are.
   */
  readonly together?: "all" | undefined;
}

/**
 * Rule for what an interrupted run has done.
 *
 * @category Flows
 */
export interface InterruptRule {
  /**
   * `keep`: the next run gets their results, which do not know of the newer events. `drop`: it takes them anew, and pays
   * again. A step may say otherwise ({@linkcode StepOptions.keep}). One that has begun, and of which it is not known how
   * it ended, is looked for in any case.
   */
  readonly steps: "keep" | "drop";
}

/**
 * Rule for the newer events of an ordering group that come while a handler runs. In all but `wait`, events of any type
 * and action that the same handlers take are handled together, as with {@linkcode BatchOptions.together}.
 *
 * @category Flows
 */
export type NewerOptions =
  | {
    /**
     * - `wait`: newer events are handled next.
     * - `interrupt`: the first newer one aborts the `signal` of the handler, with a {@linkcode NewerEventError} as the
     *   reason. If the handler ends by that error, or by one that it has caused, it runs anew with all events in its
     *   batch, and no attempt is counted. If it returns, its work counts, and the newer ones come next. It needs
     *   `interrupt`, which says what becomes of the steps. A retry or what is put off comes no earlier by a newer event, and
     *   is handled together with it then.
     * - `steer`: the handler takes the newer ones while it runs, with {@linkcode HandlerContext.takeNewer}. Those that it
     *   has not taken come next.
     *
     * @default {"wait"}
     */
    readonly newer?: "wait" | undefined;
    readonly interrupt?: undefined;
    readonly maxInterrupts?: undefined;
  }
  | {
    /** A newer event aborts the handler. It needs `interrupt`. */
    readonly newer: "interrupt";
    /** Fate of the steps that the handler has taken by then. There is no default. */
    readonly interrupt: InterruptRule;
    /**
     * The number of times after which the handler is left to finish, so that a chat that never stops is answered: from 1
     * to 1,000.
     *
     * @default {10}
     */
    readonly maxInterrupts?: number | undefined;
  }
  | {
    /** The handler takes newer events itself. */
    readonly newer: "steer";
    readonly interrupt?: undefined;
    readonly maxInterrupts?: undefined;
  };

/** A rule for newer events whose values are yet to be checked. */
export interface AnyNewerOptions {
  readonly newer?: "wait" | "interrupt" | "steer" | undefined;
  readonly interrupt?: InterruptRule | true | undefined;
  readonly maxInterrupts?: number | undefined;
}

/** The number of interrupts after which a handler is left to finish. */
export const DEFAULT_MAX_INTERRUPTS = 10;

/** Largest number of interrupts. */
const MAX_INTERRUPTS = 1_000;

/** Largest number of places: each end of an event reads the events that have one. */
export const MAX_PLACES = 100;

/** Longest time to wait until it is quiet: a day. */
const MAX_QUIET_MS = 86_400_000;

/** Longest time to wait for that: a week, for which done events are remembered. */
const MAX_WAIT_MS = 604_800_000;

/**
 * Checks the rule of a batch, as a caller has given it.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param rule The rule. Its values may be of any type.
 * @returns True if there is one.
 * @throws {TypeError} If `together` is something else.
 * @throws {RangeError} If a time is out of range, or one is missing.
 */
function checkBatchOptions(
  doing: string,
  { quietMs, maxWaitMs, together }: { readonly [name in keyof BatchOptions]: unknown },
): boolean {
  if (quietMs === undefined && maxWaitMs === undefined && together === undefined) return false;
  numberFrom(0, MAX_QUIET_MS)(doing, "quietMs", quietMs);
  if (maxWaitMs !== undefined) {
    numberFrom(quietMs as number, MAX_WAIT_MS)(doing, "maxWaitMs", maxWaitMs);
  }
  if (together !== undefined) oneOf("all")(doing, "together", together);
  return true;
}

/**
 * Checks the rules of a group, as a caller has given them.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param rule The rules. Their values may be of any type.
 * @returns The rules; undefined if there are none. Newer events that are heard need no `quietMs`: then it is 0.
 * @throws {TypeError} If a rule is something else.
 * @throws {RangeError} If a number is out of range, or one is missing.
 */
export function groupRule<TRule extends BatchOptions & AnyNewerOptions & PlacesOptions>(
  doing: string,
  rule: TRule,
): TRule | undefined {
  const isHeard = checkNewerOptions(doing, rule);
  const full = isHeard ? { ...rule, quietMs: rule.quietMs ?? 0 } : rule;
  const isBatch = checkBatchOptions(doing, full);
  return checkPlaces(doing, rule) || isBatch ? full : undefined;
}

/**
 * Checks the number of places of a group, as a caller has given it.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param rule The rules of the group. Their values may be of any type.
 * @returns True if there is a number.
 * @throws {TypeError} If there are several places, and events are handled together.
 * @throws {RangeError} If the number is out of range.
 */
export function checkPlaces(
  doing: string,
  { places, quietMs, newer }: {
    readonly [name in "places" | "quietMs" | "newer"]?: unknown;
  },
): boolean {
  if (places === undefined) return false;
  wholeNumber({ max: MAX_PLACES })(doing, "places", places);
  const other = quietMs !== undefined ? "quietMs" : "newer";
  const isOne = places === 1 || (quietMs === undefined && (newer ?? "wait") === "wait");
  if (isOne) return true;
  throw new TypeError(
    `Cannot ${doing}: 'places' must be 1 with '${other}', since a handler gets all events that wait, got ${places}`,
  );
}

/**
 * Checks the rule for newer events, as a caller has given it.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param rule The rule. Its values may be of any type.
 * @returns True if newer events do something else than wait.
 * @throws {TypeError} If `newer` is something else, or `interrupt` is missing, of another type, or of no use.
 * @throws {RangeError} If `maxInterrupts` is out of range.
 */
export function checkNewerOptions(
  doing: string,
  { newer, interrupt, maxInterrupts }: { readonly [name in keyof AnyNewerOptions]: unknown },
): boolean {
  if (newer !== undefined) oneOf("wait", "interrupt", "steer")(doing, "newer", newer);
  if (newer === "interrupt") {
    checkInterruptRule(doing, interrupt);
    if (maxInterrupts !== undefined) {
      wholeNumber({ max: MAX_INTERRUPTS })(doing, "maxInterrupts", maxInterrupts);
    }
    return true;
  }
  for (const [name, value] of Object.entries({ interrupt, maxInterrupts })) {
    if (value === undefined) continue;
    throw new TypeError(`Cannot ${doing}: '${name}' needs newer: "interrupt", got ${met(newer)}`);
  }
  return newer === "steer";
}

function checkInterruptRule(doing: string, rule: unknown): void {
  const name = "'interrupt', which says what becomes of the steps,";
  checkObject(doing, rule, name);
  checkKeys(`${doing}, in 'interrupt'`, rule as object, ["steps"]);
  oneOf("keep", "drop")(doing, "interrupt.steps", (rule as Partial<InterruptRule>).steps);
}
