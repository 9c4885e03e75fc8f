/**
 * Sessions of readers, and the login that begins them.
 *
 * @module
 */
import type { Context } from "@hono/hono";
import { html } from "@hono/hono/html";
import { createHash, createHmac, randomBytes } from "node:crypto";
import { timingSafeEqual } from "@std/crypto/timing-safe-equal";
import { type LogSink, writeLog } from "../core/mod.ts";
import { tokenFinder } from "../core/secrets.ts";
import { clientIp, ipNetwork, MemoryRateLimitStore } from "../middleware/mod.ts";
import { type Html, link, shown } from "./_format.ts";
import { FORM_TIMEOUT_MS, Forms, type Front, isSecure, redirect, Refusal } from "./_http.ts";
import { MAX_TOKEN_LENGTH } from "./_tokens.ts";

/** Role of a reader: a viewer looks, an operator acts as well. */
export type Role = "viewer" | "operator";

/** Session of a reader. */
export interface Session {
  /** Role. */
  readonly role: Role;
  /** Id, for the records of acts. */
  readonly id: string;
  /** Time at which it ends, milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** Tokens that readers log in with. */
export interface Tokens {
  /** Token of viewers. */
  readonly viewerToken?: string | undefined;
  /** Token of operators. */
  readonly operatorToken?: string | undefined;
}

/** Longest time until a session ends: a working day. */
const SESSION_MS = 12 * 3_600_000;

/** Time by which a session is shorter at its beginning: the clock of the instance that reads it may be behind. */
const CLOCKS_MS = 60_000;

/** Form of a cookie's value: role, end, id, signature. */
const VALUE = /^(viewer|operator)\.([0-9a-z]{8,9})\.([0-9a-f]{16})\.([\w-]{43})$/;

/**
 * Sessions, which are in signed cookies and not in the store: every instance of an app knows them.
 *
 * The sessions of each role are signed with a key that is made of its token and of nothing else: if you know the token
 * of one role, you cannot sign sessions of another, and they end when that token changes.
 */
export class Sessions {
  /** Keys of the roles that have a token. */
  readonly #keys: ReadonlyMap<Role, Uint8Array>;
  readonly #positionOf: (token: string) => number;
  /**
   * Id of all sessions together, for the name of their cookie. It is made of the key of the lowest role: if it
   * depended on an operator's token, viewers could test guesses of that without being counted.
   */
  readonly id: string;

  /**
   * @param app The name of the app, so that no cookie is valid for another one.
   * @param tokens The tokens, at least one.
   */
  constructor(app: string, { viewerToken, operatorToken }: Tokens) {
    const tokens = ([["viewer", viewerToken], ["operator", operatorToken]] as const)
      .flatMap(([role, token]) => token === undefined ? [] : [[role, token] as const]);
    this.#keys = new Map(tokens.map(([role, token]) => [role, signingKeyOf(app, role, token)]));
    this.#positionOf = tokenFinder(tokens.map(([, token]) => token));
    const [lowest] = this.#keys.values();
    this.id = createHmac("sha256", lowest!).update("cookie").digest("hex").slice(0, 8);
  }

  /** Finds the role that a token gives, in a time that does not depend on it; undefined for none. */
  roleOf(token: string): Role | undefined {
    const position = this.#positionOf(token);
    return position === 0 ? undefined : [...this.#keys.keys()][position - 1];
  }

  /** Begins a session of a role that has a token, and makes the value of its cookie. */
  begin(role: Role, now: number = Date.now()): string {
    const id = randomBytes(8).toString("hex");
    const content = `${role}.${(now + SESSION_MS - CLOCKS_MS).toString(36)}.${id}`;
    return `${content}.${sign(this.#keys.get(role)!, content)}`;
  }

  /**
   * Reads the value of a cookie; undefined if it is not valid, its role has no token, or it does not end within
   * the length of a session.
   */
  read(value: string | undefined, now: number = Date.now()): Session | undefined {
    const [, role, end, id, signature] = VALUE.exec(value ?? "") ?? [];
    const key = this.#keys.get(role as Role);
    if (signature === undefined || !key) return undefined;
    const expected = sign(key, `${role}.${end}.${id}`);
    if (!timingSafeEqual(bytesOf(expected), bytesOf(signature))) return undefined;
    const expiresAt = parseInt(end!, 36);
    const isValid = expiresAt > now && expiresAt <= now + SESSION_MS;
    return isValid ? { role: role as Role, id: id!, expiresAt } : undefined;
  }
}

function signingKeyOf(app: string, role: Role, token: string): Uint8Array {
  const source = JSON.stringify(["console session", app, role, token]);
  return createHash("sha256").update(source).digest();
}

const sign = (key: Uint8Array, content: string) =>
  createHmac("sha256", key).update(content).digest("base64url");

const bytesOf = (text: string) => new TextEncoder().encode(text);

/** Id of the sessions of programs, which send their token each time. */
const PROGRAM = "api";

/** Tries that an address has in a minute. Those with a right token do not count. */
const MAX_TRIES = 10;

const WINDOW_MS = 60_000;

/**
 * Counts of tries, for each address by itself: by a limit for all together, anybody could keep operators from
 * logging in. Nobody guesses a token of 32 random characters. A try counts from its beginning, so an address has
 * no more forms under way than it has tries left.
 */
class LoginTries {
  readonly #failed = new MemoryRateLimitStore({ maxKeys: 10_000 });
  readonly #underWay = new Map<string, number>();

  /**
   * Begins a try, before anything of it is read.
   *
   * @returns 0 if the address may try; otherwise for how long it may not, in milliseconds.
   */
  begin(ip: string | undefined): number {
    const key = keyOf(ip);
    const { count, resetMs } = this.#failed.get(key, WINDOW_MS);
    const underWay = this.#underWay.get(key) ?? 0;
    if (count + underWay >= MAX_TRIES) return count >= MAX_TRIES ? resetMs : FORM_TIMEOUT_MS;
    this.#underWay.set(key, underWay + 1);
    return 0;
  }

  /** Ends a try. One without a right token has failed, whatever came of its form. */
  end(ip: string | undefined, isRight: boolean): void {
    const key = keyOf(ip);
    const underWay = this.#underWay.get(key)! - 1;
    if (underWay > 0) this.#underWay.set(key, underWay);
    else this.#underWay.delete(key);
    if (!isRight) this.#failed.increment(key, WINDOW_MS);
  }
}

const keyOf = (ip: string | undefined) => ip === undefined ? "unknown" : ipNetwork(ip);

/** Pages that refresh themselves. */
export const REFRESHED = [
  ...["", "problems", "problem", "deliveries", "delivery", "running", "parked", "schedules"],
  ...["states", "state", "limits", "acts", "act", "progress", "changed", "refusals"],
];

/** Pages that are shown after a login, as they are linked. */
const PAGES = ["./", "send", "wake", "repeat", ...REFRESHED.slice(1)];

/** Largest form: a token and the page to go on to, as forms encode them. */
const MAX_FORM_BYTES = 4_096;

/** Longest page to go on to, as forms encode it: a token of 256 characters leaves this much. */
const MAX_NEXT_BYTES = 1_700;

/** Parts of a login. */
interface LoginOptions extends Tokens {
  readonly name: string;
  readonly trustedProxyHops: number;
  readonly front: Front;
  readonly log: LogSink;
}

/** Answers with a page for somebody who has not logged in. */
type Respond = (
  page: { readonly title: string; readonly body: Html },
  status?: number,
  headers?: Readonly<Record<string, string>>,
) => Response;

/** Login of a console: the form, the session's cookie, and the limit of tries. */
export class Login {
  readonly #options: LoginOptions;
  readonly #respond: Respond;
  readonly #sessions: Sessions;
  /** Tries of the form, and of programs: one with an old token does not keep its address from logging in. */
  readonly #tries = new LoginTries();
  readonly #programTries = new LoginTries();
  readonly #forms = new Forms();
  readonly #cookie: string;

  constructor(options: LoginOptions, respond: Respond) {
    this.#options = options;
    this.#respond = respond;
    this.#sessions = new Sessions(options.name, options);
    const name = options.name.replace(/[^\w-]/g, "-").slice(0, 40);
    this.#cookie = `console-${name}-${this.#sessions.id}`;
  }

  /** Finds the session of a request; undefined without a valid one. */
  sessionOf(c: Context): Session | undefined {
    const cookie = this.#cookieFor(isSecure(c, this.#options.front));
    for (const pair of (c.req.header("Cookie") ?? "").split(";")) {
      const [name, value] = pair.trim().split("=", 2);
      if (name !== cookie) continue;
      const session = this.#sessions.read(value);
      if (session) return session;
    }
    return undefined;
  }

  /**
   * Finds the session of a program: by the token that it sends, or by the cookie of a login. Tries with wrong tokens
   * are limited as those of the form are, and counted apart from them.
   *
   * @throws {Refusal} 401 without a valid one, 429 if its address has tried too often.
   */
  programOf(c: Context): { readonly session: Session; readonly isByToken: boolean } {
    const { log, trustedProxyHops } = this.#options;
    const [, token] = /^bearer +(.+)$/i.exec(c.req.header("Authorization")?.trim() ?? "") ?? [];
    const known = token === undefined ? this.sessionOf(c) : undefined;
    if (known) return { session: known, isByToken: false };
    if (token === undefined) throw unauthorized("Send a token of this console, or log in.");
    const ip = clientIp(c, { trustedProxyHops });
    const waitMs = this.#programTries.begin(ip);
    if (waitMs > 0) throw tooOften(waitMs);
    const role = this.#sessions.roleOf(token);
    this.#programTries.end(ip, role !== undefined);
    if (role) return { session: { role, id: PROGRAM, expiresAt: Infinity }, isByToken: true };
    writeLog(log, "warn", "console login refused", { ip });
    throw unauthorized("This is not a token of this console.");
  }

  /** Leads a request to the login, and from there on to its page. */
  lead(c: Context, page: string): Response {
    const asked = `${link(page)}${new URL(c.req.url).search}`;
    const next = c.req.method === "POST" ? undefined : pageBeside(asked);
    return redirect(link("login", { next }));
  }

  /** Shows the form. */
  show(c: Context): Response {
    const [next] = new URL(c.req.url).searchParams.getAll("next");
    return this.#response(200, pageBeside(next), undefined);
  }

  #response(
    status: number,
    next: string | undefined,
    flaw: string | undefined,
    headers: Readonly<Record<string, string>> = {},
  ): Response {
    const body = loginPage(this.#options.name, next, flaw);
    return this.#respond({ title: "Log in", body }, status, headers);
  }

  /** Answers the form. Of an address that has tried too often nothing is read. */
  async answer(c: Context): Promise<Response> {
    const { log, trustedProxyHops, front } = this.#options;
    const ip = clientIp(c, { trustedProxyHops });
    const waitMs = this.#tries.begin(ip);
    if (waitMs > 0) {
      const { status, message, headers } = tooOften(waitMs);
      return this.#response(status, undefined, message, headers);
    }
    let role: Role | undefined;
    try {
      const form = await this.#forms.read(c, MAX_FORM_BYTES);
      const next = pageBeside(form.get("next") ?? undefined);
      role = this.#sessions.roleOf(form.get("token") ?? "");
      if (!role) {
        writeLog(log, "warn", "console login refused", { ip });
        return this.#response(403, next, "This is not a token of this console.");
      }
      writeLog(log, "info", "console login", { role, ip });
      const secure = isSecure(c, front);
      const cookie = this.#setCookie(secure, this.#sessions.begin(role), SESSION_MS / 1_000);
      return redirect(next ?? "./", [cookie]);
    } finally {
      this.#tries.end(ip, role !== undefined);
    }
  }

  /** The cookie has no `Path`: so it is valid below the path that the reader sees, prefixes included. */
  #setCookie(secure: boolean, value: string, maxAge: number): string {
    return `${this.#cookieFor(secure)}=${value}; Max-Age=${maxAge}; HttpOnly; SameSite=Strict${
      secure ? "; Secure" : ""
    }`;
  }

  #cookieFor(secure: boolean): string {
    return secure ? `__Secure-${this.#cookie}` : this.#cookie;
  }

  /** Ends the session of this browser; over https, one without it as well. */
  logout(c: Context): Response {
    const secure = isSecure(c, this.#options.front);
    const cookies = secure ? [true, false] : [false];
    return redirect("login", cookies.map((each) => this.#setCookie(each, "", 0)));
  }
}

/** Makes the refusal of an address that has tried too often, with the time for which it has to wait. */
function tooOften(waitMs: number): Refusal {
  const seconds = String(Math.ceil(waitMs / 1_000));
  const message = `Too many tries. Try again in ${seconds} s.`;
  return new Refusal(429, "Too many tries", message, { "Retry-After": seconds });
}

function unauthorized(message: string): Refusal {
  const headers = { "WWW-Authenticate": 'Bearer realm="console"' };
  return new Refusal(401, "Not logged in", message, headers);
}

/** Reads the page that a login leads to: one of the console, beside the login. */
function pageBeside(next: string | undefined): string | undefined {
  const [, page, query] = /^(\.\/|[a-z]+)(\?[^\s#\\]{0,1000})?$/.exec(next ?? "") ?? [];
  if (page === undefined || !PAGES.includes(page)) return undefined;
  const beside = `${page}${query === undefined ? "" : `?${new URLSearchParams(query)}`}`;
  return new URLSearchParams({ next: beside }).toString().length <= MAX_NEXT_BYTES
    ? beside
    : undefined;
}

/** Makes the body of the login page. */
function loginPage(name: string, next: string | undefined, flaw: string | undefined): Html {
  return html`<div class="login"><h1>${shown(name, 60)}</h1>
${
    flaw && html`
      <div class="note bad" role="alert">
        <p>${flaw}</p>
      </div>
    `
  }
${
    next && !flaw &&
    html`<p class="dim">Logged in already? <a data-next href="${next}">Go on to the page</a></p>`
  }
<form method="post" action="login">
<input type="text" autocomplete="username" value="${name}" hidden>
<label for="token">Token of a viewer or an operator</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus maxlength="${MAX_TOKEN_LENGTH}">
${next && html`<input type="hidden" name="next" value="${next}">`}
<button class="go">Log in</button></form></div>`;
}
