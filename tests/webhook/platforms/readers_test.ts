import { assertEquals, assertThrows } from "@std/assert";
import { HttpError } from "../../../middleware/mod.ts";
import { deliveryIdOf, eventTypeOf, mediaTypeOf } from "../../../webhook/platforms/readers.ts";

const EVENT = new Map([["X-First-Event", "first"], ["X-Second-Event", "second"]]);
const ID = new Map([["X-First-Id", "first"], ["X-Second-Id", "second"]]);

const typeOf = (type: string) => eventTypeOf(new Headers({ "X-First-Event": type }), EVENT);
const idOf = (id: string) => deliveryIdOf(new Headers({ "X-First-Id": id }), ID);
const mediaOf = (type?: string) =>
  mediaTypeOf(new Headers(type === undefined ? {} : { "Content-Type": type }), [
    "a/json",
    "a/form",
  ]);

function assertHttpError(fn: () => unknown, status: number, code: string, message: string): void {
  const error = assertThrows(fn, HttpError);
  assertEquals([error.status, error.code, error.message], [status, code, message]);
}

Deno.test("eventTypeOf() takes the type and the product from the header", () => {
  assertEquals(typeOf("push"), { type: "push", source: "first" });
});

Deno.test("eventTypeOf() takes the first of several headers", () => {
  const headers = new Headers({ "X-Second-Event": "b", "X-First-Event": "a" });
  assertEquals(eventTypeOf(headers, EVENT), { type: "a", source: "first" });
});

Deno.test("eventTypeOf() takes a later header where the first is not there", () => {
  const headers = new Headers({ "X-Second-Event": "b" });
  assertEquals(eventTypeOf(headers, EVENT), { type: "b", source: "second" });
});

const TYPES = ["a", "pull_request_review_thread", "issues.opened", "repo:push", "a-b", "A1"];

for (const type of [...TYPES, "x".repeat(100)]) {
  Deno.test(`eventTypeOf() takes ${type.slice(0, 30)} of ${type.length} characters`, () => {
    assertEquals(typeOf(type).type, type);
  });
}

Deno.test("eventTypeOf() answers 400 to a missing type, or an empty one", () => {
  const missing = () => eventTypeOf(new Headers(), EVENT);
  assertHttpError(missing, 400, "MISSING_EVENT", "Missing event type");
  assertHttpError(() => typeOf(""), 400, "MISSING_EVENT", "Missing event type");
});

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

for (const type of [...BAD_TYPES, "x".repeat(101), "x".repeat(10_240)]) {
  Deno.test(`eventTypeOf() answers 400 to ${type.slice(0, 30)} of ${type.length} characters`, () => {
    assertHttpError(() => typeOf(type), 400, "INVALID_EVENT", "Invalid event type");
  });
}

const IDS = ["1", "4711", "72d3162e-cc78-11e3-81ab-4c9367dc0958", "a.b:c_d", "x".repeat(128)];

for (const id of IDS) {
  Deno.test(`deliveryIdOf() takes ${id.slice(0, 36)} of ${id.length} characters`, () => {
    assertEquals(idOf(id), id);
  });
}

Deno.test("deliveryIdOf() takes the first of the headers that is there", () => {
  assertEquals(deliveryIdOf(new Headers({ "X-Second-Id": "b", "X-First-Id": "a" }), ID), "a");
  assertEquals(deliveryIdOf(new Headers({ "X-Second-Id": "b" }), ID), "b");
});

Deno.test("deliveryIdOf() is undefined without a header", () => {
  assertEquals(deliveryIdOf(new Headers(), ID), undefined);
});

const BAD_IDS = ["", "a, b", "a b", "a/b", "../x", "\u00e9", "%2e", "a;b", '"a"'];

for (const id of [...BAD_IDS, "x".repeat(129), "x".repeat(10_240)]) {
  Deno.test(`deliveryIdOf() answers 400 to "${id.slice(0, 30)}" of ${id.length} characters`, () => {
    assertHttpError(() => idOf(id), 400, "INVALID_DELIVERY", "Invalid delivery id");
  });
}

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
