import { assertEquals, assertThrows } from "@std/assert";
import { checkInteger, met } from "../../core/check_options.ts";

const MET: readonly [unknown, string][] = [
  ["50", '"50"'],
  [50, "50"],
  [50n, "50"],
  ["a\nb", '"a\\nb"'],
  ["x".repeat(41), `"${"x".repeat(40)}"…`],
  [undefined, "undefined"],
  [null, "null"],
  [NaN, "NaN"],
  [Symbol("a"), "Symbol(a)"],
  [() => {}, "a function"],
  [{ secret: "s" }, "an object"],
  [["s"], "an array"],
  [Promise.resolve(), "a promise: await it"],
  [Object.create(null), "an object"],
];

for (const [value, text] of MET) {
  Deno.test(`met() tells ${text}`, () => assertEquals(met(value), text));
}

const OUT_OF_RANGE: readonly unknown[] = [0, -1, 11, 1.5, NaN, Infinity, "5", 5n, null, undefined];

for (const value of OUT_OF_RANGE) {
  Deno.test(`checkInteger() refuses ${met(value)} from 1 to 10`, () => {
    assertThrows(
      () => checkInteger("start", "count", value, { max: 10 }),
      RangeError,
      `Cannot start: 'count' must be a whole number from 1 to 10, got ${met(value)}`,
    );
  });
}

Deno.test("checkInteger() takes both ends of the range, which may begin at 0", () => {
  checkInteger("start", "count", 1, { max: 10 });
  checkInteger("start", "count", 10, { max: 10 });
  checkInteger("start", "count", 0, { min: 0, max: 10 });
});
