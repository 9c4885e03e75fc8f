import { assertEquals } from "@std/assert";
import { nonJsonPartOf } from "../../core/json_value.ts";

class Point {
  readonly x = 1;
}

const endless: unknown[] = [];
endless.push({ list: endless });

const shared = { a: 1 };

/** Values that JSON has as they are. */
const JSON_VALUES: readonly unknown[] = [
  ...[null, true, "", "\ud800", 0, -1.5, 2 ** 80, [], {}, [null], { a: [{ b: 1 }] }],
  ...[[shared, shared], Object.create(null), JSON.parse(`{"__proto__":1}`)],
];

Deno.test("nonJsonPartOf() finds nothing in what JSON has", () => {
  for (const value of JSON_VALUES) assertEquals(nonJsonPartOf(value), undefined);
});

Deno.test("nonJsonPartOf() takes members that are undefined for missing ones", () => {
  assertEquals(nonJsonPartOf({ a: undefined, b: 1 }), undefined);
});

const REFUSED: readonly [value: unknown, part: string][] = [
  [undefined, "'value' is of type undefined"],
  [[1, undefined], "'value[1]' is of type undefined"],
  // deno-lint-ignore no-sparse-arrays
  [[1, , 2], "'value[1]' is of type undefined"],
  [NaN, "'value' is NaN"],
  [{ a: [Infinity] }, "'value.a[0]' is Infinity"],
  [5n, "'value' is of type bigint"],
  [Symbol("x"), "'value' is of type symbol"],
  [{ f: () => {} }, "'value.f' is of type function"],
  [new Date(0), "'value' is a Date"],
  [{ a: new Map() }, "'value.a' is a Map"],
  [[new Set()], "'value[0]' is a Set"],
  [new Uint8Array(1), "'value' is a Uint8Array"],
  [new Error("no"), "'value' is a Error"],
  [new Point(), "'value' is a Point"],
  [Object("boxed"), "'value' is a String"],
  [{ toJSON: () => 1 }, "'value' is a Object"],
  [endless, "'value[0].list' is part of itself"],
];

for (const [value, part] of REFUSED) {
  Deno.test(`nonJsonPartOf() finds what JSON would change: ${part}`, () => {
    assertEquals(nonJsonPartOf(value), part);
  });
}

Deno.test("nonJsonPartOf() names the path from what it is told", () => {
  assertEquals(nonJsonPartOf({ at: new Date(0) }, "state"), "'state.at' is a Date");
});
