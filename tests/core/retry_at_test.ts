import { assertEquals } from "@std/assert";
import { type LimitedAnswer, retryAtOf } from "../../core/retry_at.ts";

const NOW = Date.UTC(2030, 0, 1);

/** The server's clock is a minute ahead. */
const AHEAD = { Date: "Tue, 01 Jan 2030 00:01:00 GMT" } as const;

const answer = (status: number, headers: Record<string, string> = {}) =>
  new Response(null, { status, headers });

const NO_MORE = { "x-ratelimit-remaining": "0", "x-ratelimit-reset": String(NOW / 1_000 + 90) };

const CASES: readonly (readonly [name: string, answer: LimitedAnswer, afterMs?: number])[] = [
  ["seconds", answer(429, { "Retry-After": "30" }), 30_000],
  ["seconds with a fraction", answer(429, { "Retry-After": "1.5" }), 1_500],
  ["seconds, by another clock", answer(403, { "Retry-After": "30", ...AHEAD }), 30_000],
  ["a date", answer(503, { "Retry-After": "Tue, 01 Jan 2030 00:01:30 GMT" }), 90_000],
  [
    "a date, by another clock",
    answer(503, { "Retry-After": "Tue, 01 Jan 2030 00:01:30 GMT", ...AHEAD }),
    30_000,
  ],
  ["a date that is over", answer(429, { "Retry-After": "Mon, 01 Jan 2029 00:00:00 GMT" }), 0],
  ["no date", answer(429, { "Retry-After": "soon" })],
  ["no refusal", answer(202, { "Retry-After": "30" })],
  ["nothing", answer(429)],
  ["GitHub's reset", answer(403, NO_MORE), 90_000],
  ["GitHub's reset, by another clock", answer(403, { ...NO_MORE, ...AHEAD }), 30_000],
  ["GitHub's reset, with the last call", answer(200, NO_MORE), 90_000],
  ["Retry-After before GitHub's reset", answer(403, { ...NO_MORE, "Retry-After": "5" }), 5_000],
  ["a call that is left", answer(200, { ...NO_MORE, "x-ratelimit-remaining": "1" })],
  ["a reset that is no time", answer(403, { ...NO_MORE, "x-ratelimit-reset": "later" })],
  [
    "an error of Octokit",
    { status: 403, response: { headers: { ...NO_MORE, date: undefined } } },
    90_000,
  ],
  ["headers of an object", { status: 429, headers: { "retry-after": 7 } }, 7_000],
  ["an error of grammY", { parameters: { retry_after: 3 } }, 3_000],
  ["an error of grammY without a time", { parameters: {} }],
  ["nothing at all", {}],
  ["a grammY time that is none", { parameters: { retry_after: NaN } }],
  ["a grammY time that is over", { parameters: { retry_after: -1e12 } }, 0],
  ["a grammY time without end", { parameters: { retry_after: Infinity } }, 8.64e15 - NOW],
  ["seconds without end", answer(429, { "Retry-After": "9".repeat(400) }), 8.64e15 - NOW],
  [
    "a reset without end",
    answer(429, { ...NO_MORE, "x-ratelimit-reset": "9".repeat(30) }),
    8.64e15 - NOW,
  ],
  ["headers of HTTP/2", { headers: { ":status": 429, "Retry-After": 7 } }, 7_000],
];

for (const [name, answer, afterMs] of CASES) {
  Deno.test(`retryAtOf() reads ${name}`, () => {
    assertEquals(retryAtOf(answer, NOW), afterMs === undefined ? undefined : NOW + afterMs);
  });
}
