import { API_VERSION, limitPauseOf, MAX_PAGES, nextPageOf } from "../catch_up/github_answers.ts";
import { type ApiAnswer, ApiError, callApi, fieldOf, quoted } from "./_api.ts";
import type { ConnectOptions } from "./_connect_options.ts";
import { elementsOf } from "../core/json_text.ts";
import { retryAfterOf } from "../core/retry_after.ts";

/** Hints for errors, by their statuses. */
const HINTS: Readonly<Record<number, string>> = {
  301: "the repository has another name now, give that one",
  307: "the repository has another name now, give that one",
  308: "the repository has another name now, give that one",
  401: "the token in GITHUB_TOKEN is wrong or expired",
  403:
    "the token in GITHUB_TOKEN lacks a right, it needs the repository's permission Webhooks, or the " +
    "scope admin:repo_hook",
  404:
    "there is no such repository, or the token in GITHUB_TOKEN may not see its webhooks, which needs " +
    "the repository's permission Webhooks, or the scope admin:repo_hook",
  422:
    "GitHub refuses the webhook's settings: another one may have this URL, or the URL or an event " +
    "is unknown to it",
};

/** Further parts of a call. */
interface CallOptions {
  readonly method?: "GET" | "POST" | "PATCH";
  readonly body?: object;
  /** Version of the answer that is known already: if there is no newer one, the answer is 304. */
  readonly etag?: string | undefined;
}

/** Page of a list. */
export interface Page {
  /** Answer that the page comes from. */
  readonly answer: ApiAnswer;
  /** Elements, as they were written. */
  readonly elements: readonly string[];
}

/** GitHub's REST API, for a repository's webhooks. */
export class GithubApi {
  readonly #options: ConnectOptions;
  readonly #now: () => number;

  constructor(options: ConnectOptions, now: () => number) {
    this.#options = options;
    this.#now = now;
  }

  /**
   * Calls the API.
   *
   * @param path The path below the repository's webhooks.
   * @throws {ApiError} If it fails.
   */
  async call(path: string, signal: AbortSignal, options: CallOptions = {}): Promise<ApiAnswer> {
    const { method = "GET", body, etag } = options;
    const { api, token, repository } = this.#options;
    const url = `${api}/repos/${repository}/hooks${path}`;
    const answer = await callApi({
      ...{ name: "GitHub's API", url, method, signal },
      headers: {
        ...{ Accept: "application/vnd.github+json", Authorization: `Bearer ${token}` },
        ...{ "User-Agent": "edge-base-cli", "X-GitHub-Api-Version": API_VERSION },
        ...body !== undefined && { "Content-Type": "application/json" },
        ...etag !== undefined && { "If-None-Match": etag },
      },
      ...body !== undefined && { body: JSON.stringify(body) },
    }).catch((error) => {
      throw error instanceof ApiError ? withHint(error) : error;
    });
    if (answer.status < 400) return answer;
    throw this.#refusalOf(answer);
  }

  /**
   * Reads a list page by page. If a version of the first page is known and there is no newer one, there are
   * no pages.
   */
  async *pages(path: string, signal: AbortSignal, etag?: string): AsyncGenerator<Page> {
    let query: Readonly<Record<string, string>> | undefined = { per_page: "100" };
    for (let count = 0; query !== undefined; count++) {
      if (count >= MAX_PAGES) throw unknownForm("a list without an end");
      const page = `${path}?${new URLSearchParams(query)}`;
      const answer: ApiAnswer = await this.call(page, signal, count === 0 ? { etag } : {});
      if (answer.status === 304) return;
      if (!Array.isArray(answer.json)) throw unknownForm("no list");
      yield { answer, elements: elementsOf(answer.text) };
      query = nextPageOf(answer.headers.get("Link") ?? "");
      if (query !== undefined && Object.keys(query).length === 0) {
        throw unknownForm("a next page of no name");
      }
    }
  }

  #refusalOf(answer: ApiAnswer): ApiError {
    const { status, headers, json } = answer;
    const reason = quoted(fieldOf(json, "message"));
    const now = this.#now();
    const pauseMs = limitPauseOf({ status, headers, message: reason }, now);
    const message = [reason, ...detailsOf(json)].filter((part) => part);
    const what = `GitHub's API answers ${status} ${message.join(", ").slice(0, 500)}`.trimEnd();
    if (pauseMs === undefined) {
      const [isTemporary, retryAfterMs] = [status >= 500, retryAfterOf(headers, now)];
      return withHint(new ApiError(what, { status, isTemporary, retryAfterMs }));
    }
    const limit = `${what}: it takes calls again in ${Math.ceil(pauseMs / 1_000)} s`;
    return new ApiError(limit, { status, isTemporary: true, retryAfterMs: pauseMs });
  }
}

/** Makes the error of an answer that is not as documented. */
export function unknownForm(what: string): ApiError {
  return new ApiError(`GitHub's API answers in an unknown form, with ${what}: is --api right?`);
}

/** Reads what GitHub finds wrong: each problem has a message, or a field with a code. */
function detailsOf(json: unknown): string[] {
  const errors = fieldOf(json, "errors");
  if (!Array.isArray(errors)) return [];
  return errors.slice(0, 5).map((each) =>
    quoted(each) || quoted(fieldOf(each, "message")) ||
    `${quoted(fieldOf(each, "field"))} ${quoted(fieldOf(each, "code"))}`.trim()
  );
}

function withHint(error: ApiError): ApiError {
  const { status = 0, isTemporary, retryAfterMs } = error;
  const hint = HINTS[status];
  if (hint === undefined) return error;
  return new ApiError(`${error.message}: ${hint}`, { status, isTemporary, retryAfterMs });
}
