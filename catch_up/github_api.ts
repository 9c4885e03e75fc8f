/**
 * GitHub's REST API for webhooks and their delivery logs: its calls, pages, limits and errors. `catchUp` and
 * `connect github` use it.
 *
 * @module
 */
import { fieldOf } from "../core/parse_json.ts";
import { type ApiAnswer, ApiError, type Hints, quoted, unknownForm } from "../core/call_api.ts";
import { dateOf, retryAfterOf } from "../core/retry_at.ts";
import { elementsOf, memberOf } from "../core/json_text.ts";
import { type GithubCall, type SendCall, senderOf } from "./_github_calls.ts";
import { type CatchUpOptions, FORMS } from "./options.ts";

/** Name of the API in messages. */
export const GITHUB = "GitHub's API";

/** Most pages of one list: 100,000 entries. */
const MAX_PAGES = 1_000;

/** Parameters that lead from page to page. */
const PAGE_PARAMETERS = ["page", "per_page", "cursor"] as const;

/** Pause after a rate limit that names none, as GitHub's documentation asks for. */
const LIMIT_PAUSE_MS = 60_000;

/** Name of a delivery or its event, as a header carries it. */
const NAME = /^[\x21-\x7e]{1,200}$/;

const MOVED = "the repository may have another name now, or the address of the API is another one";

const PERMISSION =
  "the permission Webhooks (read and write), or the scope admin:repo_hook or admin:org_hook";

/** Hints for errors of a repository's or an organization's webhooks. */
const HINTS: Hints = {
  ...{ 301: MOVED, 302: MOVED, 307: MOVED, 308: MOVED },
  401: "the token is wrong or has expired",
  403: `the token lacks ${PERMISSION}`,
  404: `it does not exist or was deleted, or the token may not see it, which needs ${PERMISSION}`,
};

/** Hints for errors of a GitHub App's webhook. */
const APP_HINTS: Hints = {
  ...HINTS,
  401: "the app's id or its private key is wrong",
  404: "the app has no webhook",
};

/** Webhook, as it was read. */
export interface GithubHook {
  readonly id: string;
  readonly url: string;
  /** All that GitHub says about it. */
  readonly facts: Element;
}

/** Entry of a delivery log: one attempt to deliver. */
export interface GithubAttempt {
  /** Number of the attempt, as a text: it is often beyond 2^53. */
  readonly id: string;
  readonly guid: string;
  readonly event: string;
  readonly deliveredAt: number;
  readonly status: number;
  /** True if somebody asked for it, after an earlier attempt. */
  readonly isRedelivery: boolean;
}

/** Page of a list. */
interface GithubPage<T> {
  readonly elements: readonly T[];
  readonly headers: Headers;
}

/** Parts of a call beside its path. */
type CallOptions = Partial<Pick<GithubCall, "method" | "query" | "body" | "etag" | "hints">>;

/** Element of a list. Its id is a text; from the user's client it is a bigint or a number. */
type Element = Readonly<Record<string, unknown>>;

/** World of the calls. */
interface CallWorld {
  /** End of all calls. */
  readonly signal: AbortSignal;
  /** Reads the time. */
  readonly now: () => number;
  /** Makes a call, and repeats it if it fails. */
  readonly persist?: <T>(call: () => Promise<T>) => Promise<T>;
}

/** Opens the API for the webhooks of an owner: a repository, an organization or a GitHub App. */
export function openGithub(
  github: CatchUpOptions["github"],
  world: CallWorld,
): (owner: CatchUpOptions["hooks"][number]) => GithubWebhooks {
  const send = senderOf(github);
  return (owner) => new GithubWebhooks(send, owner, world);
}

/** Webhooks of an owner, and their delivery logs. */
export class GithubWebhooks {
  /** Name of the owner. */
  readonly owner: string;
  readonly #send: SendCall;
  readonly #path: string;
  readonly #hints: Hints;
  readonly #world: CallWorld;

  constructor(send: SendCall, owner: CatchUpOptions["hooks"][number], world: CallWorld) {
    this.#send = send;
    this.#world = world;
    this.#hints = "app" in owner ? APP_HINTS : HINTS;
    [this.owner, this.#path] = "app" in owner
      ? ["the GitHub App", "/app/hook"]
      : "repository" in owner
      ? [owner.repository, `/repos/${owner.repository}/hooks`]
      : [owner.organization, `/orgs/${owner.organization}/hooks`];
  }

  /**
   * Calls the API.
   *
   * @param path The path below the owner's webhooks.
   * @throws {ApiError} If it fails.
   */
  call(path: string, { hints, ...options }: CallOptions = {}): Promise<ApiAnswer> {
    const { signal, now, persist = (call) => call() } = this.#world;
    const call: GithubCall = {
      ...{ method: "GET", ...options, path: this.#path + path, signal },
      name: `${GITHUB} (${this.#nameOf(path)})`,
      hints: { ...this.#hints, ...hints },
    };
    return persist(async () => {
      const answer = await this.#send(call);
      if (answer.status < 400) return answer;
      throw refusalOf(call, answer, now());
    });
  }

  /** Reads the webhooks. */
  async hooks(): Promise<GithubHook[]> {
    const hooks: GithubHook[] = [];
    for await (const { elements } of this.#pages("")) hooks.push(...elements.map(hookOf));
    return hooks;
  }

  /**
   * Reads a delivery log, the newest attempt first. If the known version of its first page is the latest, there are
   * no pages.
   *
   * @param hook The id of the webhook; undefined for the only one of an app.
   * @param etag The version that is known.
   */
  async *log(hook: string | undefined, etag?: string): AsyncGenerator<GithubPage<GithubAttempt>> {
    for await (const { elements, headers } of this.#pages(logPath(hook), etag)) {
      yield { elements: elements.map(attemptOf), headers };
    }
  }

  async *#pages(path: string, etag?: string): AsyncGenerator<GithubPage<Element>> {
    let query: Readonly<Record<string, string>> | undefined = { per_page: "100" };
    for (let count = 0; query !== undefined; count++) {
      if (count >= MAX_PAGES) throw unknownForm(GITHUB, "a list without an end");
      const answer: ApiAnswer = await this.call(path, { query, ...count === 0 && { etag } });
      if (answer.status === 304) return;
      yield { elements: elementsIn(answer), headers: answer.headers };
      query = nextPageOf(answer.headers.get("Link") ?? "");
      if (query !== undefined && Object.keys(query).length === 0) {
        throw unknownForm(GITHUB, "a next page of no name");
      }
    }
  }

  #nameOf(path: string): string {
    const [, hook] = /^\/(\d+)/.exec(path) ?? [];
    return hook === undefined ? this.owner : `${this.owner}, webhook ${hook}`;
  }
}

/** Makes the path of a delivery log below its owner's webhooks. */
export function logPath(hook: string | undefined): string {
  return hook === undefined ? "/deliveries" : `/${hook}/deliveries`;
}

/** Lists webhooks, for a message that lets the user choose. */
export function listed(hooks: readonly GithubHook[]): string {
  return hooks.map(({ id, url }) => `${id} (${URL.parse(url)?.host ?? "?"})`).join(", ");
}

function refusalOf({ name, hints }: GithubCall, answer: ApiAnswer, now: number): ApiError {
  const { status, headers, json } = answer;
  const reason = quoted(fieldOf(json, "message"));
  const pauseMs = limitPauseOf(answer, reason, now);
  const parts = [reason, ...detailsOf(json)].filter((part) => part);
  const what = `${name} answers ${status} ${parts.join(", ").slice(0, 500)}`.trimEnd();
  if (pauseMs === undefined) {
    const retryAfterMs = retryAfterOf(headers, now);
    return new ApiError(what, { status, isTemporary: status >= 500, retryAfterMs, hints });
  }
  const limit = `${what}: it takes calls again in ${Math.ceil(pauseMs / 1_000)} s`;
  return new ApiError(limit, { status, isTemporary: true, retryAfterMs: pauseMs });
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

/** Reads the pause of a rate limit; undefined if the call was refused for another reason. */
function limitPauseOf(
  { status, headers }: ApiAnswer,
  message: string,
  now: number,
): number | undefined {
  if (status !== 403 && status !== 429) return undefined;
  const serverNow = dateOf(headers) ?? now;
  const pauseMs = retryAfterOf(headers, serverNow);
  if (pauseMs !== undefined) return pauseMs;
  if (headers.get("X-RateLimit-Remaining") === "0") {
    const reset = Number(headers.get("X-RateLimit-Reset") ?? NaN) * 1_000;
    return Number.isFinite(reset) ? Math.max(0, reset - serverNow) : LIMIT_PAUSE_MS;
  }
  return status === 429 || /rate limit/i.test(message) ? LIMIT_PAUSE_MS : undefined;
}

/**
 * Finds the next page of a list. Only the parameters of a page are read from its address: the token goes where the
 * first page came from, whatever the answer says.
 *
 * @param link The header `Link` of the answer.
 * @returns The parameters, none if the address has none; undefined if this is the last page.
 */
function nextPageOf(link: string): Readonly<Record<string, string>> | undefined {
  const next = link.split(/,\s*(?=<)/).find((each) => /;\s*rel="?next"?\s*(;|$)/i.test(each));
  if (next === undefined) return undefined;
  const target = /^\s*<([^<>]+)>/.exec(next)?.[1] ?? "";
  const query = URL.parse(target, "http://api")?.searchParams;
  return Object.fromEntries(
    PAGE_PARAMETERS.map((name) => [name, query?.get(name)]).filter(([, value]) => value),
  );
}

/** Reads the elements of a list. `JSON.parse` would round their ids. */
function elementsIn({ text, json }: ApiAnswer): Element[] {
  if (!Array.isArray(json) || json.some((each) => typeof each !== "object" || each === null)) {
    throw unknownForm(GITHUB, "no list");
  }
  if (text === "") return json;
  return elementsOf(text).map((each, i) => ({ ...json[i], id: memberOf(each, "id") }));
}

function hookOf(facts: Element): GithubHook {
  const [id, url] = [String(facts.id), fieldOf(facts.config, "url")];
  if (!FORMS.id[1].test(id)) throw unknownForm(GITHUB, "a webhook without id");
  return { id, url: typeof url === "string" ? url : "", facts };
}

function attemptOf(entry: Element): GithubAttempt {
  const { id, guid, event, delivered_at, status_code, redelivery } = entry;
  // Octokit reads ids beyond 2^53 as bigints, and old versions of it round them.
  if (typeof id === "number" && !Number.isSafeInteger(id)) {
    throw new ApiError(
      "Cannot catch up: 'github' must be an octokit of @octokit/core 7 or later, got one that rounds the ids of deliveries",
    );
  }
  const deliveredAt = Date.parse(quoted(delivered_at));
  const isKnown = FORMS.id[1].test(String(id)) && isName(guid) && isName(event) &&
    !Number.isNaN(deliveredAt);
  if (!isKnown) throw unknownForm(GITHUB, "a delivery without id, guid, event or time");
  const status = Number(status_code ?? 0);
  return { id: String(id), guid, event, deliveredAt, status, isRedelivery: redelivery === true };
}

function isName(value: unknown): value is string {
  return typeof value === "string" && NAME.test(value);
}
