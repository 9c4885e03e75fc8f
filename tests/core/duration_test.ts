import { assertEquals } from "@std/assert";
import { duration } from "../../core/duration.ts";

Deno.test("duration() shows two units, rounded down", () => {
  const [HOUR, DAY] = [3_600_000, 86_400_000];
  const cases: readonly (readonly [number, string])[] = [
    [-5, "0 ms"],
    [999.9, "999 ms"],
    [9_999, "9.9 s"],
    [59_999, "59 s"],
    [HOUR - 1, "59 min 59 s"],
    [HOUR + 59_999, "1 h"],
    [7 * DAY - 1, "6 d 23 h"],
  ];
  for (const [ms, text] of cases) assertEquals(duration(ms), text);
});
