import { assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { decodeValue, encodeValue } from "../../../../events/store/kv/value_codec.ts";

const encoder = new TextEncoder();

/** Values, and their bytes: what one version of Deno writes, each other has to read. */
const KNOWN: readonly [value: unknown, body: readonly number[], hex: string][] = [
  [null, [], "01000000046e756c6c"],
  [true, [], "010000000474727565"],
  [1_700_000_000_000, [], "010000000d31373030303030303030303030"],
  ["é\ud800", [], "010000000a22c3a95c756438303022"],
  [{ a: [1, "x"] }, [0, 255, 1], "010000000d7b2261223a5b312c2278225d7d00ff01"],
];

for (const [value, body, hex] of KNOWN) {
  Deno.test(`encodeValue() writes known bytes: ${JSON.stringify(value)}`, () => {
    const bytes = encodeValue(value, Uint8Array.from(body));
    assertEquals(bytes.toHex(), hex);
    const expected = body.length > 0 ? Uint8Array.from(body) : undefined;
    assertEquals(decodeValue(Uint8Array.fromHex(hex)), { value, body: expected });
  });
}

const VALUES: readonly unknown[] = [
  ...["", "\ud800", "\udc00\ud800", "\ufffd", "\ufeffa", "\0\u2028\u{1f600}", "é".repeat(70_000)],
  ...[0, -1.5, 1e-320, Number.MAX_VALUE, Number.MAX_SAFE_INTEGER, 2 ** 80, false],
  ...[[], [[null]], {}, { "": 1, a: { b: [{}] } }, { constructor: 1, toString: "x" }],
];

Deno.test("decodeValue() returns what encodeValue() was given", () => {
  for (const value of VALUES) {
    assertEquals(decodeValue(encodeValue(value)), { value, body: undefined });
  }
});

Deno.test("a key that is __proto__ stays a key", () => {
  const value = JSON.parse(`{"__proto__":{"isAdmin":true}}`);
  const decoded = decodeValue(encodeValue(value))!.value as object;
  assertEquals(Object.keys(decoded), ["__proto__"]);
  assertEquals(Object.getPrototypeOf(decoded), Object.prototype);
});

Deno.test("decodeValue() returns the body byte for byte", () => {
  fc.assert(fc.property(fc.jsonValue(), fc.uint8Array({ minLength: 1 }), (value, body) => {
    const decoded = decodeValue(encodeValue(value, body))!;
    assertEquals(JSON.stringify(decoded.value), JSON.stringify(value));
    assertEquals([...decoded.body!], [...body]);
  }));
});

Deno.test("encodeValue() takes the part of a buffer that is meant", () => {
  const body = new Uint8Array([9, 1, 2, 9]).subarray(1, 3);
  const bytes = encodeValue(1, body);
  assertEquals([bytes.byteLength, [...decodeValue(bytes)!.body!]], [8, [1, 2]]);
});

Deno.test("encodeValue() refuses what JSON has not", () => {
  const endless: Record<string, unknown> = {};
  endless.self = endless;
  for (const value of [endless, 5n]) assertThrows(() => encodeValue(value), TypeError);
});

const ENCODED = encodeValue({ id: "d1", at: 5, text: "é\ud800", list: [null, 1.5] });

Deno.test("decodeValue() reads no value that was cut", () => {
  for (let end = 0; end < ENCODED.length; end++) {
    assertEquals(decodeValue(ENCODED.subarray(0, end)), undefined);
  }
  // What is behind a value is its body.
  assertEquals(decodeValue(new Uint8Array([...ENCODED, 7]))?.body, new Uint8Array([7]));
});

Deno.test("decodeValue() never throws, whatever the bytes are", () => {
  for (let at = 0; at < ENCODED.length; at++) {
    for (let byte = 0; byte < 256; byte++) {
      const decoded = decodeValue(ENCODED.with(at, byte));
      assertEquals(decoded === undefined || decoded.value !== undefined, true);
    }
  }
  fc.assert(fc.property(fc.uint8Array(), (bytes) => {
    decodeValue(bytes);
    decodeValue(new Uint8Array([1, 0, 0, 0, bytes.length, ...bytes]));
  }));
});

Deno.test("decodeValue() reads no value of another version, and none that is not bytes", () => {
  for (let version = 0; version < 256; version++) {
    if (version !== 1) assertEquals(decodeValue(ENCODED.with(0, version)), undefined);
  }
  const others = [null, undefined, 1, "x", {}, [1, 0, 0, 0, 1, 49], ENCODED.buffer, 5n];
  for (const other of others) assertEquals(decodeValue(other), undefined);
});

Deno.test("decodeValue() reads no JSON that is not UTF-8", () => {
  const bytes = [0x22, 0xed, 0xa0, 0x80, 0x22];
  assertEquals(decodeValue(new Uint8Array([1, 0, 0, 0, bytes.length, ...bytes])), undefined);
  assertEquals(
    decodeValue(new Uint8Array([1, 0, 0, 0, 6, ...encoder.encode("\ufeff{} ")])),
    undefined,
  );
});

Deno.test("decodeValue() reads no value whose length cannot be", () => {
  for (const length of [[0xff, 0xff, 0xff, 0xff], [0x80, 0, 0, 0], [0x7f, 0xff, 0xff, 0xff]]) {
    assertEquals(decodeValue(new Uint8Array([1, ...length, 49])), undefined);
  }
});
