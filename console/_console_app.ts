import { type Context, Hono } from "@hono/hono";
import { type LogSink, writeLog } from "../core/mod.ts";
import { withDeadline } from "../core/timeouts.ts";
import { actAnswers } from "./_act_answers.ts";
import { ASSETS } from "./_assets.ts";
import type { ConsoleData } from "./_console_data.ts";
import type { ExampleSender } from "./_examples.ts";
import { Forms } from "./_forms.ts";
import { assetResponse, type Front, isFromHere, pageResponse, redirect } from "./_http.ts";
import { layout, messagePage, type PageContext } from "./_layout.ts";
import { Login } from "./_login.ts";
import { lookAnswers } from "./_look_answers.ts";
import { ParameterError } from "./_query.ts";
import { MAX_EXAMPLE_BYTES, sendAnswers } from "./_send_page.ts";
import type { Session, Tokens } from "./_session.ts";
import { type Answering, checkOperator, Refusal, type Visit } from "./_visit.ts";

/** Parts of the console's routes. */
export interface ConsoleAppOptions extends Tokens {
  /** Name of the app. */
  readonly name: string;
  /** Path of the console. */
  readonly path: string;
  /** Environment that the app runs in; undefined for no badge. */
  readonly environment: string | undefined;
  /** True if payloads are not shown. */
  readonly hidesPayloads: boolean;
  /** Number of trusted reverse proxies. */
  readonly trustedProxyHops: number;
  /** Part that is in front of the app. */
  readonly front: Front;
  /** Data of the pages. */
  readonly data: ConsoleData;
  /** Sender of examples, in development; undefined for none. */
  readonly examples: ExampleSender | undefined;
  /** Log. */
  readonly log: LogSink;
}

/** Largest form of an act: its longest fields are those of a choice of deliveries. */
const MAX_ACT_BYTES = 16_384;

/** Longest wait for the store. */
const STORE_TIMEOUT_MS = 20_000;

/** Creates the routes of a console. */
export function consoleApp(options: ConsoleAppOptions): Hono {
  const { path } = options;
  const board = new Board(options);
  const app = new Hono();
  const answer = (c: Context) => board.answer(c);
  return app.all(path, answer).all(`${path}/*`, answer);
}

/** Pages that refresh themselves. */
const REFRESHED: ReadonlySet<string> = new Set([
  "",
  "deliveries",
  "delivery",
  "acts",
  "act",
  "progress",
]);

class Board {
  readonly #options: ConsoleAppOptions;
  readonly #login: Login;
  readonly #pages: Readonly<Record<string, Answering>>;
  /** Answers to the forms of operators, by their names. */
  readonly #acts: Readonly<Record<string, Answering>>;
  readonly #forms = new Forms();

  constructor(options: ConsoleAppOptions) {
    this.#options = options;
    this.#login = new Login(options, this.#contextOf(undefined));
    const { data, examples } = options;
    const acting = actAnswers(options);
    const sending = examples && sendAnswers(examples);
    this.#pages = {
      ...lookAnswers(data),
      act: acting.page,
      ...sending && { send: sending.page },
    };
    this.#acts = { act: acting.form, stop: acting.stop, ...sending && { send: sending.form } };
  }

  /** Answers a request, also one that fails. */
  async answer(c: Context): Promise<Response> {
    try {
      return await withDeadline(this.#route(c), STORE_TIMEOUT_MS);
    } catch (error) {
      if (error instanceof ParameterError) {
        return this.#message(c, 400, "Wrong parameter", `Cannot show the page: ${error.message}.`);
      }
      if (error instanceof Refusal) {
        return this.#message(c, error.status, error.title, error.message, error.headers);
      }
      const page = this.#pageOf(c)?.slice(0, 20);
      writeLog(this.#options.log, "error", "console page failed", { page, error });
      return this.#message(c, 503, "Not available", "The event store gave no answer. Try again.");
    }
  }

  /**
   * Finds the page of a request, which is behind the console's path; undefined for the path without a slash.
   * The route has that path with any prefix. In the request, a page or a prefix may have the same name.
   */
  #pageOf({ req }: Context): string | undefined {
    const depth = req.routePath.replace(/\/\*$/, "").split("/").length;
    const rest = req.path.split("/").slice(depth);
    return rest.length === 0 ? undefined : rest.join("/");
  }

  async #route(c: Context): Promise<Response> {
    const page = this.#pageOf(c);
    const { method } = c.req;
    const isRead = method === "GET" || method === "HEAD";
    // All pages lie beside each other below the path, so their links work below any prefix.
    if (page === undefined) return redirect(`${this.#options.path.split("/").at(-1)}/`);
    if (isRead && page.includes("/")) return redirect("../".repeat(page.split("/").length - 1));
    const asset = Object.values(ASSETS).find(({ name }) => name === page);
    if (asset && isRead) return assetResponse(asset);
    const form = this.#formOf(c, page);
    if (isRead && page === "login") return this.#login.show(c);
    if (isRead && Object.hasOwn(this.#pages, page)) return await this.#visit(c, this.#pages[page]!);
    if (method === "POST" && form) return await this.#receive(c, form);
    const allowed = [
      ...Object.hasOwn(this.#pages, page) || page === "login" ? ["GET", "HEAD"] : [],
      ...form ? ["POST"] : [],
    ];
    if (allowed.length > 0) {
      const headers = { Allow: allowed.join(", ") };
      throw new Refusal(405, "Not possible", "This page cannot be asked for that way.", headers);
    }
    if (!this.#login.sessionOf(c)) return this.#login.lead(c, page);
    throw new Refusal(404, "Not found", "There is no such page.");
  }

  /** Finds the answer to a form; undefined if there is no such form. */
  #formOf(c: Context, page: string): (() => Promise<Response> | Response) | undefined {
    if (page === "login") return () => this.#login.answer(c);
    if (page === "logout") return () => this.#login.logout(c);
    return Object.hasOwn(this.#acts, page) ? () => this.#act(c, page) : undefined;
  }

  /** Answers a form, if a page of the console has sent it. */
  async #receive(c: Context, answer: () => Promise<Response> | Response): Promise<Response> {
    if (isFromHere(c, this.#options.front)) return await answer();
    throw new Refusal(
      403,
      "Refused",
      "The form was not sent by a page of this console. Behind a proxy, set TRUSTED_PROXY_HOPS, and have it " +
        "pass on the host and the scheme of the request.",
    );
  }

  /** Answers a request of a reader who has logged in; others are led to the login. */
  async #visit(c: Context, answering: Answering): Promise<Response> {
    const session = this.#login.sessionOf(c);
    const page = this.#pageOf(c)!;
    if (!session) return this.#login.lead(c, page);
    const isPoll = REFRESHED.has(page) && c.req.header("X-Poll") !== undefined;
    if (isPoll) c.set("isPoll", true);
    const parameters = new URL(c.req.url).searchParams;
    return await this.#shown(answering, { c, session, parameters, isPoll });
  }

  /** Answers an operator's form. Of anybody else's nothing is read. */
  async #act(c: Context, page: string): Promise<Response> {
    const session = this.#login.sessionOf(c);
    if (!session) return this.#login.lead(c, page);
    checkOperator(session);
    const maxBytes = page === "send" ? MAX_EXAMPLE_BYTES : MAX_ACT_BYTES;
    const parameters = await this.#forms.read(c, maxBytes);
    return await this.#shown(this.#acts[page]!, { c, session, parameters, isPoll: false });
  }

  async #shown(answering: Answering, visit: Omit<Visit, "context">): Promise<Response> {
    const context = this.#contextOf(visit.session);
    const answer = await answering({ ...visit, context });
    return answer instanceof Response ? answer : pageResponse(layout(context, answer));
  }

  #contextOf(session: Session | undefined): PageContext {
    const { name, environment, hidesPayloads, examples } = this.#options;
    return { name, environment, session, hidesPayloads, sendsExamples: examples !== undefined };
  }

  #message(
    c: Context,
    status: number,
    title: string,
    text: string,
    headers: Readonly<Record<string, string>> = {},
  ): Response {
    const session = this.#login.sessionOf(c);
    const body = messagePage(title, text, session !== undefined);
    return pageResponse(layout(this.#contextOf(session), { title, body }), status, headers);
  }
}
