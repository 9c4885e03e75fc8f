import { assert, assertEquals, assertGreaterOrEqual, assertLess } from "@std/assert";
import { createLogSummary, type LogRecord } from "../../middleware/mod.ts";
import { MonotonicClock } from "../_monotonic_clock.ts";

const SHORT_MS = 20;

/** A log that sums up, and what it has written. */
function recorded(options: Parameters<typeof createLogSummary>[0] = {}) {
  const records: LogRecord[] = [];
  return { records, log: createLogSummary({ log: (record) => records.push(record), ...options }) };
}

const refusal = (code = "INVALID_SIG", message = "request"): LogRecord => ({
  ...{ level: "warn", time: "2026-01-02T03:04:05.678Z", message, code },
});

const passed: LogRecord = { level: "info", time: "2026-01-02T03:04:05.678Z", message: "start" };

const request = (fields: Record<string, unknown> = {}): LogRecord => ({
  ...{ ...passed, message: "request", requestId: "request-1", method: "GET" },
  ...{ path: "/health", status: 200, code: undefined, ...fields },
});

/** Sends a record many times. */
function flood(log: { log: (record: LogRecord) => void }, count: number, record = refusal()) {
  for (let i = 0; i < count; i++) log.log(record);
}

Deno.test("createLogSummary() makes 102 records of 10,000 bad signatures", () => {
  const { records, log } = recorded();
  flood(log, 10_000);
  flood(log, 1, refusal("MISSING_SIG"));
  log.flush();
  const { count, of, code, level, message, periodMs } = records.at(-1)!;
  assertEquals([records.length, count, of, code], [102, 9_900, "request", "INVALID_SIG"]);
  assertEquals([level, message], ["warn", "records summed up"]);
  assert(Number.isInteger(periodMs));
});

Deno.test("createLogSummary() counts kinds by message and code", () => {
  const { records, log } = recorded({ limit: 1 });
  for (const [code, message] of [["A", "x"], ["A", "y"], ["B", "x"]]) {
    flood(log, 3, refusal(code, message));
  }
  log.flush();
  const summaries = records.filter(({ message }) => message === "records summed up");
  assertEquals(summaries.map(({ of, code, count }) => [of, code, count]), [
    ["x", "A", 2],
    ["y", "A", 2],
    ["x", "B", 2],
  ]);
});

Deno.test("createLogSummary() makes 101 records of 10,000 health probes", () => {
  const { records, log } = recorded();
  flood(log, 10_000, request());
  log.flush();
  const { time: _time, periodMs: _period, ...summary } = records.at(-1)!;
  assertEquals(records.length, 101);
  assertEquals<unknown>(summary, {
    ...{ level: "info", message: "records summed up" },
    ...{ of: "request", status: 200, path: "/health", count: 9_900 },
  });
});

Deno.test("createLogSummary() hides no request behind a flood of another path or status", () => {
  const { records, log } = recorded({ limit: 3 });
  flood(log, 100, request());
  for (const fields of [{ path: "/admin" }, { status: 304 }, { message: "client gone" }]) {
    flood(log, 1, request(fields));
    assertEquals(records.at(-1), request(fields));
  }
});

Deno.test("createLogSummary() writes each request that brought an event, and all other records", () => {
  for (const record of [request({ path: "/webhook", eventId: "d1" }), passed]) {
    const { records, log } = recorded({ limit: 1 });
    flood(log, 1_000, record);
    assertEquals(records.length, 1_000);
  }
});

Deno.test("createLogSummary() is bounded whatever paths there are, and however long", () => {
  const { records, log } = recorded({ limit: 1 });
  for (let i = 0; i < 10_000; i++) log.log(request({ path: `/${i}/${"p".repeat(1_000)}` }));
  flood(log, 1, request({ path: `/0/${"p".repeat(2_000)}` }));
  log.flush();
  assertEquals(records.length, 103); // 100 kinds, the first of the others, and two sums.
  const summaries = records.filter(({ message }) => message === "records summed up");
  assertEquals(summaries.map(({ path }) => String(path ?? "").length), [200, 0]);
});

Deno.test("createLogSummary() hides no code, and no error, behind a flood of other paths", () => {
  const { records, log } = recorded({ limit: 1 });
  for (let i = 0; i < 1_000; i++) log.log(request({ path: `/${i}` }));
  const failure: LogRecord = { ...refusal(), level: "error" };
  const broken: LogRecord = { ...request({ path: "/new" }), level: "error" };
  for (const record of [refusal(), failure, broken]) {
    flood(log, 3, record);
    assertEquals(records.at(-1), record);
  }
  log.flush();
  const summaries = records.filter(({ of }) => of === "other");
  assertEquals(summaries.map(({ level, count }) => [level, count]), [["info", 899], ["error", 2]]);
});

Deno.test("createLogSummary() sums a window up when any record comes next, and starts anew", () => {
  using clock = new MonotonicClock();
  for (const next of [refusal(), passed]) {
    const { records, log } = recorded({ limit: 1, windowMs: SHORT_MS });
    flood(log, 5);
    clock.advance(SHORT_MS);
    flood(log, 1, next);
    flood(log, 2);
    log.flush();
    const counts = next === passed ? [undefined, 1] : [2];
    assertEquals(records.map(({ count }) => count), [undefined, 4, undefined, ...counts]);
    assertGreaterOrEqual(Number(records[1]?.periodMs), SHORT_MS);
  }
});

Deno.test("createLogSummary() flushes nothing twice, and nothing where nothing is held back", () => {
  const { records, log } = recorded({ limit: 1 });
  flood(log, 1);
  log.flush();
  flood(log, 2);
  log.flush();
  log.flush();
  assertEquals(records.map(({ count }) => count), [undefined, undefined, 1]);
});

Deno.test("createLogSummary() is bounded whatever codes there are", () => {
  const { records, log } = recorded({ limit: 1 });
  for (let i = 0; i < 10_000; i++) log.log(refusal(`CODE_${i}`));
  log.flush();
  assertEquals(records.length, 102); // 100 kinds, the first of the others, and their sum.
  assertEquals([records.at(-1)?.code, records.at(-1)?.count], ["other", 9_899]);
});

Deno.test("createLogSummary() loses nothing by a log that throws", () => {
  let broken = false;
  const throwing = () => {
    if (broken) throw new Error("The disk is full");
  };
  const { log } = recorded({ limit: 1, log: throwing });
  flood(log, 2);
  broken = true;
  const written: string[] = [];
  const { log: original } = console;
  console.log = (line: string) => written.push(line);
  log.flush();
  console.log = original;
  assertEquals(JSON.parse(written[0]!).record.count, 1);
});

Deno.test("createLogSummary() costs under a microsecond for a record", () => {
  const log = createLogSummary({ log: () => {} });
  const best = Math.min(...Array.from({ length: 5 }, () => {
    const start = performance.now();
    flood(log, 10_000, passed);
    return (performance.now() - start) / 10;
  }));
  assertLess(best, 1); // In microseconds.
});
