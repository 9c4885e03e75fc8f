import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { importEvents, type PortableEvent } from "../../../events/mod.ts";
import { linesOf } from "../../../events/store/event_import.ts";
import { itemOfLine, LINE_START, lineOf } from "../../../events/store/portable_event.ts";
import { byLength } from "../../_length.ts";
import { repairGroups } from "./_tidying.ts";
import { memoryStore } from "./kv/_stores.ts";

const encoder = new TextEncoder();

/** Characters that no line may have: a terminal would act on them, or a reader end the line there. */
const CONTROL = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

function event(body: Uint8Array<ArrayBuffer> | null, changes: object = {}): PortableEvent {
  return {
    record: {
      ...{ id: "d1", platform: "forge", source: "github", type: "push", requestId: null },
      ...{ receivedAt: 1_000, state: "queued", attempt: 0, dueAt: 1_000, orderingKey: null },
      ...{ group: null, settledAt: null, attempts: [], ...changes },
    },
    body,
  };
}

/** Payloads, and the member of the line that has them. */
const PAYLOADS: readonly [body: string | readonly number[], member: string][] = [
  [`{"id":12345678901234567890,"n":1.0}`, `"payload":{"id":12345678901234567890,"n":1.0}`],
  [`{"a": "é\u{1f600}\\u202e"}`, `"payload":{"a": "é\u{1f600}\\u202e"}`],
  [`{"payload":{"payload":1},"a":"\\",\\"payload\\":2"}`, `"payload":{"payload":{"payload":1},`],
  ["null", `"payload":null`],
  [" {}", String.raw`"payloadText":" {}"`],
  [`{\n\t"a": 1\r\n}`, String.raw`"payloadText":"{\n\t\"a\": 1\r\n}"`],
  [
    `{"a":"\u202e\u2028\u009b\u{e0001}"}`,
    String.raw`"payloadText":"{\"a\":\"\u202e\u2028\u009b\udb40\udc01\"}"`,
  ],
  ["\u007f".repeat(9), `"payloadBase64":"f39/f39/f39/"`],
  ["\ufeff{}", `"payloadBase64":"77u/e30="`],
  ["", `"payloadBase64":""`],
  ["{", `"payloadBase64":"ew=="`],
  [[0xff, 0, 0x80], `"payloadBase64":"/wCA"`],
];

Deno.test("a line has the payload byte for byte, and readable if it can be", async () => {
  for (const [content, member] of PAYLOADS) {
    const body = typeof content === "string" ? encoder.encode(content) : new Uint8Array(content);
    const line = await lineOf(event(body));
    assert(line.includes(`,${member}`), line);
    assert(line.startsWith(LINE_START), line);
    assert(!CONTROL.test(line), line);
    assertEquals((await itemOfLine(line) as PortableEvent).body, body);
  }
});

Deno.test("a line may be written anew by another tool, as long as its payload stays", async () => {
  const line = await lineOf(event(encoder.encode(`{"a":1}`)));
  const { payload, record, ...others } = JSON.parse(line);
  const rewritten = JSON.stringify({ payload, comment: "mine", record, ...others });
  assertEquals(await itemOfLine(` ${rewritten} `), event(encoder.encode(`{"a":1}`)));
});

const text = fc.string({ unit: "binary" });

/** Any JSON that a field of a later version may have. */
const json = fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.parse(JSON.stringify(value)));

const content = fc.oneof(
  fc.uint8Array({ maxLength: 200 }).map((bytes) => Uint8Array.from(bytes)),
  fc.json().map((value) => encoder.encode(value)),
  fc.tuple(fc.json(), fc.nat({ max: 4 })).map(([value, indent]) =>
    encoder.encode(JSON.stringify(JSON.parse(value), null, indent))
  ),
  fc.tuple(text, text).map((parts) => encoder.encode(JSON.stringify(parts.join("\u2028")))),
);

Deno.test("any event comes back from its line as it was", async () => {
  const property = fc.asyncProperty(content, text, json, async (body, type, later) => {
    const given = event(body, { type, later });
    const line = await lineOf(given);
    assert(!CONTROL.test(line), line);
    assertEquals(await itemOfLine(line), given);
  });
  await fc.assert(property, { numRuns: byLength(2_000, 300) });
});

/** A change of a line: some of its bytes are others, are gone, or are there twice. */
const damage = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  length: fc.nat({ max: 30 }),
  put: fc.oneof(fc.uint8Array({ maxLength: 10 }), fc.json().map((value) => encoder.encode(value))),
});

Deno.test("a damaged line is refused or imported, and neither stops nor harms the others", async () => {
  await using sut = await memoryStore();
  const good = await lineOf(event(encoder.encode(`{"a":1}`), { id: "good" }));
  const group = { orderingKey: "key", group: { key: "key", position: 1 } };
  const bytes = encoder.encode(await lineOf(event(encoder.encode(`{"b":[2]}`), group)));
  const property = fc.asyncProperty(damage, async ({ at, length, put }) => {
    const start = Math.floor(at * bytes.length);
    const parts = [bytes.subarray(0, start), put, bytes.subarray(start + length)];
    const source = new Blob([`${good}\n`, ...parts.map((part) => part.slice()), `\n${good}`]);
    const result = await importEvents(sut.store, source.stream());
    assert(result.imported + result.known >= 2);
    const { failures, failed } = result;
    assertEquals(failures.length, failed);
    for (const { reason } of failures) {
      assert(/^Cannot (read|restore) the event: /.test(reason), reason);
    }
  });
  await fc.assert(property, { numRuns: byLength(3_000, 400) });
  const { unreadable } = await sut.store.stats();
  assertEquals([unreadable, await repairGroups(sut.store)], [0, 0]);
});

/** All lines of chunks, as texts. */
async function split(chunks: readonly (string | Uint8Array)[], maxBytes = 1_000) {
  const lines: string[] = [];
  for await (const { number, bytes } of linesOf(ReadableStream.from(chunks), maxBytes)) {
    lines.push(`${number}:${bytes ? new TextDecoder().decode(bytes) : "too long"}`);
  }
  return lines;
}

Deno.test("linesOf() splits whatever the chunks are", async () => {
  assertEquals(await split([]), []);
  assertEquals(await split(["a\n\nb"]), ["1:a", "2:", "3:b"]);
  assertEquals(await split(["a", "", "b\nc", "\n", "d\n"]), ["1:ab", "2:c", "3:d"]);
  const bytes = encoder.encode("é\né");
  assertEquals(await split(Array.from(bytes, (byte) => Uint8Array.of(byte))), ["1:é", "2:é"]);
});

Deno.test("linesOf() passes over lines that are too long, without keeping them", async () => {
  const chunks = ["ab\nabc", "d", "e\nabc\nabcd"];
  assertEquals(await split(chunks, 3), ["1:ab", "2:too long", "3:abc", "4:too long"]);
});
