import { assert, assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { isProblemId, patternOf, problemIdOf } from "../../../events/store/problem.ts";
import { CAUSE_COUNT, labelledErrors, SEEN_COUNT } from "./_errors.ts";

const ORIGIN = { source: "github", handler: "push" };

/** Groups labelled errors by their problems: the causes in each. */
function grouped(errors: ReturnType<typeof labelledErrors>): Map<string, Set<number>> {
  const groups = new Map<string, Set<number>>();
  for (const { cause, error } of errors) {
    const id = problemIdOf(ORIGIN, error);
    groups.set(id, (groups.get(id) ?? new Set()).add(cause));
  }
  return groups;
}

Deno.test("3,000 errors of 30 causes are at most 33 problems, none of two causes", () => {
  const errors = labelledErrors(3_000 / CAUSE_COUNT);
  assertEquals([errors.length, CAUSE_COUNT], [3_000, 30]);
  const groups = grouped(errors);
  assertEquals([...groups.values()].filter(({ size }) => size > 1), []);
  assert(groups.size <= 33, `${groups.size} problems`);
  const heldBack = grouped(errors.filter(({ cause }) => cause >= SEEN_COUNT));
  assert(heldBack.size <= CAUSE_COUNT - SEEN_COUNT + 1, `${heldBack.size} of those held back`);
});

Deno.test("other random parts of the same errors are of the same problems", () => {
  const [first, second] = [1, 2].map((seed) => [...grouped(labelledErrors(100, seed)).keys()]);
  assertEquals(second!.toSorted(), first!.toSorted());
});

Deno.test("patternOf() keeps what tells the cause", () => {
  const patterns = {
    "TypeError: x.map is not a function\n    at file:///app/main.ts:3:7":
      "TypeError: x.map is not a function",
    "Error: Request failed with status code 502": "Error: Request failed with status code 502",
    "Error: 404 Not Found (job 17)": "Error: 404 Not Found (job #)",
    "Error: fetch https://u:p@api.example.com:8443/a/b?c=d failed":
      "Error: fetch <api.example.com> failed",
    "Error: connect ECONNREFUSED 127.0.0.1:5432": "Error: connect ECONNREFUSED <ip>:5432",
    "Error: read ECONNRESET 10.0.0.7:49152": "Error: read ECONNRESET <ip>:#",
    "Error [ERR_HTTP2_STREAM_ERROR]: Stream closed with 8":
      "Error [ERR_HTTP2_STREAM_ERROR]: Stream closed with #",
    'error: column "user_id" does not exist': "error: column user_id does not exist",
    "Error: It can't be done, since Alice's plan has ended":
      "Error: It can't be done, since Alice's plan has ended",
    "": "",
  };
  for (const [error, pattern] of Object.entries(patterns)) assertEquals(patternOf(error), pattern);
});

Deno.test("patternOf() drops what differs between errors of a cause", () => {
  const same: readonly (readonly string[])[] = [
    ["Error: job 1 took 5 s", "Error: job 22 took 1.5 minutes", "Error: job 3 took 900 ms"],
    [
      "Error: no user 'al'",
      `Error: no user "bo \\" b"`,
      "Error: no user `c`",
      "Error: no user “d”",
    ],
    ["Error: at 2026-01-31T14:03:02.123Z", "Error: at 2026-02-01 09:00:00", "Error: at 2026-02-01"],
    ["Error: ids [1, 2, 3] are gone", "Error: ids [4] are gone"],
    ['Error: got {"a":{"b":1}}', "Error: got {}", 'Error: got {"a":"cut off'],
    [
      "Error: no commit 3f2a91c",
      "Error: no commit 3f2a91cb04d7",
      `Error: no commit ${"ab1".repeat(13)}c`,
    ],
    ["Error: cannot read /home/a/b.json", "Error: cannot read C:\\x\\y.json"],
    ["Error: no session 0192f3a4-5b6c-7d8e-9fa0-b1c2d3e4f506", "Error: no session x1y2z3"],
    ["Error: sent to a@b.example", "Error: sent to first.last+tag@mail.example.org"],
  ];
  for (const errors of same) {
    assertEquals(new Set(errors.map(patternOf)).size, 1, errors.map(patternOf).join("\n"));
  }
});

Deno.test("problemIdOf() keeps handlers and sources apart", () => {
  const id = problemIdOf(ORIGIN, "Error: no");
  assertMatch(id, /^[0-9a-f]{16}$/);
  assert(isProblemId(id));
  assertNotEquals(problemIdOf({ ...ORIGIN, handler: "issues" }, "Error: no"), id);
  assertNotEquals(problemIdOf({ ...ORIGIN, source: "telegram" }, "Error: no"), id);
  assertEquals([isProblemId(""), isProblemId("../x"), isProblemId(7)], [false, false, false]);
});

Deno.test("a hostile error is normalized at once", () => {
  const texts = [
    '"'.repeat(1_000),
    "{".repeat(1_000),
    "a/".repeat(500),
    "1-".repeat(500),
    "::".repeat(500),
    "'".repeat(1_000),
    "\\".repeat(1_000),
    "#,".repeat(500),
    "a.b@".repeat(250),
  ];
  const start = performance.now();
  for (const text of texts) assert(patternOf(`Error: ${text}`).length <= 300);
  assert(performance.now() - start < 1_000);
});
