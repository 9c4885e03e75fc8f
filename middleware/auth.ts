import type { Context, MiddlewareHandler } from "@hono/hono";
import { checkFunction, checkOptions, type OptionCheck } from "../core/check_options.ts";
import { HttpError } from "../core/http_error.ts";
import { tokenFinder } from "../core/secrets.ts";

/** Bearer token (RFC 6750, section 2.1). */
const TOKEN = /^[A-Za-z0-9._~+/-]+=*$/;

/** Scheme before such a token, in any case. */
const SCHEME = /^bearer +/i;

/** ASCII text that a header can carry unchanged (RFC 9110, section 5.5). */
const KEY = /^[!-~](?:[\t -~]*[!-~])?$/;

/** Name of a header (RFC 9110, section 5.6.2). */
const HEADER_NAME = /^[\w!#$%&'*+.^`|~-]+$/;

/** Text that is safe between quotes in a header (RFC 9110, section 5.6.4). */
const REALM = /^[ -~]*$/;

/** Makes the check of a text of a grammar. */
function textOf(grammar: RegExp): OptionCheck {
  return (doing, name, value) => {
    if (grammar.test(value as string)) return;
    throw new SyntaxError(
      `Cannot ${doing}: '${name}' is empty or has characters that HTTP does not allow`,
    );
  };
}

const DOING = "create the authentication";

const CHECKS = {
  tokens: undefined,
  validate: checkFunction,
  header: textOf(HEADER_NAME),
  realm: textOf(REALM),
};

/**
 * Options of {@linkcode createAuth}: one of `tokens` and `validate` is required.
 *
 * @category Middleware
 */
export interface AuthOptions {
  /**
   * Accepted tokens; several while one is being replaced. They are compared in constant time. With
   * `header` they may have any printable ASCII characters, otherwise only a bearer token's.
   */
  readonly tokens?: string | readonly string[] | undefined;
  /**
   * Decides on a token.
   *
   * @param token The token of the request.
   * @param c The request's context.
   * @returns The principal, which {@linkcode AuthVariables} then holds; undefined, null or false if the
   * token is not accepted.
   */
  readonly validate?: ((token: string, c: Context) => unknown) | undefined;
  /**
   * Name of a header that holds the bare token, such as `X-API-Key`. `validate` then gets the header's
   * value as it is.
   *
   * @default {undefined} `Authorization: Bearer <token>`.
   */
  readonly header?: string | undefined;
  /**
   * Protection space named in `WWW-Authenticate`.
   *
   * @default {"api"}
   */
  readonly realm?: string | undefined;
}

/**
 * Context variables that {@linkcode createAuth} sets.
 *
 * @category Middleware
 */
export interface AuthVariables<TPrincipal = unknown> {
  /** Principal that `validate` returned; undefined with `tokens`. */
  principal: TPrincipal;
}

/**
 * Creates middleware that lets only requests with an accepted token pass.
 *
 * Any other request is answered with 401 `Unauthorized` and `WWW-Authenticate`.
 *
 * @param options The accepted tokens, and the header that holds them.
 * @returns The middleware.
 * @throws {TypeError} If neither or both of `tokens` and `validate` are given, or `tokens` is empty.
 * @throws {SyntaxError} If a token has characters that its header cannot carry, or `header` or `realm`
 * has characters that HTTP does not allow.
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
 *
 * @category Middleware
 */
export function createAuth(options: AuthOptions): MiddlewareHandler<{ Variables: AuthVariables }> {
  checkOptions(DOING, options, CHECKS);
  const { validate, header, realm = "api" } = options;
  const tokens = tokensOf(options);
  const scheme = header === undefined ? "Bearer" : "ApiKey";
  const challenge = `${scheme} realm="${realm.replace(/[\\"]/g, "\\$&")}"`;
  const refusal = () =>
    new HttpError(401, "Unauthorized", {
      code: "UNAUTHORIZED",
      headers: { "WWW-Authenticate": challenge },
    });
  const accept = validate ? acceptWith(validate) : acceptOneOf(tokens);
  return async function auth(c, next) {
    const token = header === undefined ? bearerTokenOf(c) : c.req.header(header);
    if (!token || !(await accept(token, c))) throw refusal();
    await next();
  };
}

function bearerTokenOf(c: Context): string | undefined {
  const value = c.req.header("Authorization") ?? "";
  const token = value.replace(SCHEME, "");
  return token !== value && TOKEN.test(token) ? token : undefined;
}

type Accept = (token: string, c: Context) => boolean | Promise<boolean>;

function acceptOneOf(tokens: readonly string[]): Accept {
  const positionOf = tokenFinder(tokens);
  return (token) => positionOf(token) > 0;
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
    throw new TypeError(`Cannot ${DOING}: give either 'tokens' or 'validate'`);
  }
  const list = tokens === undefined ? [] : [tokens].flat();
  if (validate === undefined && list.length === 0) {
    throw new TypeError(`Cannot ${DOING}: 'tokens' is empty`);
  }
  const [grammar, allowed] = header === undefined
    ? [TOKEN, "A-Z a-z 0-9 . _ ~ + / - ="]
    : [KEY, "printable ASCII, or a space at an end"];
  const bad = list.findIndex((token) => typeof token !== "string" || !grammar.test(token));
  if (bad >= 0) {
    throw new SyntaxError(
      `Cannot ${DOING}: token ${bad + 1} is empty or has characters outside ${allowed}`,
    );
  }
  return list;
}
