import { assertEquals, assertThrows } from "@std/assert";
import { HttpError } from "../../middleware/mod.ts";
import {
  checkDeliveryId,
  checkEventType,
  mediaTypeOf,
  parseJsonObject,
  payloadOf,
} from "../../webhook/readers.ts";

const mediaOf = (type?: string) =>
  mediaTypeOf(new Headers(type === undefined ? {} : { "Content-Type": type }), [
    "a/json",
    "a/form",
  ]);

function assertHttpError(fn: () => unknown, status: number, code: string, message: string): void {
  const error = assertThrows(fn, HttpError);
  assertEquals([error.status, error.code, error.message], [status, code, message]);
}

const TYPES = [
  "a",
  "pull_request_review_thread",
  "issues.opened",
  "repo:push",
  "a-b",
  "A1",
  "v2.core.account[requirements].updated",
];
const BAD_TYPES = [
  "push, push",
  "two words",
  "1st",
  "_x",
  "-x",
  "a/b",
  "a\u00e9",
  '{"a":1}',
  "<b>",
];

Deno.test("checkEventType() takes short words, and answers 400 to anything else", () => {
  for (const type of [...TYPES, "x".repeat(100)]) assertEquals(checkEventType(type), type);
  for (const type of ["", ...BAD_TYPES, "x".repeat(101), "x".repeat(10_240), 7, null, undefined]) {
    assertHttpError(() => checkEventType(type), 400, "INVALID_EVENT", "Invalid event type");
  }
});

const IDS = ["1", "4711", "72d3162e-cc78-11e3-81ab-4c9367dc0958", "a.b:c_d", "x".repeat(128)];
const BAD_IDS = ["", "a, b", "a b", "a/b", "../x", "\u00e9", "%2e", "a;b", '"a"'];

Deno.test("checkDeliveryId() takes ids of UUIDs and numbers, and answers 400 to anything else", () => {
  for (const id of IDS) assertEquals(checkDeliveryId(id), id);
  for (const id of [...BAD_IDS, "x".repeat(129), "x".repeat(10_240), 7, null]) {
    assertHttpError(() => checkDeliveryId(id), 400, "INVALID_DELIVERY", "Invalid delivery id");
  }
});

Deno.test("mediaTypeOf() takes a type in any case, with parameters", () => {
  for (const type of ["a/json", "A/JSON", "a/json;charset=utf-8", " a/json ; charset=utf-8"]) {
    assertEquals(mediaOf(type), "a/json");
  }
  assertEquals(mediaOf("A/Form; x=a/json"), "a/form");
});

const BAD_MEDIA = [
  "",
  "a",
  "json",
  "a/jsonp",
  "a/json+x",
  "text/plain",
  "a/json, a/json",
  ";a/json",
];

for (const type of [undefined, ...BAD_MEDIA]) {
  Deno.test(`mediaTypeOf() answers 415 to ${type === undefined ? "nothing" : `"${type}"`}`, () => {
    const message = "Content type must be a/json";
    assertHttpError(() => mediaOf(type), 415, "UNSUPPORTED_MEDIA_TYPE", message);
  });
}

const BAD: readonly (readonly [body: string | Uint8Array, message: string])[] = [
  ["{", "Body is not JSON"],
  ["[]", "Body must be a JSON object"],
  [`{"a":${"[".repeat(64)}${"]".repeat(64)}}`, "Body is nested too deeply"],
  [Uint8Array.of(0xff), "Body is not UTF-8"],
];

for (const [body, message] of BAD) {
  Deno.test(`parseJsonObject() of a request answers 400: ${message}`, () => {
    const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
    const error = assertThrows(() => parseJsonObject(bytes), HttpError);
    assertEquals([error.status, error.code, error.message], [400, "INVALID_BODY", message]);
  });
}

Deno.test("payloadOf() parses a document once, and no other one for it", () => {
  const [document, other] = ['{"a":1}', '{"a":2}'].map((text) => new TextEncoder().encode(text));
  const payload = parseJsonObject(document!);
  assertEquals(payloadOf(document!, payload) === payload, true);
  assertEquals(payloadOf(other!, payload), { a: 2 });
  assertEquals(payloadOf(document!, { a: 3 }), { a: 1 });
});
