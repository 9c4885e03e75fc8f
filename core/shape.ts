/**
 * Checks of values that come from outside, such as stored ones: each tells whether a value has a form.
 *
 * @module
 */

/** The farthest that a date can be from the epoch, in milliseconds. */
const MAX_TIME = 8.64e15;

/** A check of a stored value. */
export type Check = (value: unknown) => boolean;

/** A check of each member of an object. */
export type Checks<T> = Readonly<Record<keyof T, Check>>;

/** Checks for a string. */
export function isText(value: unknown): value is string {
  return typeof value === "string";
}

/** Checks for a number that counts something. */
export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Checks for a time or a length of time, in milliseconds. */
export function isTime(value: unknown): value is number {
  return Number.isFinite(value) && Math.abs(value as number) <= MAX_TIME;
}

/** Checks for a whole number. */
export const isInteger: Check = (value) => Number.isSafeInteger(value);

/** Checks for true or false. */
export const isBoolean: Check = (value) => typeof value === "boolean";

/** Makes a check that null passes as well. */
export function orNull(check: Check): Check {
  return (value) => value === null || check(value);
}

/** Makes a check that a missing value passes as well. */
export function orNone(check: Check): Check {
  return (value) => value === undefined || check(value);
}

/** Makes a check for one of several values. */
export function isOneOf(values: readonly unknown[]): Check {
  return (value) => values.includes(value);
}

/** Makes a check for an object from the checks of its members. Others are ignored. */
export function shape<T = Readonly<Record<string, unknown>>>(
  checks: Checks<T>,
): (value: unknown) => value is T {
  return (value): value is T =>
    typeof value === "object" && value !== null && wrongMember(checks, value as T) === undefined;
}

/** Makes a check for a list from the check of its members. */
export function listOf(check: Check, maxLength = Infinity): Check {
  return (value) => Array.isArray(value) && value.length <= maxLength && value.every(check);
}

/** Finds a member of an object that its check does not pass; undefined for none. */
export function wrongMember<T>(checks: Checks<T>, value: T): keyof T | undefined {
  for (const name in checks) if (!checks[name](value[name])) return name;
  return undefined;
}
