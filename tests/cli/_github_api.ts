/** Token that {@linkcode FakeGithub} accepts. */
export const GITHUB_TOKEN = "ghp_token-for-tests-only-0123456789";

/** Request that was made. */
export interface GithubCall {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: Headers;
  // deno-lint-ignore no-explicit-any -- Each test looks into a document of another shape.
  readonly body: any;
  /** Status of the answer. */
  status?: number;
}

/** Delivery in the log of a webhook. */
export interface LoggedDelivery {
  /** Its id, a number that may be beyond 2^53. */
  readonly id: string;
  readonly guid: string;
  readonly event: string;
  /** Its payload, as it is written. */
  readonly payload: string;
  readonly deliveredAt?: number;
  readonly redelivery?: boolean;
}

interface Hook {
  readonly id: number;
  readonly name: string;
  active: boolean;
  events: string[];
  config: Record<string, unknown>;
  readonly last_response: object;
}

/**
 * GitHub's REST API on this machine, for the webhooks of the repository `acme/site`, which answers as
 * https://docs.github.com/rest/repos/webhooks describes.
 */
export class FakeGithub implements AsyncDisposable {
  readonly calls: GithubCall[] = [];
  /** Answers that are given before any other, each once, to paths that match. */
  readonly insteadOf: [RegExp, () => Response][] = [];
  readonly hooks: Hook[] = [];
  /** Largest page, whatever is asked for. */
  pageSize = 100;
  readonly url: string;
  /** Newest first. */
  readonly #log: LoggedDelivery[] = [];
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  constructor(...urls: string[]) {
    const quiet = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
    this.#server = Deno.serve(quiet, (request) => this.#record(request));
    this.url = `http://127.0.0.1:${this.#server.addr.port}`;
    for (const url of urls) this.add(url);
  }

  /** Adds a webhook. */
  add(url: string): void {
    this.#add({ config: { url }, events: ["push"] });
  }

  /** Adds a delivery to the log. */
  push(delivery: LoggedDelivery): void {
    this.#log.unshift({ deliveredAt: Date.now(), ...delivery });
  }

  /** The requests whose path matches. */
  callsOf(path: RegExp, method = "GET"): GithubCall[] {
    return this.calls.filter((call) => call.method === method && path.test(call.path));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }

  async #record(request: Request): Promise<Response> {
    const { pathname, search } = new URL(request.url);
    const { method, headers } = request;
    const text = await request.text();
    const body = text === "" ? undefined : JSON.parse(text);
    const call: GithubCall = { method, path: pathname + search, headers, body };
    this.calls.push(call);
    const instead = this.insteadOf.findIndex(([path]) => path.test(call.path));
    const response = instead < 0 ? this.#answer(call) : this.insteadOf.splice(instead, 1)[0]![1]();
    call.status = response.status;
    return response;
  }

  #answer({ method, path, headers, body }: GithubCall): Response {
    if (headers.get("Authorization") !== `Bearer ${GITHUB_TOKEN}`) {
      return problem(401, "Bad credentials");
    }
    const { pathname, searchParams } = new URL(path, this.url);
    const [, rest] = /^\/repos\/acme\/site\/hooks(.*)$/.exec(pathname) ?? [];
    const [, hook, , deliveries, id] =
      /^(?:\/(\d+)(\/(deliveries)(?:\/(\d+))?)?)?$/.exec(rest ?? "-") ?? [];
    if (rest === undefined) return problem(404, "Not Found");
    if (hook === undefined) {
      return method === "POST"
        ? this.#create(body)
        : this.#page(this.hooks.map(shown), pathname, searchParams);
    }
    const found = this.hooks.find((each) => String(each.id) === hook);
    if (found === undefined) return problem(404, "Not Found");
    if (method === "PATCH") return this.#change(found, body);
    if (deliveries === undefined) return Response.json(found);
    if (id === undefined) return this.#deliveries(pathname, searchParams, headers);
    const delivery = this.#log.find((each) => each.id === id);
    return delivery === undefined ? problem(404, "Not Found") : detail(delivery);
  }

  #create(body: Partial<Hook>): Response {
    const problems = this.#problemsOf(body.config?.url);
    if (problems.length > 0) return problem(422, "Validation Failed", problems);
    return Response.json(shown(this.#add(body)), { status: 201 });
  }

  #change(hook: Hook, { events = ["push"], active, config }: Partial<Hook>): Response {
    Object.assign(hook, { events, active: active ?? hook.active, config: config ?? hook.config });
    return Response.json(shown(hook));
  }

  #problemsOf(url: unknown): object[] {
    if (this.hooks.every((each) => each.config.url !== url)) return [];
    const message = "Hook already exists on this repository";
    return [{ resource: "Hook", code: "custom", message }];
  }

  #add({ events = ["push"], active = true, config = {} }: Partial<Hook>): Hook {
    const hook = {
      ...{ id: 12345678 + this.hooks.length, name: "web", active, events, config },
      last_response: { code: null, status: "unused", message: null },
    };
    this.hooks.push(hook);
    return hook;
  }

  #deliveries(path: string, params: URLSearchParams, headers: Headers): Response {
    const etag = `W/"${this.#log.length}-${this.#log[0]?.id}"`;
    if (headers.get("If-None-Match") === etag) return new Response(null, { status: 304 });
    const response = this.#page(this.#log.map(entry), path, params);
    response.headers.set("ETag", etag);
    return response;
  }

  /** Makes a page of a list, and links to the next one. */
  #page(all: readonly string[], path: string, params: URLSearchParams): Response {
    const size = Math.min(this.pageSize, Number(params.get("per_page") ?? 30));
    const start = Number(params.get("cursor") ?? 0);
    const next = `<${this.url}${path}?per_page=${size}&cursor=${start + size}>; rel="next"`;
    const link = start + size < all.length
      ? { Link: `<${this.url}/first>; rel="first", ${next}` }
      : {};
    return new Response(`[${all.slice(start, start + size).join(",\n  ")}]`, {
      headers: { "Content-Type": "application/json; charset=utf-8", ...link },
    });
  }
}

/** Makes the answer to a request that failed. */
export function problem(status: number, message: string, errors?: object[]): Response {
  return Response.json({ message, ...errors && { errors }, status: String(status) }, { status });
}

function shown(hook: Hook): string {
  return JSON.stringify({ ...hook, config: { ...hook.config, secret: "********" } });
}

function entry({ id, guid, event, deliveredAt, redelivery = false }: LoggedDelivery): string {
  const delivered_at = new Date(deliveredAt!).toISOString();
  const rest = { guid, delivered_at, redelivery, event, status: "OK", status_code: 200 };
  return `{"id": ${id}, ${JSON.stringify({ ...rest, repository_id: 123 }).slice(1)}`;
}

function detail(delivery: LoggedDelivery): Response {
  const headers = {
    ...{
      Accept: "*/*",
      "content-type": "application/json",
      "User-Agent": "GitHub-Hookshot/044aadd",
    },
    ...{ "X-GitHub-Delivery": delivery.guid, "X-GitHub-Event": delivery.event },
    ...{ "X-GitHub-Hook-ID": "12345678", "X-Hub-Signature-256": `sha256=${"0".repeat(64)}` },
  };
  const request = `{"headers": ${JSON.stringify(headers)}, "payload": ${delivery.payload}}`;
  const response = `{"headers": {}, "payload": "OK"}`;
  return new Response(
    `${entry(delivery).slice(0, -1)}, "request": ${request}, "response": ${response}}`,
  );
}
