import { checkString, met } from "../../core/check_options.ts";
import { reasonOf } from "../../core/mod.ts";

/** Names for expressions. `@reboot` is left out: it names no time. */
const NICKNAMES: ReadonlySet<string> = new Set([
  ...["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"],
]);

/** Longest expression: each minute of an hour, listed one by one, takes 170 characters. */
const MAX_LENGTH = 512;

/** The times of an expression, in a time zone. They are whole minutes, milliseconds since the epoch. */
export interface Times {
  /**
   * Finds the first time after another one.
   *
   * @param after The other one.
   * @returns The time; undefined if there is none.
   */
  next(after: number): number | undefined;
  /**
   * Finds the last times up to another one, without a look at those before.
   *
   * @param until The other one, which may be among them.
   * @param limit The number of times, at most.
   * @returns The times, the latest first.
   */
  latest(until: number, limit: number): number[];
}

/**
 * Checks what can be seen of an expression without the library that reads it.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param expression The expression.
 * @throws {TypeError} If it is not a text.
 * @throws {SyntaxError} If it does not have five fields. A schedule of each second would write several
 * commits a second for ever.
 */
export function checkExpression(doing: string, expression: unknown): void {
  if (typeof expression !== "string") {
    throw new TypeError(
      `Cannot ${doing}: the cron expression must be a text, got ${met(expression)}`,
    );
  }
  const fields = fieldsOf(expression);
  const isNickname = fields.length === 1 && NICKNAMES.has(fields[0]!.toLowerCase());
  if ((isNickname || fields.length === 5) && expression.length <= MAX_LENGTH) return;
  throw new SyntaxError(
    `Cannot ${doing}: the cron expression must have five fields (minute, hour, day of the month, month, ` +
      `day of the week), such as "0 7 * * 1-5", or be one of ${[...NICKNAMES].join(", ")}, got ${
        met(expression)
      }`,
  );
}

/**
 * Checks a time zone.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param timeZone The time zone.
 * @throws {TypeError} If it is not a text.
 * @throws {RangeError} If this system knows no such time zone.
 */
export function checkTimeZone(doing: string, timeZone: unknown): void {
  checkString(doing, "timeZone", timeZone);
  try {
    new Intl.DateTimeFormat("en", { timeZone: timeZone as string });
  } catch {
    throw new RangeError(
      `Cannot ${doing}: 'timeZone' must be the name of a time zone, such as "Europe/Berlin", got ${
        met(timeZone)
      }`,
    );
  }
}

/**
 * Joins the fields of an expression with single spaces, so that two spellings of one are the same.
 *
 * @param expression The expression.
 * @returns The same expression.
 */
export function normalized(expression: string): string {
  return fieldsOf(expression).join(" ");
}

/**
 * Loads the library that reads expressions. An app without schedules does without it.
 *
 * @returns A function that reads an expression in a time zone. It throws a `SyntaxError` for one that has a
 * mistake, or names a day that never comes.
 */
export async function loadCron(): Promise<
  (doing: string, expression: string, timeZone: string) => Times
> {
  const { Cron } = await import("croner");
  return (doing, expression, timeZone) => {
    const refuse = (reason: string): never => {
      throw new SyntaxError(`Cannot ${doing}: ${reason}, got ${met(expression)}`);
    };
    const read = () => {
      try {
        return new Cron(expression, { timezone: timeZone, paused: true, mode: "5-part" });
      } catch (error) {
        const reason = reasonOf(error).replace(/^\w+: /, "");
        return refuse(`the cron expression is not valid (${reason})`);
      }
    };
    const cron = read();
    if (cron.nextRun(new Date()) === null) {
      refuse("the cron expression names a time that never comes");
    }
    return {
      next: (after) => cron.nextRun(new Date(after))?.getTime(),
      latest: (until, limit) =>
        cron.previousRuns(limit, new Date(until + 1)).map((date) => date.getTime()),
    };
  };
}

function fieldsOf(expression: string): string[] {
  return expression.trim().split(/\s+/);
}
