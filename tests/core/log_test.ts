import { assert, assertEquals, assertLess, assertStringIncludes } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { testWith, UNLESS_LINUX } from "../_permissions.ts";
import { Hono } from "@hono/hono";
import {
  consoleSink,
  createLogger,
  formatLogLine,
  type LogLevel,
  type LogRecord,
  logSinkOf,
  writeLog,
} from "../../middleware/mod.ts";

const TIME = "2026-01-02T03:04:05.678Z";

const LOG = new URL("../../middleware/mod.ts", import.meta.url).href;

const HEAD = { level: "info", time: TIME, message: "request" } as const;

const lineOf = (fields: Record<string, unknown>) => formatLogLine({ ...HEAD, ...fields });

/** Fields as a reader of the line gets them. */
function readBack(fields: Record<string, unknown>): Record<string, unknown> {
  const { level: _level, time: _time, message: _message, ...rest } = JSON.parse(lineOf(fields));
  return rest;
}

/** An error with this many causes below it. */
function errorChain(depth: number): Error {
  return new Error(`depth ${depth}`, depth === 0 ? {} : { cause: errorChain(depth - 1) });
}

/** Collects what is written to the console, by method, while `write` runs. */
function consoleLines(write: () => void): [string, string][] {
  const lines: [string, string][] = [];
  const methods = ["debug", "info", "log", "warn", "error"] as const;
  const originals = methods.map((method) => console[method]);
  for (const method of methods) console[method] = (...args) => lines.push([method, args.join()]);
  try {
    write();
  } finally {
    methods.forEach((method, index) => console[method] = originals[index]!);
  }
  return lines;
}

Deno.test("formatLogLine() writes a record as JSON, texts as they are and numbers beyond 2^53 as text", () => {
  const line = lineOf({ status: 200, path: "/grüße/日本/🔑\ud800", id: 2n ** 64n });
  assertEquals(
    line,
    `{"level":"info","time":"${TIME}","message":"request","status":200,` +
      `"path":"/grüße/日本/🔑\\ud800","id":"18446744073709551616"}`,
  );
});

Deno.test("formatLogLine() escapes what breaks lines or acts on a terminal", () => {
  const unsafe = [
    ..."\n\r\t\0\b\x1b\x7f\x80\x85\x9b\x9f",
    ..."\u2028\u2029\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e",
    ..."\u061c\u2060\u2066\u2067\u2068\u2069\ufeff",
    ..."\u00ad\u0600\u180e\ufff9\u{e0001}\u{e0041}\u{e007f}",
  ];
  for (const character of unsafe) {
    const line = lineOf({ path: `a${character}b`, [`k${character}`]: 1 });
    // Every unsafe character is a control, a format character or a separator of lines.
    assert(!/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(line), JSON.stringify(line));
    assertEquals(JSON.parse(line).path, `a${character}b`);
  }
});

Deno.test("formatLogLine() does not let a field end the record or start another", () => {
  const path = '"}\n{"level":"info","forged":true';
  const line = lineOf({ path });
  assertEquals(line.split(/\r|\n/).length, 1);
  assertEquals(readBack({ path }), { path });
});

Deno.test("formatLogLine() bounds a text that is too long", () => {
  const { path, error } = readBack({ path: "p".repeat(1e6), error: new Error("m".repeat(1e6)) });
  assertLess(String(path).length, 10_000);
  assertLess(JSON.stringify(error).length, 30_000);
  assertEquals(readBack({ path: "p".repeat(8000) }), { path: "p".repeat(8000) });
});

Deno.test("formatLogLine() writes an error with its name, message and stack", () => {
  const cause = new TypeError("boom");
  const { error } = readBack({ error: cause });
  assertEquals(error, { name: "TypeError", message: "boom", stack: cause.stack });
});

Deno.test("formatLogLine() writes the causes of an error, and the errors of an aggregate, anywhere", () => {
  const outer = new Error("outer", { cause: new Error("inner", { cause: "text" }) });
  const both = new AggregateError([new Error("a"), "b"], "both");
  const { error, details } = JSON.parse(lineOf({ error: outer, details: [{ error: both }] }));
  assertEquals([error.message, error.cause.message, error.cause.cause], ["outer", "inner", "text"]);
  const [{ error: aggregate }] = details;
  assertEquals([aggregate.message, aggregate.errors[0].message, aggregate.errors[1]], [
    "both",
    "a",
    "b",
  ]);
});

Deno.test("formatLogLine() bounds causes and the errors of an aggregate", () => {
  const chain = lineOf({ error: errorChain(50) });
  assertStringIncludes(chain, "depth 46");
  assert(!chain.includes("depth 40"));
  const errors = Array.from({ length: 50 }, (_, index) => new Error(`number ${index}`));
  const aggregate = lineOf({ error: new AggregateError(errors) });
  assertStringIncludes(aggregate, "number 4");
  assert(!aggregate.includes("number 40"));
  const loop = new Error("loop");
  loop.cause = loop;
  assertStringIncludes(lineOf({ error: loop }), '"message":"loop"');
});

Deno.test("formatLogLine() keeps what it can of a record that JSON cannot hold", () => {
  const circular: Record<string, unknown> = {};
  circular.self = circular;
  const throwing = { toJSON: () => thrower() };
  for (const field of [circular, throwing, new Error("boom", { cause: circular })]) {
    const record = JSON.parse(lineOf({ requestId: "request-1", field }));
    assertEquals([record.level, record.time, record.message], ["info", TIME, "request"]);
    assertEquals(record.requestId, "request-1");
    if (field instanceof Error) assertStringIncludes(JSON.stringify(record), "boom");
  }
});

Deno.test("formatLogLine() changes nothing of the record", () => {
  const error = Object.freeze(new Error("boom"));
  const record: LogRecord = Object.freeze({ ...HEAD, error });
  formatLogLine(record);
  assertEquals(record, { ...HEAD, error });
});

Deno.test("consoleSink() writes every level to the standard output, in order", () => {
  const records = (["debug", "error", "info", "warn"] as const).map((level) => ({
    ...HEAD,
    level,
  }));
  const lines = consoleLines(() => records.forEach(consoleSink));
  assertEquals(lines, records.map((record) => ["log", formatLogLine(record)]));
});

testWith(["run"], "consoleSink() drops what cannot be written", async () => {
  const code = `
    import { consoleSink } from "${LOG}";
    consoleSink({ level: "info", time: "", message: "lost" });
    Deno.exit(7);
  `;
  const args = ["-c", `"$0" eval "$1" > /dev/full`, Deno.execPath(), code];
  assertEquals((await new Deno.Command("sh", { args }).output()).code, 7);
}, UNLESS_LINUX);

Deno.test("writeLog() adds level, time and message to the fields", () => {
  using _time = new FakeTime(TIME);
  const records: LogRecord[] = [];
  for (const level of ["debug", "info", "warn", "error"] satisfies LogLevel[]) {
    writeLog((record) => records.push(record), level, "event", { requestId: "request-1" });
    const expected = { level, time: TIME, message: "event", requestId: "request-1" };
    assertEquals(records.pop(), expected);
  }
});

Deno.test("writeLog() does not let a field pass for its level, time or message", () => {
  using _time = new FakeTime(TIME);
  const records: LogRecord[] = [];
  const update = { message: "event given up, now dead", level: "error", time: 0, text: "hello" };
  // @ts-expect-error a messenger's update has a field of that name, and its content is anybody's
  writeLog((record) => records.push(record), "info", "message received", update);
  const expected = { level: "info", time: TIME, message: "message received", text: "hello" };
  assertEquals(records as unknown[], [expected]);
  assertEquals(Object.keys(records[0]!), ["level", "time", "message", "text"]);
});

Deno.test("logSinkOf() is the logger's log, or else the console", async () => {
  const log = () => {};
  const isSink = async (app: Hono, sink: unknown) => {
    app.get("/", (c) => c.json(logSinkOf(c) === sink));
    return await (await app.request("/")).json();
  };
  const logging = new Hono();
  logging.use(createLogger({ log }));
  assertEquals([await isSink(logging, log), await isSink(new Hono(), consoleSink)], [true, true]);
});

function thrower(): never {
  throw new Error("no JSON");
}
