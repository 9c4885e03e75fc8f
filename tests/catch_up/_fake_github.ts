import { Buffer } from "node:buffer";
import { type KeyObject, verify } from "node:crypto";
import { Ajv } from "ajv";
import { forgeDelivery, TEST_SECRETS } from "../../testing/mod.ts";
import description from "./github_openapi.json" with { type: "json" };

/** Token that {@linkcode HeldGithub} accepts. */
export const TOKEN = "ghp_token-for-tests-only-0123456789";

/** Token of an installation of the app. */
const INSTALLATION_TOKEN = "ghs_token-for-tests-only-0123456789";

/** Attempt in the delivery log. Its id may be beyond 2^53. */
export interface Attempt {
  readonly id: bigint;
  readonly guid: string;
  readonly status: number;
  readonly at: number;
  readonly redelivery?: boolean;
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
 * GitHub's API on this machine, for webhooks of `acme/site`, the organization `acme` and an app. Every request
 * and every answer is held to GitHub's OpenAPI description.
 */
export class HeldGithub implements AsyncDisposable {
  /** Newest first. */
  readonly log: Attempt[] = [];
  readonly hooks: { id: number; url: string }[] = [{ id: 7, url: "https://bot.test/webhook" }];
  readonly calls: string[] = [];
  /** Deviations from the description. */
  readonly deviations: string[] = [];
  /** Answers that are given before any other, each once, to calls that match. */
  readonly insteadOf: [RegExp, () => Response][] = [];
  readonly url: string;
  /** Address that deliveries are posted to; undefined for none. */
  app: string | undefined;
  pageSize = 100;
  /** GitHub App, whose requests must be signed. */
  signedBy: { readonly appId: string; readonly publicKey: KeyObject } | undefined;
  /** Installations of the app that a token was made for. */
  readonly installations: string[] = [];
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  constructor() {
    const quiet = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
    this.#server = Deno.serve(quiet, (request) => this.#handle(request));
    this.url = `http://127.0.0.1:${this.#server.addr.port}`;
  }

  /** Logs an attempt. */
  push(guid: string, status: number, ageMs = 120_000, redelivery = false): bigint {
    const id = 2n ** 60n + BigInt(this.log.length);
    this.log.push({ id, guid, status, at: Date.now() - ageMs, redelivery });
    this.log.sort((a, b) => b.at - a.at);
    return id;
  }

  /** The ids that were asked for again. */
  get asked(): string[] {
    return this.calls.flatMap((each) =>
      /^POST .*deliveries\/(\d+)\/attempts$/.exec(each)?.[1] ?? []
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }

  async #handle(request: Request): Promise<Response> {
    const { pathname, search, searchParams } = new URL(request.url);
    const call = `${request.method} ${pathname}`;
    this.calls.push(call);
    const found = this.#operationOf(request.method.toLowerCase(), pathname);
    this.#checkRequest(call, found?.operation, searchParams);
    const at = this.insteadOf.findIndex(([pattern]) => pattern.test(call + search));
    if (at >= 0) return this.insteadOf.splice(at, 1)[0]![1]();
    const response = await this.#answer(request, pathname, searchParams);
    const body = await response.clone().text();
    this.#checkAnswer(call, found, response.status, body);
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
    if (found === undefined || status === 401 || status === 404) return;
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

  async #answer(request: Request, path: string, query: URLSearchParams): Promise<Response> {
    if (!this.#isAllowed(path, request.headers.get("Authorization") ?? "")) {
      return problem(401, "Bad credentials");
    }
    const [, installation] = /^\/app\/installations\/(\d+)\/access_tokens$/.exec(path) ?? [];
    if (installation !== undefined) {
      this.installations.push(installation);
      const expires_at = new Date(Date.now() + 3_600_000).toISOString();
      const permissions = { repository_hooks: "write" };
      return Response.json({ token: INSTALLATION_TOKEN, expires_at, permissions }, { status: 201 });
    }
    if (path.endsWith("/hooks")) return Response.json(this.hooks.map(hookOf));
    const [, hook] = /\/hooks\/(\d+)\//.exec(path) ?? [];
    if (hook !== undefined && this.hooks.every(({ id }) => String(id) !== hook)) {
      return problem(404, "Not Found");
    }
    if (request.method === "GET") return this.#page(path, query);
    const attempt = this.log.find(({ id }) => String(id) === /\/(\d+)\/attempts$/.exec(path)?.[1]);
    if (attempt === undefined) return problem(404, "Not Found");
    if (this.app !== undefined) await this.#deliver(attempt.guid, this.app);
    return Response.json({}, { status: 202 });
  }

  /** An app signs what it asks for itself, and has a token for the rest. */
  #isAllowed(path: string, authorization: string): boolean {
    const [, token = ""] = /^(?:token|bearer) (\S+)$/i.exec(authorization) ?? [];
    if (this.signedBy === undefined) return token !== "";
    return path.startsWith("/app/") ? isSigned(token, this.signedBy) : token === INSTALLATION_TOKEN;
  }

  async #deliver(guid: string, app: string): Promise<void> {
    const { headers, body } = forgeDelivery("push", { ref: "refs/heads/main" }, {
      ...{ from: "github", secret: TEST_SECRETS.signing, id: guid },
    });
    const response = await fetch(app, { method: "POST", headers, body });
    await response.body?.cancel();
    this.push(guid, response.status, 0, true);
  }

  #page(path: string, query: URLSearchParams): Response {
    const size = Math.min(this.pageSize, Number(query.get("per_page") ?? 30));
    const start = Number(query.get("cursor") ?? 0);
    const next = `<${this.url}${path}?per_page=${size}&cursor=${start + size}>; rel="next"`;
    const entries = this.log.slice(start, start + size).map(entryOf);
    return new Response(`[${entries.join(",")}]`, {
      headers: {
        "Content-Type": "application/json; charset=utf-8",
        ...start + size < this.log.length && { Link: next },
      },
    });
  }
}

/** Verifies a JSON Web Token as GitHub does: signed with the app's key, by its id, for ten minutes at most. */
function isSigned(
  token: string,
  { appId, publicKey }: { readonly appId: string; readonly publicKey: KeyObject },
): boolean {
  const [head = "", claims = "", signature = ""] = token.split(".");
  const bytes = (text: string) => Buffer.from(text, "base64url");
  const signed = new TextEncoder().encode(`${head}.${claims}`);
  if (!verify("RSA-SHA256", signed, publicKey, bytes(signature))) return false;
  const { alg } = JSON.parse(bytes(head).toString());
  const { iss, iat, exp } = JSON.parse(bytes(claims).toString());
  const now = Date.now() / 1_000;
  return alg === "RS256" && String(iss) === appId && iat <= now && exp > now && exp <= now + 600;
}

/** Makes the answer to a request that failed. */
export function problem(status: number, message: string, headers = {}): Response {
  return Response.json({ message, status: String(status) }, { status, headers });
}

function entryOf({ id, guid, status, at, redelivery = false }: Attempt): string {
  const rest = {
    ...{ guid, delivered_at: new Date(at).toISOString(), redelivery, duration: 0.1 },
    ...{ status: status === 200 ? "OK" : "failed", status_code: status, event: "push" },
    ...{ action: null, installation_id: null, repository_id: 1, throttled_at: null },
  };
  return `{"id": ${id}, ${JSON.stringify(rest).slice(1)}`;
}

function hookOf({ id, url }: { id: number; url: string }): object {
  const api = `https://api.github.com/repos/acme/site/hooks/${id}`;
  return {
    ...{ type: "Repository", id, name: "web", active: true, events: ["push"] },
    ...{ config: { url, content_type: "json", insecure_ssl: "0" } },
    ...{ updated_at: "2026-01-01T00:00:00Z", created_at: "2026-01-01T00:00:00Z", url: api },
    ...{ test_url: api, ping_url: `${api}/pings`, deliveries_url: `${api}/deliveries` },
    last_response: { code: null, status: "unused", message: null },
  };
}
