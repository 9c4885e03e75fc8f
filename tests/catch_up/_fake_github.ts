import { Buffer } from "node:buffer";
import { type KeyObject, verify } from "node:crypto";
import { Ajv } from "ajv";
import { forgeDelivery, TEST_SECRETS } from "../../testing/mod.ts";
import description from "./github_openapi.json" with { type: "json" };

/** Token that {@linkcode FakeGithub} accepts. */
export const GITHUB_TOKEN = "ghp_token-for-tests-only-0123456789";

/** Token of an installation of the app. */
const INSTALLATION_TOKEN = "ghs_token-for-tests-only-0123456789";

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

/** Attempt in the delivery log. */
export interface LoggedDelivery {
  /** Its id, a number that may be beyond 2^53. */
  readonly id: string;
  readonly guid: string;
  readonly status: number;
  readonly event: string;
  /** Its payload, as it is written. */
  readonly payload: string;
  readonly deliveredAt: number;
  readonly redelivery: boolean;
}

interface Hook {
  readonly id: number;
  active: boolean;
  events: string[];
  config: Record<string, unknown>;
}

// deno-lint-ignore no-explicit-any -- The description is a tree of any form.
const root: any = description;
const ajv = new Ajv({ strict: false, validateFormats: false, allErrors: true });
// OpenAPI 3.0 has a word of its own for null.
ajv.addSchema(
  JSON.parse(JSON.stringify(root), (_, value) => {
    if (value?.nullable !== true || typeof value.type !== "string") return value;
    const { nullable: _nullable, type, ...rest } = value;
    return { ...rest, type: [type, "null"] };
  }),
  "github",
);

/**
 * GitHub's API on this machine, for webhooks of `acme/site`, the organization `acme` and an app. Requests and
 * answers of the operations for catching up are held to GitHub's OpenAPI description.
 */
export class FakeGithub implements AsyncDisposable {
  readonly hooks: Hook[] = [];
  readonly calls: GithubCall[] = [];
  /** Deviations from the description. */
  readonly deviations: string[] = [];
  /** Answers that are given before any other, each once, to calls that match. */
  readonly insteadOf: [RegExp, () => Response][] = [];
  readonly url: string;
  /** Address that deliveries are posted to; undefined for none. */
  app: string | undefined;
  /** Largest page, whatever is asked for. */
  pageSize = 100;
  /** GitHub App, whose requests must be signed. */
  signedBy: { readonly appId: string; readonly publicKey: KeyObject } | undefined;
  /** Difference of its clock. */
  clockMs = 0;
  /** Newest first. */
  #log: LoggedDelivery[] = [];
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  constructor(...urls: string[]) {
    const quiet = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
    this.#server = Deno.serve(quiet, (request) => this.#handle(request));
    this.url = `http://127.0.0.1:${this.#server.addr.port}`;
    for (const url of urls) this.add(url);
  }

  /** Adds a webhook. */
  add(url: string): void {
    this.#add({ config: { url } });
  }

  /** Logs a delivery. */
  push(delivery: Partial<LoggedDelivery> & { readonly guid: string }): string {
    const id = String(2n ** 60n + BigInt(this.#log.length));
    const rest = { id, status: 200, event: "push", payload: "{}", redelivery: false };
    this.#log.unshift({ ...rest, deliveredAt: Date.now(), ...delivery });
    return id;
  }

  /** Logs a delivery of some time ago, with all others in their order. */
  pushOld(guid: string, status: number, ageMs = 120_000, redelivery = false): string {
    const id = this.push({ guid, status, deliveredAt: Date.now() - ageMs, redelivery });
    this.#log.push(this.#log.shift()!);
    this.#log.sort((a, b) => b.deliveredAt - a.deliveredAt);
    return id;
  }

  /** The requests whose path matches. */
  callsOf(path: RegExp, method = "GET"): GithubCall[] {
    return this.calls.filter((call) => call.method === method && path.test(call.path));
  }

  /** The ids that were asked for again. */
  get asked(): string[] {
    return this.callsOf(/deliveries\/\d+\/attempts$/, "POST").map(({ path }) =>
      path.split("/").at(-2)!
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }

  async #handle(request: Request): Promise<Response> {
    const { pathname, search, searchParams } = new URL(request.url);
    const { method, headers } = request;
    const text = await request.text();
    const body = text === "" ? undefined : JSON.parse(text);
    const call: GithubCall = { method, path: pathname + search, headers, body };
    this.calls.push(call);
    const found = this.#operationOf(method.toLowerCase(), pathname);
    this.#checkRequest(`${method} ${pathname}`, found?.operation, searchParams);
    const at = this.insteadOf.findIndex(([pattern]) => pattern.test(`${method} ${call.path}`));
    const response = at >= 0
      ? this.insteadOf.splice(at, 1)[0]![1]()
      : await this.#answer(call, pathname, searchParams);
    call.status = response.status;
    if (at >= 0) return response;
    this.#checkAnswer(
      `${method} ${pathname}`,
      found,
      response.status,
      await response.clone().text(),
    );
    response.headers.set("Date", new Date(Date.now() + this.clockMs).toUTCString());
    return response;
  }

  #operationOf(method: string, path: string) {
    for (const [template, item] of Object.entries<Record<string, object>>(root.paths)) {
      const form = new RegExp(
        `^${template.replaceAll(/\{\w+_id\}/g, "\\d+").replaceAll(/\{\w+\}/g, "[^/]+")}$`,
      );
      if (form.test(path) && item[method]) {
        return { template, method, operation: item[method] as Record<string, unknown> };
      }
    }
    return undefined;
  }

  #checkRequest(
    call: string,
    operation: Record<string, unknown> | undefined,
    query: URLSearchParams,
  ) {
    if (operation === undefined) return void this.deviations.push(`${call}: no such operation`);
    const parameters = (operation.parameters as { $ref?: string; name?: string }[]).map((each) =>
      each.$ref === undefined ? each : root.components.parameters[each.$ref.split("/").at(-1)!]
    );
    for (const name of query.keys()) {
      if (!parameters.some((each) => each.name === name)) {
        this.deviations.push(`${call}: no parameter ${name}`);
      }
    }
  }

  #checkAnswer(
    call: string,
    found: { template: string; method: string; operation: Record<string, unknown> } | undefined,
    status: number,
    body: string,
  ): void {
    // Of some operations GitHub describes no 401 and no 404, which it answers with.
    if (found === undefined || [304, 401, 404].includes(status)) return;
    const escaped = found.template.replaceAll("/", "~1").replaceAll("{", "%7B").replaceAll(
      "}",
      "%7D",
    );
    let pointer = `/paths/${escaped}/${found.method}/responses/${status}`;
    // deno-lint-ignore no-explicit-any -- The description is a tree of any form.
    let answer = (found.operation.responses as any)[status];
    if (answer?.$ref) {
      pointer = answer.$ref.slice(1);
      answer = root.components.responses[answer.$ref.split("/").at(-1)!];
    }
    if (answer === undefined) return void this.deviations.push(`${call}: no answer ${status}`);
    const check = ajv.getSchema(`github#${pointer}/content/application~1json/schema`);
    if (check === undefined) return void this.deviations.push(`${call}: no schema of ${status}`);
    if (!check(JSON.parse(body))) {
      this.deviations.push(`${call}: ${ajv.errorsText(check.errors)}`);
    }
  }

  async #answer(call: GithubCall, path: string, query: URLSearchParams): Promise<Response> {
    const { method, headers, body } = call;
    if (!this.#isAllowed(path, headers.get("Authorization") ?? "")) {
      return problem(401, "Bad credentials");
    }
    if (/^\/app\/installations\/\d+\/access_tokens$/.test(path)) {
      const expires_at = new Date(Date.now() + this.clockMs + 3_600_000).toISOString();
      const permissions = { repository_hooks: "write" };
      return Response.json({ token: INSTALLATION_TOKEN, expires_at, permissions }, { status: 201 });
    }
    const [, rest] =
      /^(?:\/repos\/acme\/site\/hooks|\/orgs\/acme\/hooks|\/app\/hook)(.*)$/.exec(path) ?? [];
    const [, hook, log, id, attempts] =
      /^(?:\/(\d+))?(\/deliveries(?:\/(\d+)(\/attempts)?)?)?$/.exec(rest ?? "-") ?? [];
    if (rest === undefined) return problem(404, "Not Found");
    if (hook === undefined && log === undefined) {
      return method === "POST"
        ? this.#create(body)
        : this.#page(this.hooks.map(shown), path, query);
    }
    const found = this.hooks.find((each) => String(each.id) === hook);
    if (found === undefined && hook !== undefined) return problem(404, "Not Found");
    if (method === "PATCH") return this.#change(found!, body);
    if (id === undefined) return this.#deliveries(path, query, headers);
    const delivery = this.#log.find((each) => each.id === id);
    if (delivery === undefined) return problem(404, "Not Found");
    if (attempts === undefined) return detail(delivery);
    if (this.app !== undefined) await this.#deliver(delivery.guid, this.app);
    return Response.json({}, { status: 202 });
  }

  /** An app signs what it asks for itself, and has a token for the rest. */
  #isAllowed(path: string, authorization: string): boolean {
    const [, token = ""] = /^(?:token|bearer) (\S+)$/i.exec(authorization) ?? [];
    if (this.signedBy === undefined) return token === GITHUB_TOKEN;
    return path.startsWith("/app/")
      ? isSigned(token, this.signedBy, Date.now() + this.clockMs)
      : token === INSTALLATION_TOKEN;
  }

  #create(body: Partial<Hook>): Response {
    if (this.hooks.some(({ config }) => config.url === body.config?.url)) {
      const message = "Hook already exists on this repository";
      return problem(422, "Validation Failed", {}, [{ resource: "Hook", code: "custom", message }]);
    }
    return json(shown(this.#add(body)), 201);
  }

  #change(hook: Hook, { events = ["push"], active, config }: Partial<Hook>): Response {
    Object.assign(hook, { events, active: active ?? hook.active, config: config ?? hook.config });
    return json(shown(hook));
  }

  #add({ events = ["push"], active = true, config = {} }: Partial<Hook>): Hook {
    const hook = { id: 12345678 + this.hooks.length, active, events, config };
    this.hooks.push(hook);
    return hook;
  }

  async #deliver(guid: string, app: string): Promise<void> {
    const { headers, body } = forgeDelivery("push", { ref: "refs/heads/main" }, {
      ...{ from: "github", secret: TEST_SECRETS.signing, id: guid },
    });
    const response = await fetch(app, { method: "POST", headers, body });
    await response.body?.cancel();
    this.push({ guid, status: response.status, redelivery: true });
  }

  #deliveries(path: string, query: URLSearchParams, headers: Headers): Response {
    const etag = `W/"${this.#log.length}-${this.#log[0]?.id}"`;
    if (headers.get("If-None-Match") === etag) return new Response(null, { status: 304 });
    const response = this.#page(this.#log.map(entryOf), path, query);
    response.headers.set("ETag", etag);
    return response;
  }

  /** Makes a page of a list, and links to the next one. */
  #page(all: readonly string[], path: string, query: URLSearchParams): Response {
    const size = Math.min(this.pageSize, Number(query.get("per_page") ?? 30));
    const start = Number(query.get("cursor") ?? 0);
    const response = json(`[${all.slice(start, start + size).join(",\n  ")}]`);
    const next = `<${this.url}${path}?per_page=${size}&cursor=${start + size}>; rel="next"`;
    if (start + size < all.length) {
      response.headers.set("Link", `<${this.url}/first>; rel="first", ${next}`);
    }
    return response;
  }
}

/** Verifies a JSON Web Token as GitHub does: signed with the app's key, by its id, for ten minutes at most. */
function isSigned(
  token: string,
  { appId, publicKey }: { readonly appId: string; readonly publicKey: KeyObject },
  nowMs: number,
): boolean {
  const [head = "", claims = "", signature = ""] = token.split(".");
  const bytes = (text: string) => Buffer.from(text, "base64url");
  const signed = new TextEncoder().encode(`${head}.${claims}`);
  if (!verify("RSA-SHA256", signed, publicKey, bytes(signature))) return false;
  const { alg } = JSON.parse(bytes(head).toString());
  const { iss, iat, exp } = JSON.parse(bytes(claims).toString());
  const now = nowMs / 1_000;
  return alg === "RS256" && String(iss) === appId && iat <= now && exp > now && exp <= now + 600;
}

/** Makes the answer to a request that failed. */
export function problem(
  status: number,
  message: string,
  headers = {},
  errors?: readonly object[],
): Response {
  const body = { message, ...errors && { errors }, status: String(status) };
  return Response.json(body, { status, headers });
}

function json(text: string, status = 200): Response {
  const headers = { "Content-Type": "application/json; charset=utf-8" };
  return new Response(text, { status, headers });
}

function entryOf(delivery: LoggedDelivery): string {
  const { id, guid, status, event, deliveredAt, redelivery } = delivery;
  const rest = {
    ...{ guid, delivered_at: new Date(deliveredAt).toISOString(), redelivery, duration: 0.1 },
    ...{ status: status === 200 ? "OK" : "failed", status_code: status, event },
    ...{ action: null, installation_id: null, repository_id: 1, throttled_at: null },
  };
  return `{"id": ${id}, ${JSON.stringify(rest).slice(1)}`;
}

function detail(delivery: LoggedDelivery): Response {
  const headers = {
    ...{ Accept: "*/*", "content-type": "application/json" },
    ...{ "User-Agent": "GitHub-Hookshot/044aadd", "X-GitHub-Hook-ID": "12345678" },
    ...{ "X-GitHub-Delivery": delivery.guid, "X-GitHub-Event": delivery.event },
    "X-Hub-Signature-256": `sha256=${"0".repeat(64)}`,
  };
  const request = `{"headers": ${JSON.stringify(headers)}, "payload": ${delivery.payload}}`;
  const response = `{"headers": {}, "payload": "OK"}`;
  return json(
    `${entryOf(delivery).slice(0, -1)}, "request": ${request}, "response": ${response}}`,
  );
}

function shown({ id, active, events, config }: Hook): string {
  const api = `https://api.github.com/repos/acme/site/hooks/${id}`;
  return JSON.stringify({
    ...{ type: "Repository", id, name: "web", active, events },
    config: { content_type: "json", insecure_ssl: "0", ...config, secret: "********" },
    ...{ updated_at: "2026-01-01T00:00:00Z", created_at: "2026-01-01T00:00:00Z", url: api },
    ...{ test_url: api, ping_url: `${api}/pings`, deliveries_url: `${api}/deliveries` },
    last_response: { code: null, status: "unused", message: null },
  });
}
