import { assertEquals, assertLess } from "@std/assert";
import fc from "fast-check";
import { elementsOf, memberOf } from "../../core/json_text.ts";

Deno.test("elementsOf() cuts out elements as they were written", () => {
  const json = ' [ 12345678901234567890 ,{"a":[1,"]"]}\n, "\\"],[\\\\" ,[], null,-1.0e5 ] ';
  assertEquals(elementsOf(json), [
    ...["12345678901234567890", '{"a":[1,"]"]}', '"\\"],[\\\\"', "[]", "null", "-1.0e5"],
  ]);
  for (const none of ["[]", " [ ] ", "{}", '"[1]"', "1"]) assertEquals(elementsOf(none), []);
});

Deno.test("memberOf() finds a member, and of several the last, as JSON.parse() does", () => {
  const json = '{"a": {"b": 1}, "\\u0062" : [ 2 ], "c":"x,\\"b\\":3", "a": 9007199254740993 }';
  assertEquals(memberOf(json, "a"), "9007199254740993");
  assertEquals(memberOf(json, "b"), "[ 2 ]");
  assertEquals(memberOf(json, "c"), '"x,\\"b\\":3"');
  for (const none of ["{}", "[]", '["a",1]', "1", undefined]) {
    assertEquals(memberOf(none, "a"), undefined);
  }
  assertEquals(memberOf('{"b":1}', "__proto__"), undefined);
});

Deno.test("elementsOf() and memberOf() agree with JSON.parse() on any document", () => {
  fc.assert(fc.property(fc.json(), fc.nat(3), (text, space) => {
    const json = JSON.stringify([{ x: JSON.parse(text), y: text }, text], null, space);
    const [first, second] = elementsOf(json);
    assertEquals(JSON.parse(memberOf(first, "x")!), JSON.parse(text));
    assertEquals(JSON.parse(memberOf(first, "y")!), text);
    assertEquals(JSON.parse(second!), text);
  }));
});

Deno.test("elementsOf() takes long strings and deep documents", () => {
  const long = JSON.stringify('\\"['.repeat(1_000_000));
  const deep = "[".repeat(100_000) + "]".repeat(100_000);
  const start = performance.now();
  assertEquals(elementsOf(`[${long},${deep}]`).map(({ length }) => length), [
    ...[long.length, deep.length],
  ]);
  assertLess(performance.now() - start, 5_000);
});
