import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  checkExpression,
  checkTimeZone,
  loadCron,
  normalized,
} from "../../../events/schedules/mod.ts";
import { testWith } from "../../_permissions.ts";
import { paths, read } from "../../docs/_documents.ts";

const timesOf = await loadCron();

testWith(
  ["read"],
  "the library that reads expressions is loaded by apps with schedules only",
  async () => {
    const importing: string[] = [];
    for (const path of await paths()) {
      if (!path.endsWith(".ts") || /^(?:tests|dev)\//.test(path)) continue;
      const text = await read(path);
      if (/from "croner"/.test(text)) importing.push(`${path}, at its start`);
      if (/import\("croner"\)/.test(text)) importing.push(path);
    }
    assertEquals(importing, ["events/schedules/cron_expression.ts"]);
  },
);

/** The times of an expression from one time to another. */
function between(expression: string, timeZone: string, from: string, to: string): string[] {
  const times = timesOf("test", expression, timeZone);
  const found: string[] = [];
  let time = times.next(Date.parse(from) - 1);
  for (; time !== undefined && time < Date.parse(to); time = times.next(time)) {
    found.push(new Date(time).toISOString().slice(5, 16));
  }
  return found;
}

Deno.test("an expression is in its time zone", () => {
  assertEquals(between("0 7 * * 1-5", "UTC", "2026-11-20T12:00Z", "2026-11-24T12:00Z"), [
    "11-23T07:00",
    "11-24T07:00",
  ]);
  const from = "2026-11-23T00:00Z";
  assertEquals(between("0 7 * * *", "Asia/Kolkata", from, "2026-11-24T00:00Z"), ["11-23T01:30"]);
  assertEquals(between("@daily", "America/New_York", from, "2026-11-24T00:00Z"), ["11-23T05:00"]);
});

Deno.test("a time that summer time skips comes as much later", () => {
  const [from, to] = ["2026-03-28T12:00Z", "2026-03-30T12:00Z"] as const;
  // At 3:00 in Berlin, as docs/flows.md says, and the day after at 2:30 again.
  assertEquals(between("30 2 * * *", "Europe/Berlin", from, to), ["03-29T01:00", "03-30T00:30"]);
  assertEquals(between("0 * * * *", "Europe/Berlin", from, to).length, 48);
});

Deno.test("a time that comes twice in autumn is one slot, and two of an interval", () => {
  const [from, to] = ["2026-10-24T12:00Z", "2026-10-26T12:00Z"] as const;
  assertEquals(between("30 2 * * *", "Europe/Berlin", from, to), ["10-25T00:30", "10-26T01:30"]);
  assertEquals(between("0 * * * *", "Europe/Berlin", from, to).length, 48);
});

Deno.test("the times before one are those that are found forwards", () => {
  const end = Date.parse("2024-12-01T00:00Z");
  const zones = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"];
  for (const timeZone of zones) {
    for (const expression of ["30 2 * * *", "15 0,2 * * 0", "0 */6 * * *", "0 0 1 * *"]) {
      const times = timesOf("test", expression, timeZone);
      const forwards: number[] = [];
      let time = times.next(Date.parse("2024-01-01T00:00Z"));
      for (; time !== undefined && time <= end; time = times.next(time)) {
        assert(time % 60_000 === 0 && time > (forwards.at(-1) ?? 0));
        assertEquals(times.latest(time, 1), [time]);
        assertEquals(times.latest(time - 1, 1)[0], forwards.at(-1) ?? times.latest(time - 1, 1)[0]);
        forwards.push(time);
      }
      assertEquals(times.latest(end, 5).reverse(), forwards.slice(-5));
    }
  }
});

Deno.test("checkExpression() takes five fields and names, and nothing with seconds or a year", () => {
  for (const good of ["0 7 * * 1-5", " */5  * * * * ", "@daily", "@Hourly", "0 0 L * FRI#L"]) {
    checkExpression("test", good);
  }
  const bad = ["", "x", "* * * *", "0 0 7 * * 1-5", "* * * * * 2030 *", "@reboot", "@never"];
  for (const text of [...bad, "2026-01-01T00:00:00", `${"0,".repeat(300)}0 * * * *`]) {
    assertThrows(() => checkExpression("test", text), SyntaxError, "must have five fields");
  }
  assertThrows(() => checkExpression("test", 5), TypeError, "must be a text, got 5");
  assertEquals(normalized("  0\t7 *  * 1-5 "), "0 7 * * 1-5");
});

Deno.test("loadCron() refuses fields out of range, and times that never come", () => {
  const bad: Record<string, string> = {
    "61 * * * *": "the cron expression is not valid (Invalid value for minute: 61), got",
    "*/0 * * * *": "illegal stepping",
    "0 0 * * 8": "Invalid value for dayOfWeek: 8",
    "a b c d e": "the cron expression is not valid",
    "0 0 30 2 *": "names a time that never comes",
  };
  for (const [expression, reason] of Object.entries(bad)) {
    const error = assertThrows(() => timesOf("open it", expression, "UTC"), SyntaxError, reason);
    assert((error as Error).message.startsWith("Cannot open it: the cron expression "));
  }
});

Deno.test("checkTimeZone() knows the system's time zones", () => {
  for (const good of ["UTC", "Europe/Berlin", "America/Argentina/Ushuaia"]) {
    checkTimeZone("test", good);
  }
  for (const bad of ["", "local", "Mars/Olympus"]) {
    assertThrows(() => checkTimeZone("test", bad), RangeError, "must be the name of a time zone");
  }
  assertThrows(() => checkTimeZone("test", 2), TypeError, "must be a text, got 2");
});
