/** Development stand-in for the functions of `jsr:@std/assert` in use here, over `node:assert`. */
import nodeAssert from "node:assert/strict";

type ErrorClass<E extends Error = Error> = new (...args: never[]) => E;

/** Fails unless `expr` is truthy. */
export function assert(expr: unknown, msg = ""): asserts expr {
  nodeAssert.ok(expr, msg);
}

/** Fails unless both values are deeply equal. */
export function assertEquals<T>(actual: T, expected: T, msg?: string): void {
  nodeAssert.deepStrictEqual(actual, expected, msg);
}

/** Fails unless both values are the same. */
export function assertStrictEquals<T>(actual: unknown, expected: T, msg?: string): void {
  nodeAssert.strictEqual(actual, expected, msg);
}

/** Fails if both values are deeply equal. */
export function assertNotEquals<T>(actual: T, expected: T, msg?: string): void {
  nodeAssert.notDeepStrictEqual(actual, expected, msg);
}

/** Fails if the value is null or undefined. */
export function assertExists<T>(actual: T, msg?: string): asserts actual is NonNullable<T> {
  nodeAssert.ok(actual !== null && actual !== undefined, msg);
}

/** Fails unless the text matches. */
export function assertMatch(actual: string, expected: RegExp, msg?: string): void {
  nodeAssert.match(actual, expected, msg);
}

/** Fails unless `actual` contains `expected`. */
export function assertStringIncludes(actual: string, expected: string, msg?: string): void {
  nodeAssert.ok(actual.includes(expected), msg ?? `Expected ${actual} to contain ${expected}`);
}

/** Fails unless `actual` is greater than `expected`. */
export function assertGreater<T>(actual: T, expected: T, msg?: string): void {
  nodeAssert.ok(actual > expected, msg ?? `Expected ${actual} > ${expected}`);
}

/** Fails unless `actual` is less than `expected`. */
export function assertLess<T>(actual: T, expected: T, msg?: string): void {
  nodeAssert.ok(actual < expected, msg ?? `Expected ${actual} < ${expected}`);
}

/** Fails unless `actual` is greater than or equal to `expected`. */
export function assertGreaterOrEqual<T>(actual: T, expected: T, msg?: string): void {
  nodeAssert.ok(actual >= expected, msg ?? `Expected ${actual} >= ${expected}`);
}

/** Fails unless `actual` is less than or equal to `expected`. */
export function assertLessOrEqual<T>(actual: T, expected: T, msg?: string): void {
  nodeAssert.ok(actual <= expected, msg ?? `Expected ${actual} <= ${expected}`);
}

function checkError(error: unknown, errorClass?: ErrorClass, msgIncludes?: string): void {
  nodeAssert.ok(error instanceof Error, `Expected an Error, got ${String(error)}`);
  if (errorClass) nodeAssert.ok(error instanceof errorClass, `Unexpected ${error.stack}`);
  if (msgIncludes !== undefined) assertStringIncludes(error.message, msgIncludes);
}

/** Fails unless `fn` throws, and returns what it threw. */
export function assertThrows(fn: () => unknown): unknown;
/** Fails unless `fn` throws such an error, and returns it. */
export function assertThrows<E extends Error>(
  fn: () => unknown,
  errorClass: new (...args: never[]) => E,
  msgIncludes?: string,
  msg?: string,
): E;
export function assertThrows(
  fn: () => unknown,
  errorClass?: ErrorClass,
  includes?: string,
): unknown {
  let thrown: unknown;
  try {
    fn();
  } catch (error) {
    thrown = error;
    if (errorClass) checkError(error, errorClass, includes);
    return thrown;
  }
  throw new nodeAssert.AssertionError({ message: "Expected function to throw." });
}

/** Fails unless the promise rejects, and returns what it rejected with. */
export function assertRejects(fn: () => PromiseLike<unknown>): Promise<unknown>;
/** Fails unless the promise rejects with such an error, and returns it. */
export function assertRejects<E extends Error>(
  fn: () => PromiseLike<unknown>,
  errorClass: new (...args: never[]) => E,
  msgIncludes?: string,
  msg?: string,
): Promise<E>;
export async function assertRejects(
  fn: () => PromiseLike<unknown>,
  errorClass?: ErrorClass,
  includes?: string,
): Promise<unknown> {
  try {
    await fn();
  } catch (error) {
    if (errorClass) checkError(error, errorClass, includes);
    return error;
  }
  throw new nodeAssert.AssertionError({ message: "Expected function to reject." });
}
