import { assertEquals, assertThrows } from "@std/assert";
import { decodeUtf8, parseJsonObject } from "../../core/parse_json.ts";

const encoder = new TextEncoder();

const parse = (body: string | Uint8Array) =>
  parseJsonObject(typeof body === "string" ? encoder.encode(body) : body);

const nested = (levels: number) => "[".repeat(levels) + "]".repeat(levels);

/** An object around arrays, with so many levels in all. */
const objectOf = (levels: number) => `{"a":${nested(levels - 1)}}`;

function assertRefused(body: string | Uint8Array, message: string): void {
  const error = assertThrows(() => parse(body), SyntaxError);
  assertEquals(error.message, message);
}

Deno.test("parseJsonObject() parses an object", () => {
  assertEquals(parse('{"a":[1,"\u{1f600}",null,{"b":true}]}'), {
    a: [1, "\u{1f600}", null, { b: true }],
  });
});

Deno.test("parseJsonObject() parses an object with white space and a byte order mark before it", () => {
  assertEquals(parse("\ufeff \r\n\t{}\n"), {});
});

Deno.test("parseJsonObject() parses a text with the character that stands for invalid bytes", () => {
  assertEquals(parse('\ufeff{"a":"\ufffd \u{1f600}"}'), { a: "\ufffd \u{1f600}" });
});

const NOT_OBJECTS = ["null", "true", "false", "0", "-1.5e3", '"text"', "[]", '[{"a":1}]'];

for (const body of NOT_OBJECTS) {
  Deno.test(`parseJsonObject() refuses ${body}`, () => {
    assertRefused(body, "Body must be a JSON object");
  });
}

const NOT_JSON = ["", " ", "\ufeff", "\ufeff\ufeff{}", "{", "{}{}", "{}\0", "{'a':1}", '{"a":1,}'];
NOT_JSON.push("undefined", "NaN", '{"a":NaN}', "a=1", "<a/>", '{"a":"\n"}', "{/* */}", "{} x");

for (const body of NOT_JSON) {
  Deno.test(`parseJsonObject() refuses ${JSON.stringify(body)}`, () => {
    assertRefused(body, "Body is not JSON");
  });
}

const NOT_UTF8: Record<string, number[]> = {
  "a byte that is none": [0xff],
  "a lone continuation": [0x80],
  "a cut sequence": [0xf0, 0x9f, 0x98],
  "an overlong form": [0xc0, 0xaf],
  "a surrogate": [0xed, 0xa0, 0x80],
  "a code point beyond Unicode": [0xf4, 0x90, 0x80, 0x80],
};

for (const [what, bytes] of Object.entries(NOT_UTF8)) {
  Deno.test(`parseJsonObject() refuses UTF-8 with ${what}`, () => {
    const quote = '"'.charCodeAt(0);
    const body = [...encoder.encode('{"a":'), quote, ...bytes, quote, ...encoder.encode("}")];
    assertRefused(Uint8Array.from(body), "Body is not UTF-8");
  });
}

Deno.test("parseJsonObject() refuses UTF-16", () => {
  assertRefused(Uint8Array.of(0xff, 0xfe, 0x7b, 0x00, 0x7d, 0x00), "Body is not UTF-8");
});

Deno.test("parseJsonObject() quotes nothing of the body", () => {
  const error = assertThrows(() => parse('{"password":hunter2}'), SyntaxError);
  assertEquals(error.message, "Body is not JSON");
  assertEquals(error.cause, undefined);
});

Deno.test("parseJsonObject() parses 64 levels", () => {
  assertEquals(JSON.stringify(parse(objectOf(64))), objectOf(64));
});

for (const levels of [65, 4_000, 1_000_000]) {
  Deno.test(`parseJsonObject() refuses ${levels} levels`, () => {
    assertRefused(objectOf(levels), "Body is nested too deeply");
  });
}

Deno.test("parseJsonObject() counts the levels of objects, and of the deepest branch", () => {
  const deep = '{"a":'.repeat(64) + "{}" + "}".repeat(64);
  assertRefused(`{"shallow":1,"deep":${deep},"other":[]}`, "Body is nested too deeply");
});

Deno.test("parseJsonObject() keeps __proto__ and constructor as data", () => {
  const parsed = parse('{"__proto__":{"admin":true},"constructor":{"prototype":{"admin":true}}}');
  assertEquals(Object.keys(parsed), ["__proto__", "constructor"]);
  assertEquals(parsed["admin"], undefined);
  assertEquals(Object.getPrototypeOf(parsed), Object.prototype);
  assertEquals(({} as Record<string, unknown>)["admin"], undefined);
});

Deno.test("parseJsonObject() takes the last of duplicate keys", () => {
  assertEquals(parse('{"id":1,"id":2}'), { id: 2 });
});

Deno.test("decodeUtf8() refuses what is not UTF-8", () => {
  assertThrows(() => decodeUtf8(Uint8Array.of(0xff)), SyntaxError, "Body is not UTF-8");
});
