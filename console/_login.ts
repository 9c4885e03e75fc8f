import type { Context } from "@hono/hono";
import { type LogSink, writeLog } from "../core/mod.ts";
import { clientIp } from "../middleware/mod.ts";
import { link } from "./_format.ts";
import { Forms } from "./_forms.ts";
import { type Front, isSecure, pageResponse, redirect } from "./_http.ts";
import { layout, loginPage, type PageContext } from "./_layout.ts";
import {
  LoginTries,
  type Role,
  type Session,
  SESSION_MS,
  Sessions,
  type Tokens,
} from "./_session.ts";

/** Pages that are shown after a login, as they are linked. */
const PAGES: ReadonlySet<string> = new Set([
  ...["./", "deliveries", "delivery", "acts", "act", "progress", "send"],
]);

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

/** Login of a console: the form, the session's cookie, and the limit of tries. */
export class Login {
  readonly #options: LoginOptions;
  readonly #context: PageContext;
  readonly #sessions: Sessions;
  readonly #tries = new LoginTries();
  readonly #forms = new Forms();
  readonly #cookie: string;

  /** Creates it, with what its page shows. */
  constructor(options: LoginOptions, context: PageContext) {
    this.#options = options;
    this.#context = context;
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
    const page = { title: "Log in", body };
    return pageResponse(layout(this.#context, page), status, headers);
  }

  /** Answers the form. Of an address that has tried too often nothing is read. */
  async answer(c: Context): Promise<Response> {
    const { log, trustedProxyHops, front } = this.#options;
    const ip = clientIp(c, { trustedProxyHops });
    const waitMs = this.#tries.begin(ip);
    if (waitMs > 0) {
      const seconds = Math.ceil(waitMs / 1_000);
      const flaw = `Too many tries. Try again in ${seconds} s.`;
      return this.#response(429, undefined, flaw, { "Retry-After": String(seconds) });
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

/** Reads where a login leads to: one of the console's own pages, beside the login. */
function pageBeside(next: string | undefined): string | undefined {
  const [, page, query] = /^(\.\/|[a-z]+)(\?[^\s#\\]{0,1000})?$/.exec(next ?? "") ?? [];
  if (page === undefined || !PAGES.has(page)) return undefined;
  const beside = `${page}${query === undefined ? "" : `?${new URLSearchParams(query)}`}`;
  return new URLSearchParams({ next: beside }).toString().length <= MAX_NEXT_BYTES
    ? beside
    : undefined;
}
