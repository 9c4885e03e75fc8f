import type { Context } from "@hono/hono";
import { type LogSink, writeLog } from "../core/mod.ts";
import { clientIp } from "../middleware/mod.ts";
import { link } from "./_format.ts";
import { isSecure, MAX_FORM_BYTES, pageResponse, readForm, redirect } from "./_http.ts";
import { layout, loginPage, type PageContext } from "./_layout.ts";
import { LoginTries, type Session, SESSION_MS, Sessions, type Tokens } from "./_session.ts";

/** Pages that are shown after a login, as they are linked. */
const PAGES: ReadonlySet<string> = new Set([
  ...["./", "deliveries", "delivery", "acts", "act", "progress", "send"],
]);

/** Parts of a login. */
interface LoginOptions extends Tokens {
  readonly name: string;
  readonly trustedProxyHops: number;
  readonly log: LogSink;
}

/** Login of a console: the form, the session's cookie, and the limit of tries. */
export class Login {
  readonly #options: LoginOptions;
  readonly #context: PageContext;
  readonly #sessions: Sessions;
  readonly #tries = new LoginTries();
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
    const cookie = this.#cookieFor(isSecure(c, this.#options.trustedProxyHops > 0));
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
    const query = new URL(c.req.url).search;
    const to = link(page);
    const isPage = c.req.method !== "POST" && PAGES.has(to) && query.length < 1_000;
    return redirect(link("login", { next: isPage ? `${to}${query}` : undefined }));
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

  /** Answers the form. */
  async answer(c: Context): Promise<Response> {
    const { log, trustedProxyHops } = this.#options;
    const form = await readForm(c, MAX_FORM_BYTES);
    const next = pageBeside(form.get("next") ?? undefined);
    const ip = clientIp(c, { trustedProxyHops });
    // From here to the count nothing is awaited: tries at the same time do not pass it together.
    const waitMs = this.#tries.waitFor(ip);
    if (waitMs > 0) {
      const seconds = Math.ceil(waitMs / 1_000);
      const flaw = `Too many wrong tokens. Try again in ${seconds} s.`;
      return this.#response(429, next, flaw, { "Retry-After": String(seconds) });
    }
    const role = this.#sessions.roleOf(form.get("token") ?? "");
    if (!role) {
      this.#tries.count(ip);
      writeLog(log, "warn", "console login refused", { ip });
      return this.#response(403, next, "This is not a token of this console.");
    }
    writeLog(log, "info", "console login", { role, ip });
    const secure = isSecure(c, this.#options.trustedProxyHops > 0);
    const cookie = this.#setCookie(secure, this.#sessions.begin(role), SESSION_MS / 1_000);
    return redirect(next ?? "./", [cookie]);
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
    const secure = isSecure(c, this.#options.trustedProxyHops > 0);
    const cookies = secure ? [true, false] : [false];
    return redirect("login", cookies.map((each) => this.#setCookie(each, "", 0)));
  }
}

/** Reads where a login leads to: one of the console's own pages, beside the login. */
function pageBeside(next: string | undefined): string | undefined {
  const [, page, query] = /^(\.\/|[a-z]+)(\?[^\s#\\]{0,1000})?$/.exec(next ?? "") ?? [];
  if (page === undefined || !PAGES.has(page)) return undefined;
  return `${page}${query === undefined ? "" : `?${new URLSearchParams(query)}`}`;
}
