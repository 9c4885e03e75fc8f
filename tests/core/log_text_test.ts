import { assert, assertEquals, assertLess, assertStringIncludes } from "@std/assert";
import { formatLogText } from "../../core/log.ts";

const TIME = "2026-01-02T03:04:05.678Z";

/** The hour of the record is the local one, which the tests must not depend on. */
const CLOCK = `${new Date(TIME).toTimeString().slice(0, 8)}.678`;

const HEAD = { level: "info", time: TIME, message: "request" } as const;

const textOf = (fields: Record<string, unknown>, colour = false) =>
  formatLogText({ ...HEAD, ...fields }, colour);

/** The lines of a record. */
const linesOf = (fields: Record<string, unknown>) => textOf(fields).split("\n");

/** The fields of a record of one line, as they are written. */
function fieldsOf(fields: Record<string, unknown>): string {
  const [line, ...below] = linesOf(fields);
  assertEquals(below, []);
  return line!.replace(`${CLOCK} INFO  request        `, "");
}

/** An error whose stack is known. */
function errorWith(message: string, frames: readonly string[], cause?: unknown): Error {
  const error = new Error(message, cause === undefined ? {} : { cause });
  error.stack = [`Error: ${message}`, ...frames.map((frame) => `    at ${frame}`)].join("\n");
  return error;
}

function errorChain(depth: number): Error {
  return new Error(`depth ${depth}`, depth === 0 ? {} : { cause: errorChain(depth - 1) });
}

Deno.test("formatLogText() writes time, level and message in columns", () => {
  const messages = ["request", "event handled"];
  const lines = messages.map((message) => textOf({ message, level: "warn", status: 200 }));
  assertEquals(lines, [
    `${CLOCK} WARN  request        status=200`,
    `${CLOCK} WARN  event handled  status=200`,
  ]);
  assertEquals(textOf({ level: "error" }), `${CLOCK} ERROR request`);
  assertEquals(textOf({ time: "" }), "--:--:--.--- INFO  request");
});

Deno.test("formatLogText() writes the fields of a request in order, and then the others", () => {
  const request = { requestId: "r1", method: "POST", path: "/webhook", status: 401 };
  const line = fieldsOf({ ...request, durationMs: 3.2, ip: "192.0.2.1", code: "BAD" });
  const first = "method=POST path=/webhook status=401 code=BAD durationMs=3.2";
  assertEquals(line, `${first} requestId=r1 ip=192.0.2.1`);
});

Deno.test("formatLogText() writes the fields of an event in order, and then the others", () => {
  const event = { platform: "forge", id: "forge:d1", type: "push", attempt: 2 };
  const line = fieldsOf({ retryInMs: 9, ...event });
  assertEquals(line, "type=push id=forge:d1 attempt=2 retryInMs=9 platform=forge");
});

const VALUES: readonly [string, Record<string, unknown>, string][] = [
  ["nothing", { a: undefined }, `${CLOCK} INFO  request`],
  ["numbers and the like", { a: 1, b: true, c: null, d: 2n }, "a=1 b=true c=null d=2"],
  ["a text with a space", { a: "b c=1" }, 'a="b c=1"'],
  ["a text with an equals sign", { a: "b=1" }, 'a="b=1"'],
  ["an empty text", { a: "" }, 'a=""'],
  ["quotes and backslashes", { a: 'b"', c: "\\" }, 'a="b\\"" c="\\\\"'],
  ["text of other languages", { a: "/grüße/日本/🔑" }, "a=/grüße/日本/🔑"],
  ["a wide space", { a: "b\u3000c" }, 'a="b\u3000c"'],
  ["an odd name", { "a b": 1, "c=": 2 }, '"a b"=1 "c="=2'],
  ["an object", { a: { b: ["c d", 1] } }, 'a={"b":["c d",1]}'],
  ["what looks like an error", { a: { name: "b", message: "c", d: 1 } }, 'a={"name":"b"'],
  ["a lone surrogate", { a: "\ud800" }, 'a="\\ud800"'],
  ["a line break", { a: "b\nc\rd" }, 'a="b\\nc\\rd"'],
  ["a terminal's commands", { a: "\x1b[31m\x9b2J\x07" }, 'a="\\u001b[31m\\u009b2J\\u0007"'],
  ["marks that reverse text", { a: "\u202eb\u2066" }, 'a="\\u202eb\\u2066"'],
  ["line separators", { a: "b\u2028c" }, 'a="b\\u2028c"'],
  ["an unsafe name", { "a\n\x1b": 1 }, '"a\\n\\u001b"=1'],
];

for (const [what, fields, expected] of VALUES) {
  Deno.test(`formatLogText() writes ${what}`, () => {
    assertStringIncludes(fieldsOf(fields), expected);
  });
}

Deno.test("formatLogText() lets nothing act on a terminal, nor begin a line that is not its own", () => {
  const hostile = `x\n${CLOCK} INFO  forged\x1b]0;t\x07\u202e\u2028\x85\r\b\u{e0041}`;
  const error = errorWith(hostile, [hostile], errorWith(hostile, [hostile], hostile));
  error.name = hostile;
  const level = hostile as "info";
  const text = textOf({ level, message: hostile, [hostile]: hostile, error, a: [hostile] });
  const [, ...below] = text.split("\n");
  assert(!/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(text.replaceAll("\n", "")), JSON.stringify(text));
  assert(below.length > 0 && below.every((line) => line.startsWith("    ")));
});

Deno.test("formatLogText() writes an error's message in the line, and its stack below it", () => {
  const error = errorWith("a b\nc", ["f (a.ts:1:2)", "b.ts:3:4"]);
  assertEquals(linesOf({ error, requestId: "r1" }), [
    `${CLOCK} INFO  request        error="Error: a b\\nc" requestId=r1`,
    "    at f (a.ts:1:2)",
    "    at b.ts:3:4",
  ]);
});

Deno.test("formatLogText() writes the causes of an error, and the errors of an aggregate", () => {
  const aggregate = new AggregateError([errorWith("a", ["a.ts:1:1"]), "b"], "both");
  aggregate.stack = "AggregateError: both\n    at c.ts:1:1";
  assertEquals(linesOf({ error: errorWith("outer", ["o.ts:1:1"], aggregate) }).slice(1), [
    "    at o.ts:1:1",
    '    cause: "AggregateError: both"',
    "      at c.ts:1:1",
    '      errors[0]: "Error: a"',
    "        at a.ts:1:1",
    "      errors[1]: b",
  ]);
});

Deno.test("formatLogText() writes the whole stack of an error whose message was changed", () => {
  const error = errorWith("before", ["a.ts:1:1"]);
  error.message = "after";
  assertEquals(linesOf({ error }).slice(1), ["    Error: before", "    at a.ts:1:1"]);
});

Deno.test("formatLogText() writes an error without a stack, and what else was thrown", () => {
  const error = new TypeError("a");
  delete error.stack;
  assertEquals(fieldsOf({ error }), 'error="TypeError: a"');
  assertEquals(fieldsOf({ error: "a b" }), 'error="a b"');
});

Deno.test("formatLogText() bounds texts, stacks and causes", () => {
  assertLess(textOf({ path: "p".repeat(1e6) }).length, 10_000);
  assertLess(linesOf({ error: new Error("m\n".repeat(1e6)) }).length, 50);
  const error = errorWith("m", Array.from({ length: 100 }, (_, i) => `${i}.ts`));
  assertEquals(linesOf({ error }).slice(40), ["    at 39.ts", "    ... 60 more lines"]);
  assert(!textOf({ error: errorChain(50) }).includes("depth 40"));
  assertLess(textOf({ error: new Error("m".repeat(1e6)) }).length, 30_000);
});

Deno.test("formatLogText() keeps what it can of a record that JSON cannot hold", () => {
  const circular: Record<string, unknown> = {};
  circular.self = circular;
  const error = new Error("boom", { cause: circular });
  const line = fieldsOf({ requestId: "r1", circular, error });
  assertEquals(line, 'error="Error: boom" requestId=r1 circular="[not writable]"');
});

Deno.test("formatLogText() colours the level and dims the rest, if it is to", () => {
  const error = errorWith("a", ["a.ts:1:1"]);
  const reset = "\x1b[0m";
  assertEquals(
    textOf({ level: "error", error }, true),
    `${CLOCK} \x1b[31mERROR${reset} request        \x1b[2merror=${reset}"Error: a"\n` +
      `\x1b[2m    at a.ts:1:1${reset}`,
  );
  const levels = ["debug", "info", "warn"].map((level) => textOf({ level }, true).slice(13, 18));
  assertEquals(levels, ["\x1b[90m", "\x1b[32m", "\x1b[33m"]);
});

Deno.test("formatLogText() takes fields that cannot become a text", () => {
  const payload = JSON.parse('{"toString":"1","valueOf":null}');
  const text = formatLogText({ level: "info", time: "", message: "x", payload }, false);
  assertStringIncludes(text, `payload={"toString":"1","valueOf":null}`);
});
