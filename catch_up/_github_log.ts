import { retryAfterOf } from "../core/retry_after.ts";
import type { GithubClient, GithubHook } from "./catch_up.ts";
import { API_VERSION, limitPauseOf, MAX_PAGES, nextPageOf } from "./github_answers.ts";

/** Longest wait for one answer of the API. */
const CALL_MS = 30_000;

/** Pauses before a call that failed is made again. */
const RETRY_MS = [1_000, 5_000] as const;

/** Longest pause that is waited for: a primary rate limit can be an hour. */
const MAX_PAUSE_MS = 300_000;

/** One attempt to deliver, as the log has it. */
export interface LoggedAttempt {
  /** Number of the attempt, as a text: it is often beyond 2^53. */
  readonly id: string;
  readonly guid: string;
  readonly deliveredAt: number;
  readonly status: number;
  /** True if somebody has asked for it: there was an attempt before. */
  readonly isRedelivery: boolean;
}

/** Time for which GitHub delivers once more what it is asked for, in milliseconds. */
export const KEPT_MS = 3 * 86_400_000;

/** Webhook that was found, with the paths of the API that belong to it. */
export interface FoundHook {
  readonly name: string;
  readonly deliveries: string;
}

/** Client, end and clock of the calls. */
export interface CallContext {
  readonly octokit: GithubClient;
  readonly signal: AbortSignal;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
}

/** Error of a call of GitHub's API. The message is one line. */
export class GithubCallError extends Error {
  override readonly name = "GithubCallError";
  /** Status of the answer; undefined if there was none. */
  readonly status: number | undefined;

  constructor(message: string, status?: number) {
    super(message);
    this.status = status;
  }
}

type Answer = Awaited<ReturnType<GithubClient["request"]>>;

/** Finds the webhooks that are meant: the one with the id, those with the URL, or the only one. */
export async function findHooks(context: CallContext, hook: GithubHook): Promise<FoundHook[]> {
  if ("app" in hook) return [{ name: "the GitHub App", deliveries: "/app/hook/deliveries" }];
  const owner = "repository" in hook ? `/repos/${hook.repository}` : `/orgs/${hook.organization}`;
  const name = "repository" in hook ? hook.repository : hook.organization;
  const found = (id: string) => ({
    name: `${name}, webhook ${id}`,
    deliveries: `${owner}/hooks/${id}/deliveries`,
  });
  if (hook.id !== undefined) return [found(String(hook.id))];
  const all: { id: string; url: string }[] = [];
  for await (const { elements } of pages(context, `${owner}/hooks`, name)) {
    for (const { id, config } of elements) {
      all.push({ id: String(id), url: Object(config).url ?? "" });
    }
  }
  const meant = hook.url === undefined
    ? all
    : all.filter(({ url }) => URL.parse(url)?.href === URL.parse(hook.url!)?.href);
  if (meant.length > 0 && (hook.url !== undefined || meant.length === 1)) {
    return meant.map(({ id }) => found(id));
  }
  const ids = all.map(({ id, url }) => `${id} (${URL.parse(url)?.host ?? "?"})`).join(", ");
  if (all.length === 0) throw new GithubCallError(`${name} has no webhook`);
  throw new GithubCallError(
    hook.url === undefined
      ? `${name} has several webhooks, choose one by its id or URL: ${ids}`
      : `${name} has no webhook with this URL, only ${ids}`,
  );
}

/** The time by which entries of the log may be out of order, in milliseconds: chosen. */
const DISORDER_MS = 300_000;

/** Most pages that are read beyond the time asked for, of 100 attempts each. */
const MAX_MORE = 20;

/**
 * Reads the attempts of a webhook, the newest first, down to a time; and on to the first attempts of those that
 * have failed when somebody asked for them again, up to 20 pages: an attempt before may have succeeded.
 *
 * @returns The attempts, with older ones that were read with them, and the time by GitHub's clock.
 */
export async function readLog(
  context: CallContext,
  { name, deliveries }: FoundHook,
  sinceMs: number,
): Promise<{ attempts: LoggedAttempt[]; now: number }> {
  const attempts: LoggedAttempt[] = [];
  let now: number | undefined;
  let more = 0;
  for await (const { elements, date } of pages(context, deliveries, name)) {
    now ??= date;
    const page = elements.map(attemptOf);
    attempts.push(...page);
    const reaches = (ms: number) => page.some(({ deliveredAt }) => deliveredAt < now! - ms);
    if (!reaches(sinceMs + DISORDER_MS)) continue;
    if (reaches(KEPT_MS) || ++more > MAX_MORE || !lacksFirst(attempts, now - sinceMs)) break;
  }
  return { attempts, now: now ?? Date.now() };
}

/** Checks whether a delivery has failed since a time, and none of its attempts that were read is the first. */
function lacksFirst(attempts: readonly LoggedAttempt[], since: number): boolean {
  const groups = Map.groupBy(attempts, ({ guid }) => guid).values();
  return groups.some((group) =>
    group.some(({ deliveredAt }) => deliveredAt >= since) &&
    group.every(({ isRedelivery, status }) => isRedelivery && !isSuccess(status))
  );
}

/** Checks whether a status says that a delivery was accepted. */
export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/** Asks GitHub to deliver once more. */
export async function askAgain(
  context: CallContext,
  { name, deliveries }: FoundHook,
  id: string,
): Promise<void> {
  const { status } = await call(context, `POST ${deliveries}/${id}/attempts`, {}, name);
  if (status !== 202) throw new GithubCallError(`GitHub's API answers ${status}`, status);
}

/** Page of a list: its elements, and the time of the answer. */
interface Page {
  readonly elements: readonly Readonly<Record<string, unknown>>[];
  readonly date: number;
}

async function* pages(context: CallContext, path: string, name: string): AsyncGenerator<Page> {
  let query: Readonly<Record<string, string>> | undefined = { per_page: "100" };
  for (let count = 0; query !== undefined; count++) {
    if (count >= MAX_PAGES) throw new GithubCallError(`The list of ${name} has no end`);
    const { data, headers }: Answer = await call(context, `GET ${path}`, query, name);
    const elements = listOf(data);
    const date = Date.parse(String(headers.date ?? ""));
    yield { elements, date: Number.isNaN(date) ? Date.now() : date };
    query = nextPageOf(String(headers.link ?? ""));
    if (query !== undefined && Object.keys(query).length === 0) {
      throw new GithubCallError(
        "GitHub's API answers in an unknown form, with a next page of no name",
      );
    }
  }
}

function listOf(data: unknown): Page["elements"] {
  if (Array.isArray(data) && data.every((each) => typeof each === "object" && each !== null)) {
    return data;
  }
  throw new GithubCallError("GitHub's API answers in an unknown form, with no list");
}

function attemptOf(entry: Readonly<Record<string, unknown>>): LoggedAttempt {
  const { id, guid, delivered_at, status_code, redelivery } = entry;
  const deliveredAt = Date.parse(String(delivered_at));
  // Ids are often beyond 2^53: octokit reads those as a bigint, and old versions of it round them.
  if (typeof id === "number" && !Number.isSafeInteger(id)) {
    throw new GithubCallError(
      "Cannot catch up: 'github' must be an octokit of @octokit/core 7 or later, got one that rounds the ids of deliveries",
    );
  }
  const isKnown = /^\d{1,20}$/.test(String(id)) && typeof guid === "string" &&
    /^[\x21-\x7e]{1,200}$/.test(guid) && !Number.isNaN(deliveredAt);
  if (!isKnown) {
    throw new GithubCallError(
      "GitHub's API answers in an unknown form, with a delivery without guid",
    );
  }
  const status = Number(status_code ?? 0);
  return { id: String(id), guid, deliveredAt, status, isRedelivery: redelivery === true };
}

async function call(
  { octokit, signal, sleep }: CallContext,
  route: string,
  query: Readonly<Record<string, string>>,
  name: string,
): Promise<Answer> {
  for (let count = 0;; count++) {
    signal.throwIfAborted();
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(CALL_MS)]);
    try {
      return checkNoRedirect(
        await octokit.request(route, {
          ...query,
          headers: { "x-github-api-version": API_VERSION },
          request: { signal: deadline, redirect: "manual" },
        }),
      );
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof GithubCallError) throw error;
      const pauseMs = pauseOf(error, count);
      if (pauseMs === undefined || count >= RETRY_MS.length || pauseMs > MAX_PAUSE_MS) {
        throw explained(error, name, pauseMs);
      }
      await sleep(pauseMs, signal);
    }
  }
}

/**
 * Refuses an answer that is a redirect. It is not followed, since the token would go with it.
 *
 * @param answer The answer.
 * @returns The answer.
 * @throws {GithubCallError} If it is a redirect.
 */
export function checkNoRedirect<T extends Pick<Answer, "status" | "headers">>(answer: T): T {
  const { status, headers } = answer;
  if (!(status >= 300 && status < 400)) return answer;
  const host = URL.parse(String(headers.location ?? ""), "http://elsewhere")?.host ?? "elsewhere";
  throw new GithubCallError(
    `GitHub's API answers ${status}, a redirect to ${host}, which is not followed: the repository may have ` +
      "another name now, or the address of the API is another one",
    status,
  );
}

/** Finds how long to wait before the call is made again; undefined if that would not help. */
function pauseOf(error: unknown, count: number): number | undefined {
  const { status, headers } = answerIn(error);
  const retryMs = RETRY_MS[Math.min(count, RETRY_MS.length - 1)]!;
  const now = Date.now();
  if (status === undefined || status >= 500) {
    return Math.max(retryMs, retryAfterOf(headers, now) ?? 0);
  }
  const message = String(Object(error).message);
  return limitPauseOf({ status, headers, message }, now);
}

/** Reads the answer that an error of octokit holds. It gives the status 500 to calls without one. */
function answerIn(error: unknown): { status?: number; headers: Headers } {
  const { response } = Object(error);
  if (response === undefined) return { headers: new Headers() };
  // A client of the caller's own may have anything here.
  const sent = Object.entries(Object(response.headers)).filter((each): each is [string, string] =>
    /^[\w-]+$/.test(each[0]) && /^[ -~]*$/.test(String(each[1]))
  );
  return { status: response.status, headers: new Headers(sent) };
}

function explained(error: unknown, name: string, pauseMs: number | undefined): GithubCallError {
  const { status } = answerIn(error);
  const message = String(Object(error).message ?? error).replaceAll(/\s+/g, " ")
    .replaceAll(/\w+:\/\/\S+/g, "").slice(0, 300);
  if (status === undefined) {
    return new GithubCallError(`GitHub's API cannot be reached for ${name}: ${message}`);
  }
  const what = `GitHub's API answers ${status} for ${name}: ${message.trim()}`;
  if (pauseMs !== undefined && status < 500) {
    return new GithubCallError(
      `${what}: it takes calls in ${Math.ceil(pauseMs / 1_000)} s`,
      status,
    );
  }
  const hint = hintOf(status, name);
  return new GithubCallError(hint === undefined ? what : `${what}: ${hint}`, status);
}

function hintOf(status: number, name: string): string | undefined {
  const isApp = name === "the GitHub App";
  if (status === 401) {
    return isApp ? "the app's id or its private key is wrong" : "the token is wrong or has expired";
  }
  if (status === 403) {
    return "the token lacks the permission Webhooks (read and write), or the scope " +
      "admin:repo_hook or admin:org_hook";
  }
  if (status !== 404) return undefined;
  return isApp
    ? "the app has no webhook"
    : "it was deleted, or the token may not see it, which needs the permission Webhooks " +
      "(read and write), or the scope admin:repo_hook or admin:org_hook";
}
