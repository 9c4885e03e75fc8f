import { checkKeys, checkObject, met } from "../core/check_options.ts";
import { createEventRouter, type EventHandler, type HandlerOptions } from "../events/mod.ts";
import {
  checkExpression,
  checkScheduleName,
  checkTimeZone,
  loadCron,
  type MissedSlots,
  normalized,
  type Schedule,
  type TimedSchedule,
} from "../events/schedules/mod.ts";

/**
 * Options of a schedule.
 *
 * @category Flows
 */
export interface ScheduleOptions extends HandlerOptions {
  /**
   * Time zone of the expression, such as `Europe/Berlin`. A time that the change to summer time skips comes
   * as much later as the clocks are put forward; one that comes twice in autumn is a slot once if the
   * expression names a single time of day, and twice otherwise.
   *
   * @default {"UTC"}
   */
  readonly timeZone?: string | undefined;
  /**
   * Handling of the slots that passed while no instance of the app ran: `last` makes up the last one, `all`
   * the last 100, and `none` nothing that is more than two minutes late.
   *
   * @default {"last"}
   */
  readonly missed?: MissedSlots | undefined;
}

const MISSED: readonly unknown[] = ["last", "none", "all"];

const OPTION_KEYS = ["timeZone", "missed", "id", "timeoutMs"];

/** The schedules of an app, with their handlers. */
export class Schedules {
  readonly #all: Schedule[] = [];
  readonly #router = createEventRouter();

  /** Schedules in the order added. */
  get all(): readonly Schedule[] {
    return [...this.#all];
  }

  /** Hands an event of a schedule to its handler. */
  get handle(): EventHandler {
    return this.#router.handle;
  }

  /**
   * Adds a schedule.
   *
   * @param name The name.
   * @param expression The expression. Only its form is checked; {@linkcode readTimes} does the rest.
   * @param handler The handler.
   * @param options The time zone, the handling of missed slots, and the handler's options.
   * @throws {TypeError} If a part has the wrong type, or there is a schedule of that name.
   * @throws {SyntaxError} If the expression does not have five fields.
   * @throws {RangeError} If the time zone is not known, or the time limit is out of range.
   */
  add(name: string, expression: string, handler: EventHandler, options: ScheduleOptions): void {
    checkScheduleName("add the schedule", name);
    const doing = `add the schedule '${name}'`;
    checkExpression(doing, expression);
    checkObject(doing, options);
    checkKeys(doing, options, OPTION_KEYS);
    const { timeZone = "UTC", missed = "last", id, timeoutMs } = options;
    checkTimeZone(doing, timeZone);
    if (!MISSED.includes(missed)) {
      throw new TypeError(
        `Cannot ${doing}: 'missed' must be "last", "none" or "all", got ${met(missed)}`,
      );
    }
    if (this.#all.some((other) => other.name === name)) {
      throw new TypeError(`Cannot ${doing}: there is one of that name already`);
    }
    this.#router.on(name, handler, { id, timeoutMs });
    this.#all.push(Object.freeze({ name, expression: normalized(expression), timeZone, missed }));
  }
}

/**
 * Reads the expressions of schedules. Without schedules, the library for that is not loaded.
 *
 * @param schedules The schedules.
 * @returns The schedules, with their times.
 * @throws {SyntaxError} If an expression has a mistake, or names a time that never comes.
 */
export async function readTimes(schedules: readonly Schedule[]): Promise<TimedSchedule[]> {
  if (schedules.length === 0) return [];
  const timesOf = await loadCron();
  return schedules.map((schedule) => {
    const { name, expression, timeZone } = schedule;
    return { ...schedule, times: timesOf(`open the schedule '${name}'`, expression, timeZone) };
  });
}
