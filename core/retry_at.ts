/**
 * Answers of services that limit their callers.
 *
 * @module
 */

/** Latest time of a date, milliseconds since the epoch. */
const LAST_TIME = 8.64e15;

/** Names of the headers that are read. */
const NAMES = ["retry-after", "date", "x-ratelimit-remaining", "x-ratelimit-reset"];

/**
 * Answer of a service, or the error that a client makes of it.
 *
 * @category Flows
 */
export interface LimitedAnswer {
  /** Its status. */
  readonly status?: number | undefined;
  /** Its headers, as `fetch` has them or as an object. */
  readonly headers?: Headers | Readonly<Record<string, string | number | undefined>> | undefined;
  /** The answer, in an error of Octokit. */
  readonly response?: Pick<LimitedAnswer, "headers"> | undefined;
  /** Telegram's parameters of a refusal, in an error of grammY. */
  readonly parameters?: { readonly retry_after?: number | undefined } | undefined;
}

/**
 * Reads the time before which a service wants no more calls: from `Retry-After` of a refusal, seconds or a date; from
 * `x-ratelimit-reset` if `x-ratelimit-remaining` is 0, as GitHub sends it, also with the last call that succeeds; or
 * from an error of grammY. If the answer has a `Date`, a clock of this machine that is wrong does not matter.
 *
 * GitHub's secondary limits need not say a time. Then wait for a minute at least.
 *
 * @param answer A `Response`, or an error of Octokit or grammY.
 * @param now The time of this machine, milliseconds since the epoch.
 * @returns The time, milliseconds since the epoch; undefined if the service names none.
 *
 * @example
 * ```ts
 * import { retryAtOf } from "@org/edge-base/events";
 * import { assertEquals } from "@std/assert";
 *
 * const answer = new Response(null, { status: 429, headers: { "Retry-After": "30" } });
 * assertEquals(retryAtOf(answer, 1_000), 31_000);
 * ```
 *
 * @category Flows
 */
export function retryAtOf(answer: LimitedAnswer, now: number = Date.now()): number | undefined {
  const afterMs = afterMsOf(answer, now);
  // `take.later` refuses what no date can be, and a service may send anything.
  return afterMs === undefined ? undefined : Math.min(LAST_TIME, now + Math.max(0, afterMs));
}

/** Reads for how long the service wants no more calls, in milliseconds; undefined if it does not say. */
function afterMsOf(answer: LimitedAnswer, now: number): number | undefined {
  const { status = 429, parameters } = answer;
  const seconds = parameters?.retry_after;
  if (typeof seconds === "number" && !Number.isNaN(seconds)) return 1_000 * seconds;
  const headers = headersOf(answer);
  const serverNow = dateOf(headers) ?? now;
  const afterMs = status < 400 ? undefined : retryAfterOf(headers, serverNow);
  if (afterMs !== undefined) return afterMs;
  const reset = headers.get("x-ratelimit-reset")?.trim() ?? "";
  if (headers.get("x-ratelimit-remaining")?.trim() !== "0" || !/^\d+$/.test(reset)) {
    return undefined;
  }
  return 1_000 * Number(reset) - serverNow;
}

function headersOf({ headers, response }: LimitedAnswer): Headers {
  const given = headers ?? response?.headers ?? {};
  if (given instanceof Headers) return given;
  // Others may have names that `Headers` refuses, such as `:status` of HTTP/2.
  const known = Object.entries(given)
    .filter(([name, value]) => value !== undefined && NAMES.includes(name.toLowerCase()));
  return new Headers(known.map(([name, value]) => [name, String(value)]));
}

/**
 * Reads the pause that `Retry-After` asks for: seconds, or a date.
 *
 * @param headers The headers of the answer.
 * @param now The time by the server's clock, milliseconds since the epoch.
 * @returns The pause in milliseconds; undefined if there is none.
 */
export function retryAfterOf(headers: Headers, now: number): number | undefined {
  const text = headers.get("Retry-After")?.trim();
  if (!text) return undefined;
  // Some services send a fraction, which `Date.parse` takes for a day.
  const ms = /^\d+(?:\.\d+)?$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - now;
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}

/** Reads the time of an answer, by the server's clock; undefined if it has none. */
export function dateOf(headers: Headers): number | undefined {
  const time = Date.parse(headers.get("Date") ?? "");
  return Number.isNaN(time) ? undefined : time;
}
