import { assert, assertEquals, assertLess, assertMatch } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { formatLogText, type LogFormat } from "../../core/log.ts";
import { createStdoutLog, formatLogLine, type LogRecord } from "../../middleware/mod.ts";
import { testWith } from "../_permissions.ts";

const LOG = new URL("../../middleware/mod.ts", import.meta.url).href;

const record = (number: number, text = ""): LogRecord => ({
  ...{ level: "info", time: "2026-01-02T03:04:05.678Z", message: "line", number, text },
});

/** Something to write to that takes what it is given once it is allowed to. */
class Reader {
  readonly writes: string[] = [];
  /** Number of bytes that a write takes. */
  takes = Infinity;
  fails = false;
  #stalled: PromiseWithResolvers<void> | undefined;

  stall(): void {
    this.#stalled = Promise.withResolvers();
  }

  resume(): void {
    this.#stalled?.resolve();
    this.#stalled = undefined;
  }

  async write(bytes: Uint8Array): Promise<number> {
    await this.#stalled?.promise;
    return this.writeSync(bytes);
  }

  writeSync(bytes: Uint8Array): number {
    if (this.fails) throw new Deno.errors.BrokenPipe();
    const taken = bytes.subarray(0, this.takes);
    this.writes.push(new TextDecoder().decode(taken));
    return taken.byteLength;
  }

  get lines(): Record<string, unknown>[] {
    return this.writes.join("").split("\n").slice(0, -1).map((line) => JSON.parse(line));
  }

  get numbers(): unknown[] {
    return this.lines.map(({ number, count }) => number ?? { dropped: count });
  }
}

/** Lets promises go on, without the clock. */
async function settle(): Promise<void> {
  for (let i = 0; i < 50; i++) await Promise.resolve();
}

Deno.test("createStdoutLog() writes lines that come together in one go, 5 ms later", async () => {
  using time = new FakeTime();
  const reader = new Reader();
  const { log } = createStdoutLog({ output: reader });
  for (const number of [1, 2, 3]) log(record(number));
  assertEquals(reader.writes, []);
  await time.tickAsync(5);
  const lines = [1, 2, 3].map((number) => `${formatLogLine(record(number))}\n`);
  assertEquals(reader.writes, [lines.join("")]);
});

Deno.test("createStdoutLog() never cuts a line, nor writes more at once than a pipe takes whole", async () => {
  const reader = new Reader();
  const { log, drain } = createStdoutLog({ output: reader });
  for (let number = 0; number < 100; number++) log(record(number, "t".repeat(100)));
  log(record(100, "t".repeat(8_000)));
  await drain(1_000);
  assertEquals(reader.numbers, Array.from({ length: 101 }, (_, number) => number));
  assert(reader.writes.every((text) => text.endsWith("\n")));
  assert(reader.writes.slice(0, -1).every((text) => text.length <= 4_096));
  assertLess(reader.writes.length, 10);
});

Deno.test("createStdoutLog() goes on where a write that took a part of it stopped", async () => {
  const reader = new Reader();
  reader.takes = 7;
  const { log, drain } = createStdoutLog({ output: reader });
  for (const number of [1, 2]) log(record(number, "é\u2028"));
  await drain(1_000);
  assertEquals(reader.numbers, [1, 2]);
});

Deno.test("createStdoutLog() drops what does not fit while nobody reads, and says how much", async () => {
  using time = new FakeTime("2026-01-02T03:04:05.678Z");
  const reader = new Reader();
  const { log } = createStdoutLog({ output: reader, maxWaitingChars: 1_000 });
  reader.stall();
  log(record(0));
  await time.tickAsync(5);
  for (let number = 1; number <= 1_000; number++) log(record(number));
  await time.tickAsync(60_000);
  assertEquals(reader.writes, []);
  reader.resume();
  await time.tickAsync(5);
  const { time: _time, ...gap } = reader.lines.at(-1)!;
  const kept = reader.lines.length - 1;
  assertEquals(reader.numbers.slice(0, -1), Array.from({ length: kept }, (_, number) => number));
  assertEquals<unknown>(gap, {
    ...{ level: "warn", message: "log lines dropped" },
    ...{ count: 1_001 - kept, since: "2026-01-02T03:04:05.683Z" },
  });
  log(record(7));
  await time.tickAsync(5);
  assertEquals(reader.numbers.at(-1), 7);
});

Deno.test("createStdoutLog() holds lines back while the disk is full, and tries again", async () => {
  using time = new FakeTime();
  const reader = new Reader();
  const { log } = createStdoutLog({ output: reader });
  reader.fails = true;
  log(record(1));
  await time.tickAsync(5);
  log(record(2));
  await time.tickAsync(5);
  reader.fails = false;
  await time.tickAsync(1_000);
  await settle();
  await time.tickAsync(5);
  assertEquals(reader.numbers, [1, 2]);
});

Deno.test("createStdoutLog() drains at once, and no longer than it may", async () => {
  using time = new FakeTime();
  const reader = new Reader();
  const { log, drain } = createStdoutLog({ output: reader });
  for (let number = 0; number < 100; number++) log(record(number, "t".repeat(100)));
  await drain(1_000);
  assertEquals(reader.numbers.length, 100);
  reader.stall();
  log(record(100));
  let drained = false;
  const draining = drain(250).then(() => drained = true);
  await time.tickAsync(249);
  assert(!drained);
  await time.tickAsync(1);
  await draining;
  reader.resume();
  await settle();
});

Deno.test("createStdoutLog() does not wait for a reader that is gone", async () => {
  using _time = new FakeTime();
  const reader = new Reader();
  reader.fails = true;
  const { log, drain } = createStdoutLog({ output: reader });
  log(record(1));
  await drain(1_000); // The clock stands still.
  assertEquals(reader.writes, []);
});

Deno.test("createStdoutLog() writes at once what waits at the end, and what comes after", () => {
  const reader = new Reader();
  const { log, end } = createStdoutLog({ output: reader });
  log(record(1));
  end();
  log(record(2));
  assertEquals(reader.numbers, [1, 2]);
});

/** Text of a record in a form, as written to an output that may be a terminal. */
function writtenAs(format: LogFormat | undefined, isTerminal?: boolean): string {
  const reader = new Reader();
  const isKnown = isTerminal !== undefined;
  const output = Object.assign(reader, isKnown ? { isTerminal: () => isTerminal } : {});
  const { log, end } = createStdoutLog({ output, format });
  log(record(1));
  end();
  return reader.writes.join("");
}

const JSON_LINE = `${formatLogLine(record(1))}\n`;

Deno.test("createStdoutLog() writes JSON by default, even to a terminal", () => {
  for (const isTerminal of [true, false, undefined]) {
    assertEquals(writtenAs(undefined, isTerminal), JSON_LINE);
    assertEquals(writtenAs("json", isTerminal), JSON_LINE);
  }
});

Deno.test("createStdoutLog() writes text to a terminal alone, if it may choose", () => {
  assertMatch(writtenAs("auto", true), /^[\d:.]{12} .*INFO.* line .*number=.*1 .*\n$/);
  for (const isTerminal of [false, undefined]) {
    assertEquals(writtenAs("auto", isTerminal), JSON_LINE);
  }
});

Deno.test("createStdoutLog() writes text without colours to what is no terminal", () => {
  const text = `${formatLogText(record(1), false)}\n`;
  for (const isTerminal of [false, undefined]) assertEquals(writtenAs("text", isTerminal), text);
  const onTerminal = `${formatLogText(record(1), !Deno.noColor)}\n`;
  assertEquals(writtenAs("text", true), onTerminal);
});

Deno.test("createStdoutLog() writes the number of dropped lines as text, too", async () => {
  using time = new FakeTime();
  const reader = new Reader();
  const { log } = createStdoutLog({ output: reader, format: "text", maxWaitingChars: 100 });
  for (let number = 0; number < 10; number++) log(record(number));
  await time.tickAsync(5);
  assertMatch(reader.writes.join(""), / WARN {2}log lines dropped {2}count=\d since=\d\S+\n$/);
});

/** Runs code in a process whose standard output goes through a shell's pipe. */
async function run(code: string, into: string) {
  const script =
    `import { createStdoutLog } from "${LOG}"; const stdout = createStdoutLog(); ${code}`;
  const args = ["-c", `("$0" eval "$1"; echo "code $?" >&2) ${into}`, Deno.execPath(), script];
  const { stdout, stderr } = await new Deno.Command("sh", { args }).output();
  const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  return { lines: out!.split("\n").slice(0, -1).map((line) => JSON.parse(line)), stderr: err! };
}

const WRITE = (count: number, text = "") =>
  `for (let number = 0; number < ${count}; number++) stdout.log({ level: "info", time: "", message: "line", number, text: "${text}" });`;

testWith(["run"], "createStdoutLog() loses nothing to a slow reader, nor cuts a line", async () => {
  const { lines } = await run(WRITE(2_000, "é\\u2028".repeat(100)), "| (sleep 0.3; cat)");
  assertEquals(lines.map(({ number }) => number), Array.from({ length: 2_000 }, (_, i) => i));
});

testWith(
  ["run"],
  "createStdoutLog() counts what it drops while its reader stands still",
  async () => {
    const code = `
    const small = createStdoutLog({ maxWaitingChars: 20_000 });
    const write = (number) => small.log({ level: "info", time: "", message: "line", number });
    for (let number = 0; number < 10_000; number++) {
      write(number);
      if (number % 100 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await small.drain(10_000);
    Deno.exit(0);
  `;
    const { lines } = await run(code, "| (sleep 2; cat)");
    const dropped = lines.filter(({ message }) => message === "log lines dropped");
    const written = lines.length - dropped.length;
    const counted = dropped.reduce((sum, { count }) => sum + count, 0);
    assert(counted > 0);
    assertEquals(written + counted, 10_000);
  },
);

testWith(["run"], "createStdoutLog() gets the last lines out before Deno.exit()", async () => {
  const code = `addEventListener("unload", stdout.end); ${WRITE(100)} Deno.exit(7);`;
  const { lines, stderr } = await run(code, "| cat");
  assertEquals([lines.length, stderr], [100, "code 7\n"]);
});

testWith(["run"], "createStdoutLog() lets a process end whose reader stands still", async () => {
  const code = `
    addEventListener("unload", stdout.end); ${WRITE(2_000)}
    await new Promise((resolve) => setTimeout(resolve, 300));
    await stdout.drain(100);
    console.error("drained");
    Deno.exit(7);
  `;
  const { lines, stderr } = await run(code, "| (sleep 2; cat)");
  assertEquals(stderr, "drained\ncode 7\n");
  assertEquals(lines.map(({ number }) => number), lines.map((_, number) => number));
  assertLess(lines.length, 2_000);
});

testWith(
  ["run"],
  "createStdoutLog() outlives a reader that is gone, and a disk that is full",
  async () => {
    const code = `
    ${WRITE(2_000)}
    await new Promise((resolve) => setTimeout(resolve, 100));
    ${WRITE(10)}
    await stdout.drain(1_000);
    Deno.exit(7);
  `;
    const sinks = ["| true", ...(Deno.build.os === "linux" ? ["> /dev/full"] : [])];
    for (const into of sinks) assertEquals((await run(code, into)).stderr, "code 7\n");
  },
);

testWith(["run"], "createStdoutLog() keeps no process alive whose reader is gone", async () => {
  const { stderr } = await run(`${WRITE(2_000)} console.error("through")`, "| true");
  assertEquals(stderr, "through\ncode 0\n");
});
