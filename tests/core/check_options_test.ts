import { assertEquals } from "@std/assert";
import { met } from "../../core/check_options.ts";

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
