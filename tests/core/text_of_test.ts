import { assertEquals } from "@std/assert";
import { textOf } from "../../core/text_of.ts";

class Coded {
  readonly code = 42;
}

const circular: Record<string, unknown> = { code: 42 };
circular.self = circular;

const hostile = new Proxy({}, {
  get() {
    throw new Error("no");
  },
});

const NO_TEXT = "A value without a text was thrown";

const THROWN: readonly [unknown, string][] = [
  [new TypeError("no"), "TypeError: no"],
  ["no", "no"],
  [undefined, "undefined"],
  [{ code: 42 }, '{"code":42}'],
  [{ code: 42n }, '{"code":"42"}'],
  [new Coded(), '{"code":42}'],
  [[{ code: 42 }, { code: 43 }], '[{"code":42},{"code":43}]'],
  [Object.assign(Object.create(null), { code: 42 }), '{"code":42}'],
  [circular, "[object Object]"],
  [new Map(), "[object Map]"],
  [Object.create(null), NO_TEXT],
  [hostile, NO_TEXT],
  [{ text: "x".repeat(5_000) }, `{"text":"${"x".repeat(991)}`],
  ["x".repeat(5_000), "x".repeat(1_000)],
];

for (const [thrown, text] of THROWN) {
  Deno.test(`textOf() makes ${text.slice(0, 40)}`, () => assertEquals(textOf(thrown), text));
}
