/** Development stand-in for the functions of `jsr:@std/assert` in use here, over `node:assert`. */
import nodeAssert from "node:assert/strict";

type ErrorClass<E extends Error = Error> = new (...args: never[]) => E;

/** Fails unless `expr` is truthy. */
export function assert(expr: unknown, msg = ""): asserts expr {
  nodeAssert.ok(expr, msg);
}

/** Fails unless both values are deeply equal. */
export function assertEquals<T>(actual: T, expected: T, msg?: string): void {
  if (isEqual(actual, expected)) return;
  nodeAssert.deepStrictEqual(actual, expected, msg);
  throw new nodeAssert.AssertionError({ message: msg ?? "Values are not equal", actual, expected });
}

/** Fails unless both values are the same. */
export function assertStrictEquals<T>(actual: unknown, expected: T, msg?: string): void {
  nodeAssert.strictEqual(actual, expected, msg);
}

/** Fails if both values are deeply equal. */
export function assertNotEquals<T>(actual: T, expected: T, msg?: string): void {
  nodeAssert.ok(!isEqual(actual, expected), msg ?? `Expected not to be: ${String(expected)}`);
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

/**
 * Tells whether two values are deeply equal, as the original sees it: 0 is -0, and a prototype of
 * null is that of an object. Of objects it compares data. Other objects, such as errors, would be
 * compared by getters and methods.
 */
function isEqual(a: unknown, b: unknown): boolean {
  if (a === b || Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (a instanceof Date && b instanceof Date) return Object.is(a.getTime(), b.getTime());
  if (kindOf(a) !== kindOf(b)) return false;
  if (a instanceof TypedArray) return hasEqualItems(a as Uint8Array, b as Uint8Array);
  if (a instanceof ArrayBuffer) return isEqual(new Uint8Array(a), new Uint8Array(b as ArrayBuffer));
  if (a instanceof Map) return hasEqualEntries(a, b as Map<unknown, unknown>);
  if (a instanceof Set) return a.symmetricDifference(b as Set<unknown>).size === 0;
  if (Object.keys(a).length !== Object.keys(b).length) return false;
  return Reflect.ownKeys({ ...a, ...b }).every((key) =>
    key in a && key in b && isEqual(Reflect.get(a, key), Reflect.get(b, key))
  );
}

const TypedArray = Object.getPrototypeOf(Uint8Array);

const DATA = [Array, ArrayBuffer, Date, Map, Set, TypedArray];

/** Data that a value is compared as. */
function kindOf(value: object): object {
  const prototype = Object.getPrototypeOf(value) ?? Object.prototype;
  const isData = prototype === Object.prototype || DATA.some((each) => value instanceof each);
  const isKeyedByObjects = (value instanceof Map || value instanceof Set) &&
    [...value.keys()].some((key) => typeof key === "object" && key !== null);
  if (isData && !isKeyedByObjects) return prototype;
  throw new TypeError(`Cannot compare ${prototype.constructor?.name}: it is not plain data`);
}

function hasEqualItems(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((item, i) => isEqual(item, b[i]));
}

function hasEqualEntries(a: Map<unknown, unknown>, b: Map<unknown, unknown>): boolean {
  return a.size === b.size &&
    [...a].every(([key, value]) => b.has(key) && isEqual(value, b.get(key)));
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
  let promise: PromiseLike<unknown>;
  try {
    promise = fn();
    if (typeof promise?.then !== "function") throw new TypeError("It returns no promise");
  } catch (error) {
    const message = `Function throws when expected to reject: ${String(error)}`;
    throw new nodeAssert.AssertionError({ message });
  }
  try {
    await promise;
  } catch (error) {
    if (errorClass) checkError(error, errorClass, includes);
    return error;
  }
  throw new nodeAssert.AssertionError({ message: "Expected function to reject." });
}
