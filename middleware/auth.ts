import type { Context, MiddlewareHandler } from "@hono/hono";
import { bearerAuth } from "@hono/hono/bearer-auth";
import { timingSafeEqual } from "@std/crypto/timing-safe-equal";
import { checkFunctions, checkObject } from "../core/check_options.ts";
import { HttpError } from "../core/http_error.ts";

/** What Hono's bearer authentication takes for a token (RFC 6750, section 2.1). */
const TOKEN = /^[A-Za-z0-9._~+/-]+=*$/;

/** What a header can bring whole (RFC 9110, section 5.5), but for characters outside ASCII. */
const KEY = /^[!-~](?:[\t -~]*[!-~])?$/;

/** A header's name (RFC 9110, section 5.6.2). */
const HEADER_NAME = /^[\w!#$%&'*+.^`|~-]+$/;

/** What stands between quotes in a header without harm (RFC 9110, section 5.6.4). */
const REALM = /^[ -~]*$/;

/** Options of {@linkcode createAuth}: one of `tokens` and `validate` is required. */
export interface AuthOptions {
  /**
   * The accepted tokens: several while one is being replaced. Compared in constant time. With `header`
   * they are of any printable ASCII characters, else of those that a bearer token has.
   */
  readonly tokens?: string | readonly string[] | undefined;
  /**
   * Decides on a token.
   *
   * @param token What the request brought.
   * @param c The request's context.
   * @returns The principal, whom {@linkcode AuthVariables} then holds; undefined, null or false for a
   * token that is not accepted.
   */
  readonly validate?: ((token: string, c: Context) => unknown) | undefined;
  /**
   * A header that holds the bare token, such as `X-API-Key`. `validate` is then asked about whatever
   * stands in it.
   *
   * @default {undefined} `Authorization: Bearer <token>`.
   */
  readonly header?: string | undefined;
  /**
   * The protection space named in `WWW-Authenticate`.
   *
   * @default {"api"}
   */
  readonly realm?: string | undefined;
}

/** The context variables that {@linkcode createAuth} sets. */
export interface AuthVariables<TPrincipal = unknown> {
  /** What `validate` returned; undefined with `tokens`. */
  principal: TPrincipal;
}

/**
 * Creates middleware that lets only requests with an accepted token pass.
 *
 * Any other is answered 401 `Unauthorized` with `WWW-Authenticate`, whatever is wrong with it.
 *
 * @param options Which tokens are accepted, and where they stand.
 * @returns The middleware.
 * @throws {TypeError} If neither or both of `tokens` and `validate` are given, or no token is.
 * @throws {SyntaxError} If a token has characters that its header cannot bring, or `header` or `realm`
 * cannot stand in one.
 *
 * @example
 * ```ts
 * import { Hono } from "@hono/hono";
 * import { createAuth, errorHandler } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * const app = new Hono();
 * app.onError(errorHandler);
 * app.use("/admin/*", createAuth({ tokens: ["new-token", "old-token"] }));
 * app.get("/admin/stats", (c) => c.json({ users: 3 }));
 *
 * const headers = { Authorization: "Bearer old-token" };
 * assertEquals((await app.request("/admin/stats", { headers })).status, 200);
 * assertEquals((await app.request("/admin/stats")).status, 401);
 * ```
 */
export function createAuth(options: AuthOptions): MiddlewareHandler<{ Variables: AuthVariables }> {
  checkObject("create the authentication", options);
  const { validate, header, realm = "api" } = options;
  checkFunctions("create the authentication", { validate });
  const tokens = tokensOf(options);
  checkText("header", header ?? "Authorization", HEADER_NAME);
  checkText("realm", realm, REALM);
  const scheme = header === undefined ? "Bearer" : "ApiKey";
  const challenge = `${scheme} realm="${realm.replace(/[\\"]/g, "\\$&")}"`;
  const refuse = (): never => {
    throw new HttpError(401, "Unauthorized", {
      code: "UNAUTHORIZED",
      headers: { "WWW-Authenticate": challenge },
    });
  };
  const accept = validate ? acceptWith(validate) : undefined;
  if (header !== undefined) return bareAuth(header, accept ?? acceptOneOf(tokens), refuse);
  const refusal = { message: refuse };
  return bearerAuth<{ Variables: AuthVariables }>({
    ...(accept ? { verifyToken: accept } : { token: tokens }),
    noAuthenticationHeader: refusal,
    invalidAuthenticationHeader: refusal,
    invalidToken: refusal,
  });
}

type Accept = (token: string, c: Context) => Promise<boolean>;

/** Hono's bearer authentication takes tokens of RFC 6750 only, wherever they stand. */
function bareAuth(
  header: string,
  accept: Accept,
  refuse: () => never,
): MiddlewareHandler<{ Variables: AuthVariables }> {
  return async function bareAuth(c, next) {
    const token = c.req.header(header);
    if (!token || !(await accept(token, c))) refuse();
    await next();
  };
}

/** Digests are of one length, and so comparing them tells nothing of the tokens'. */
function acceptOneOf(tokens: readonly string[]): Accept {
  let digests: Promise<ArrayBuffer[]> | undefined;
  return async (token) => {
    digests ??= Promise.all(tokens.map(digestOf));
    const given = await digestOf(token);
    return (await digests).filter((each) => timingSafeEqual(each, given)).length > 0;
  };
}

function digestOf(text: string): Promise<ArrayBuffer> {
  return crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
}

function acceptWith(validate: NonNullable<AuthOptions["validate"]>): Accept {
  return async (token, c) => {
    const principal = await validate(token, c);
    if (principal === undefined || principal === null || principal === false) return false;
    c.set("principal", principal);
    return true;
  };
}

function tokensOf({ tokens, validate, header }: AuthOptions): string[] {
  if ((tokens === undefined) === (validate === undefined)) {
    throw new TypeError("Cannot create the authentication: give either 'tokens' or 'validate'");
  }
  const list = tokens === undefined ? [] : [tokens].flat();
  if (validate === undefined && list.length === 0) {
    throw new TypeError("Cannot create the authentication: 'tokens' is empty");
  }
  const [grammar, allowed] = header === undefined
    ? [TOKEN, "A-Z a-z 0-9 . _ ~ + / - ="]
    : [KEY, "printable ASCII, or a space at an end"];
  const bad = list.findIndex((token) => typeof token !== "string" || !grammar.test(token));
  if (bad >= 0) {
    throw new SyntaxError(
      `Cannot create the authentication: token ${bad + 1} is empty or has characters outside ` +
        allowed,
    );
  }
  return list;
}

function checkText(name: string, text: string, grammar: RegExp): void {
  if (grammar.test(text)) return;
  throw new SyntaxError(
    `Cannot create the authentication: '${name}' is empty or has characters that HTTP does not allow`,
  );
}
