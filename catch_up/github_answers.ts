/**
 * Limits and pages in the answers of GitHub's API. It has two clients here: octokit, and the one of `connect`, which
 * does without octokit.
 *
 * @module
 */
import { retryAfterOf } from "../core/retry_after.ts";

/** Version of the API that the answers are read as. */
export const API_VERSION = "2022-11-28";

/** Most pages of one list: 100,000 entries. */
export const MAX_PAGES = 1_000;

/** Pause after a rate limit that names none, as GitHub's documentation asks for. */
const LIMIT_PAUSE_MS = 60_000;

/** Refusal of a call. */
export interface GithubRefusal {
  /** Status of the answer. */
  readonly status: number;
  /** Headers of the answer. */
  readonly headers: Headers;
  /** Message of the answer. */
  readonly message: string;
}

/**
 * Reads how long GitHub takes no more calls.
 *
 * @param refusal The refusal.
 * @param now The time, milliseconds since the epoch. The answer's own `Date` goes first.
 * @returns The pause in milliseconds; undefined if a limit is not why GitHub refused the call.
 */
export function limitPauseOf(
  { status, headers, message }: GithubRefusal,
  now: number,
): number | undefined {
  if (status !== 403 && status !== 429) return undefined;
  const date = Date.parse(headers.get("Date") ?? "");
  const serverNow = Number.isNaN(date) ? now : date;
  const pauseMs = retryAfterOf(headers, serverNow);
  if (pauseMs !== undefined) return pauseMs;
  if (headers.get("X-RateLimit-Remaining") === "0") {
    const reset = Number(headers.get("X-RateLimit-Reset") ?? NaN) * 1_000;
    return Number.isFinite(reset) ? Math.max(0, reset - serverNow) : LIMIT_PAUSE_MS;
  }
  return status === 429 || /rate limit/i.test(message) ? LIMIT_PAUSE_MS : undefined;
}

/** Parameters that lead from page to page. */
const PAGE_PARAMETERS = ["page", "per_page", "cursor"] as const;

/**
 * Finds the next page of a list. Of its address only the parameters of a page are read: the token goes where
 * the first page came from, whatever the answer says.
 *
 * @param link The header `Link` of the answer.
 * @returns The parameters, none if the address has none; undefined if this is the last page.
 */
export function nextPageOf(link: string): Readonly<Record<string, string>> | undefined {
  const next = link.split(/,\s*(?=<)/).find((each) => /;\s*rel="?next"?\s*(;|$)/i.test(each));
  if (next === undefined) return undefined;
  const target = /^\s*<([^<>]+)>/.exec(next)?.[1] ?? "";
  const query = URL.parse(target, "http://api")?.searchParams;
  return Object.fromEntries(
    PAGE_PARAMETERS.map((name) => [name, query?.get(name)]).filter(([, value]) => value),
  );
}
