import { type Context, Hono } from "@hono/hono";
import { type LogSink, writeLog } from "../core/mod.ts";
import { withDeadline } from "../core/timeouts.ts";
import { clientIp } from "../middleware/mod.ts";
import { acts, changed, progress, resume, stop } from "./_act_pages.ts";
import { act, question } from "./_act_question_pages.ts";
import { Api, type ApiForm } from "./_api_answers.ts";
import { compressed } from "./_compression.ts";
import type { ConsoleData } from "./_console_data.ts";
import { doing, type Planning } from "./_deeds.ts";
import { deliveries } from "./_deliveries_page.ts";
import { delivery, payload } from "./_delivery_page.ts";
import { exported } from "./_export.ts";
import { fixture } from "./_fixture.ts";
import {
  assetResponse,
  Forms,
  type Front,
  isFromHere,
  pageResponse,
  ParameterError,
  PRIVATE,
  redirect,
  Refusal,
  refusalOf,
  STORE_TIMEOUT_MS,
} from "./_http.ts";
import { limits } from "./_limits_page.ts";
import {
  type Answering,
  isOperator,
  layout,
  messagePage,
  type Page,
  type PageContext,
  type SendAnswers,
  type Uses,
  type Visit,
} from "./_layout.ts";
import { Login, REFRESHED, type Session, type Tokens } from "./_login.ts";
import { overview } from "./_overview_page.ts";
import { parked } from "./_parked_page.ts";
import { problem, problems } from "./_problems_page.ts";
import { refusals } from "./_refusals_page.ts";
import { repeat, repeatQuestion } from "./_repeat_page.ts";
import { running } from "./_running_page.ts";
import { schedule, scheduleQuestion, schedules } from "./_schedules_page.ts";
import { forget, state, states } from "./_states_page.ts";
import { wake, wakeQuestion } from "./_wake_page.ts";

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
  /** Names of the variables of the app's platforms, by the names of these. */
  readonly platforms?: ReadonlyMap<string, readonly string[]> | undefined;
  /** Answers to an operator who sends examples, in development; undefined for none. */
  readonly sending: SendAnswers | undefined;
  /** Log. */
  readonly log: LogSink;
}

/** Largest form of an act: a choice of deliveries takes most of it. */
const MAX_ACT_BYTES = 16_384;

/** Largest form that wakes an event: in a form, each byte of a value may take three. */
const MAX_WAKE_FORM_BYTES = 32_768;

/** Creates the routes of a console. */
export function consoleApp(options: ConsoleAppOptions): Hono {
  const { path } = options;
  const board = new Board(options);
  const app = new Hono();
  const answer = async (c: Context) => await compressed(c, await board.answer(c));
  return app.all(path, answer).all(`${path}/*`, answer);
}

/** Answer to a request. */
type Answer = (c: Context) => Promise<Response> | Response;

class Board {
  readonly #options: ConsoleAppOptions;
  readonly #login: Login;
  readonly #pages: ReadonlyMap<string, Answer>;
  readonly #forms: ReadonlyMap<string, Answer>;
  readonly #reader = new Forms();
  readonly #api: Api;
  /** Things that the store has, as they were read last. */
  #uses: Uses | undefined;

  constructor(options: ConsoleAppOptions) {
    this.#options = options;
    const { sending } = options;
    const login = new Login(options, (...page) => this.#respond(undefined, ...page));
    const forms = new Map<string, ApiForm>();
    const visit = (name: string, answering: Answering): [string, Answer] => [
      name,
      (c) => this.#visit(c, name, answering, undefined),
    ];
    const form = (
      name: string,
      answering: Answering,
      maxBytes = MAX_ACT_BYTES,
      planning?: Planning,
    ): [string, Answer] => {
      forms.set(name, { answering, maxBytes, planning });
      return [name, (c) => this.#visit(c, name, answering, maxBytes)];
    };
    const plan = (name: string, planning: Planning, maxBytes?: number) =>
      form(name, doing(planning), maxBytes, planning);
    this.#login = login;
    this.#api = new Api({
      ...options,
      ...{ login, forms, visitOf: (...parts) => this.#visitOf(...parts) },
    });
    this.#pages = new Map([
      ...[visit("", overview), visit("deliveries", deliveries), visit("delivery", delivery)],
      ...[visit("payload", payload), visit("acts", acts), visit("progress", progress)],
      ...[visit("limits", limits), visit("export", exported), visit("changed", changed)],
      visit("refusals", refusals),
      ...[visit("problems", problems), visit("problem", problem)],
      ...[visit("running", running), visit("parked", parked), visit("fixture", fixture)],
      ...[visit("wake", wakeQuestion), visit("repeat", repeatQuestion)],
      visit("schedule", scheduleQuestion),
      ...[visit("schedules", schedules), visit("states", states), visit("state", state)],
      ...[visit("act", question), ...sending ? [visit("send", sending.page)] : []],
    ]).set("login", (c) => login.show(c));
    this.#forms = new Map([
      ...[form("act", act), plan("stop", stop), plan("resume", resume)],
      ...[plan("wake", wake, MAX_WAKE_FORM_BYTES), plan("repeat", repeat)],
      ...[plan("schedule", schedule), plan("forget", forget)],
      ...sending ? [form("send", sending.form, sending.maxBytes)] : [],
    ]).set("login", (c) => login.answer(c)).set("logout", (c) => login.logout(c));
  }

  /** Answers a request, also one that fails. */
  async answer(c: Context): Promise<Response> {
    const api = /^api(?:\/(.*?))?\/?$/.exec(this.#pageOf(c) ?? "");
    if (api) return await this.#api.answer(c, api[1] ?? "");
    try {
      return await withDeadline(this.#route(c), STORE_TIMEOUT_MS);
    } catch (error) {
      const refusal = error instanceof Refusal
        ? refusalOf(error, c.req.raw, this.#pageOf(c) ?? "")
        : this.#failure(c, error);
      const session = this.#login.sessionOf(c);
      const { status, title, headers } = refusal;
      const body = messagePage(refusal, session !== undefined);
      return this.#respond(session, { title, body }, status, headers);
    }
  }

  #failure(c: Context, error: unknown): Refusal {
    const page = this.#pageOf(c)?.slice(0, 20);
    writeLog(this.#options.log, "error", "console page failed", { page, error });
    return new Refusal(503, "Not available", "The event store gave no answer. Try again.");
  }

  /**
   * Finds the page of a request: the part behind the console's path; undefined for the path without a slash. The
   * route tells how long that path is, with any prefix: a page or a prefix may have the same name.
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
    if (isRead && page.includes("/")) return redirect(this.#pageAbove(c, page));
    const asset = isRead ? assetResponse(page) : undefined;
    if (asset) return asset;
    const [read, form] = [this.#pages.get(page), this.#forms.get(page)];
    if (isRead && read) return await read(c);
    if (method === "POST" && form) {
      this.#checkOrigin(c);
      return await form(c);
    }
    if (read || form) {
      const Allow = [...read ? ["GET", "HEAD"] : [], ...form ? ["POST"] : []].join(", ");
      throw new Refusal(405, "Not possible", "This page cannot be asked for that way.", { Allow });
    }
    if (!this.#login.sessionOf(c)) return this.#login.lead(c, page);
    throw new Refusal(404, "Not found", "There is no such page.");
  }

  /** Finds the page that an address below the pages means: the one with a slash behind it, or the first one. */
  #pageAbove(c: Context, page: string): string {
    const name = page.slice(0, -1);
    if (page.endsWith("/") && this.#pages.has(name)) {
      return `../${name}${new URL(c.req.url).search}`;
    }
    return "../".repeat(page.split("/").length - 1);
  }

  /** Checks that a page of the console has sent a form. */
  #checkOrigin(c: Context): void {
    if (isFromHere(c, this.#options.front)) return;
    throw new Refusal(
      403,
      "Refused",
      "The form was not sent by a page of this console. Behind a proxy, set TRUSTED_PROXY_HOPS, and have it " +
        "pass on the host and the scheme of the request.",
    );
  }

  /**
   * Answers a request of a reader who has logged in; others are led to the login. Pages with a form are for operators:
   * the forms of anybody else are not read.
   */
  async #visit(
    c: Context,
    page: string,
    answering: Answering,
    maxBytes: number | undefined,
  ): Promise<Response> {
    const session = this.#login.sessionOf(c);
    if (!session) return this.#login.lead(c, page);
    const isForm = maxBytes !== undefined;
    const isPoll = !isForm && REFRESHED.includes(page) && c.req.header("X-Poll") !== undefined;
    if (isPoll) c.set("isPoll", true);
    const context = { ...this.#contextOf(session), session };
    if (this.#forms.has(page) && !isOperator(context)) {
      const why = "Viewers look. Log in with an operator's token to act.";
      throw new Refusal(403, "Not allowed", why);
    }
    const parameters = isForm
      ? await this.#reader.read(c, maxBytes)
      : new URL(c.req.url).searchParams;
    await this.#readUses();
    const answer = await answering(this.#visitOf(c, session, parameters, isPoll));
    return answer instanceof Response
      ? answer
      : this.#respond(session, answer, answer.flaw === undefined ? 200 : 400);
  }

  #visitOf(c: Context, session: Session, parameters: URLSearchParams, isPoll = false): Visit {
    const { data, trustedProxyHops } = this.#options;
    const context = { ...this.#contextOf(session), session };
    if (context.hidesPayloads && parameters.has("q")) {
      throw new ParameterError("'q' looks for what is hidden here: use 'name'");
    }
    const from = clientIp(c, { trustedProxyHops }) ?? "an unknown address";
    const by = `${session.role} ${session.id.slice(0, 4)} from ${from}`;
    return { data, context, parameters, isPoll, by };
  }

  /** Finds out what the store has, if that can be read: otherwise the page itself says so. */
  async #readUses(): Promise<void> {
    try {
      this.#uses = await this.#options.data.uses();
    } catch {
      this.#uses = undefined;
    }
  }

  #respond(
    session: Session | undefined,
    page: Page,
    status?: number,
    headers?: Readonly<Record<string, string>>,
  ): Response {
    const caching: Record<string, string> = page.isPrivate ? { "Cache-Control": PRIVATE } : {};
    const html = layout(this.#contextOf(session), page);
    return pageResponse(html, status, { ...caching, ...headers });
  }

  #contextOf(session: Session | undefined): PageContext {
    const { name, environment, hidesPayloads, sending, platforms } = this.#options;
    const sendsExamples = sending !== undefined;
    const uses = this.#uses;
    return { name, environment, session, hidesPayloads, sendsExamples, platforms, uses };
  }
}
