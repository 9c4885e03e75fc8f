/**
 * Answers to programs, below `api/` beside the pages: who may ask, what is read, and the form of errors.
 *
 * @module
 */
import type { Context } from "@hono/hono";
import { type LogSink, writeLog } from "../core/mod.ts";
import { withDeadline } from "../core/timeouts.ts";
import { askAct, doAct, hideAct } from "./_acting.ts";
import { READINGS } from "./_api.ts";
import { checkNames, FORM_NAMES, PAGE_NAMES } from "./_api_names.ts";
import type { ConsoleData } from "./_console_data.ts";
import { dryRunOf, type PlanDryRun, type Planning } from "./_deeds.ts";
import { payload } from "./_delivery_page.ts";
import { exported } from "./_export.ts";
import { fixture } from "./_fixture.ts";
import {
  Forms,
  type Front,
  isFromHere,
  jsonResponse,
  PRIVATE,
  Refusal,
  refusalOf,
  STORE_TIMEOUT_MS,
} from "./_http.ts";
import type { Answering, Page, Visit } from "./_layout.ts";
import type { Login, Session } from "./_login.ts";
import { KINDS, word } from "./_query.ts";

/** Form of the console, which programs send as JSON. */
export interface ApiForm {
  readonly answering: Answering;
  readonly maxBytes: number;
  /** Reads what it asks for, for a dry run; undefined if it has none, or one of its own. */
  readonly planning?: Planning | undefined;
}

/** Parts that programs are answered with. */
export interface ApiParts {
  readonly data: ConsoleData;
  readonly login: Login;
  readonly front: Front;
  readonly hidesPayloads: boolean;
  readonly log: LogSink;
  /** Forms by their names. */
  readonly forms: ReadonlyMap<string, ApiForm>;
  /** Makes the visit of somebody who has a session. */
  readonly visitOf: (c: Context, session: Session, parameters: URLSearchParams) => Visit;
}

/** Codes of errors by their statuses, as the rest of an app has them. */
const CODES: Readonly<Record<number, string>> = {
  400: "BAD_REQUEST",
  401: "UNAUTHORIZED",
  403: "FORBIDDEN",
  404: "NOT_FOUND",
  405: "METHOD_NOT_ALLOWED",
  408: "REQUEST_TIMEOUT",
  409: "CONFLICT",
  415: "UNSUPPORTED_MEDIA_TYPE",
  429: "RATE_LIMITED",
  503: "UNAVAILABLE",
};

/** Pages that are files, and no JSON. */
const FILES: Readonly<Record<string, (visit: Visit) => Promise<Response> | Response>> = {
  ...{ payload, fixture, export: exported },
};

/** Further facts about acts: their kinds, and the names that they are done in. */
const DETAILS: Readonly<Record<string, object>> = {
  act: { kinds: KINDS },
  wake: { kinds: ["wake", "answer"], as: "one of the 'senders' that the page 'wake' names" },
  schedule: { kinds: ["run", "pause", "resume"] },
};

/** Answers to programs. */
export class Api {
  readonly #parts: ApiParts;
  readonly #bodies = new Forms();

  constructor(parts: ApiParts) {
    this.#parts = parts;
  }

  /** Answers a request for the page with a name, also one that fails. */
  async answer(c: Context, name: string): Promise<Response> {
    try {
      return await withDeadline(this.#route(c, name), STORE_TIMEOUT_MS);
    } catch (error) {
      if (!(error instanceof Refusal)) return errorOf(this.#failure(name, error));
      return errorOf(refusalOf(error, c.req.raw, name));
    }
  }

  #failure(name: string, error: unknown): Refusal {
    writeLog(this.#parts.log, "error", "console page failed", {
      page: `api/${name.slice(0, 20)}`,
      error,
    });
    return new Refusal(503, "Not available", "The event store gave no answer. Try again.");
  }

  async #route(c: Context, name: string): Promise<Response> {
    const { login, forms } = this.#parts;
    const { session, isByToken } = login.programOf(c);
    const { method } = c.req;
    const isRead = method === "GET" || method === "HEAD";
    const isPage = name === "" || Object.hasOwn(FILES, name) || Object.hasOwn(READINGS, name);
    if (isRead && isPage) return await this.#read(c, name, session);
    const form = forms.get(name);
    if (method === "POST" && form) return await this.#act(c, name, form, { session, isByToken });
    if (isPage || form) {
      const Allow = [...isPage ? ["GET", "HEAD"] : [], ...form ? ["POST"] : []].join(", ");
      throw new Refusal(405, "Not possible", "This cannot be asked for that way.", { Allow });
    }
    throw new Refusal(404, "Not found", "There is nothing of this name. Below api/ is a list.");
  }

  async #read(c: Context, name: string, session: Session): Promise<Response> {
    const { data, hidesPayloads } = this.#parts;
    const { searchParams } = new URL(c.req.url);
    const visit = this.#parts.visitOf(c, session, searchParams);
    checkNames(searchParams, PAGE_NAMES[name]);
    if (name === "") return jsonResponse(this.#outline(visit));
    if (Object.hasOwn(FILES, name)) return await FILES[name]!(visit);
    const { read, hide, isPrivate } = READINGS[name]!;
    if (hidesPayloads && !hide) {
      throw new Refusal(403, "Hidden", "The app hides payloads, and this page as well.");
    }
    const found = await read(data, searchParams, hidesPayloads);
    const shown = hidesPayloads ? hide!(found as never) : found;
    return isPrivate?.(found as never) === false ? jsonResponse(shown) : privateResponse(shown);
  }

  /** Tells a program where it is, who it is, what there is to read, and what it may do. */
  #outline({ by, context: { name: app, environment, session: { role }, hidesPayloads } }: Visit) {
    const { forms } = this.#parts;
    const acts = [...forms].map(([act, { planning }]) => [
      act,
      { hasDryRun: act === "act" || planning !== undefined, ...DETAILS[act] },
    ]);
    return {
      ...{ app, environment, hidesPayloads },
      you: { name: by, role, acts: Object.fromEntries(role === "operator" ? acts : []) },
      pages: [...Object.keys(READINGS), ...Object.keys(FILES)],
      acts: [...forms.keys()],
    };
  }

  /**
   * Takes a form as JSON. With a token it may come from anywhere, since no browser sends one by itself; with the cookie
   * of a login it must come from a page of the console.
   */
  async #act(
    c: Context,
    name: string,
    { answering, maxBytes, planning }: ApiForm,
    { session, isByToken }: { readonly session: Session; readonly isByToken: boolean },
  ): Promise<Response> {
    const { front, data } = this.#parts;
    if (!isByToken && !isFromHere(c, front)) {
      throw new Refusal(403, "Refused", "It was not sent by a page of this console. Send a token.");
    }
    if (session.role !== "operator") {
      throw new Refusal(403, "Not allowed", "Viewers look. Send an operator's token to act.");
    }
    const visit = this.#parts.visitOf(c, session, await this.#bodies.readJson(c, maxBytes));
    const { parameters, by } = visit;
    checkNames(parameters, FORM_NAMES[name]);
    const dryRun = word(parameters, "dryRun", ["true", "false"]) === "true";
    if (name === "act" && dryRun) {
      const asked = await askAct(data, parameters);
      if (!asked.isMore) return privateResponse(asked);
      return privateResponse(asked, 202, { "Retry-After": "1" });
    }
    if (name === "act") {
      const act = await doAct(data, parameters, by);
      const told = this.#parts.hidesPayloads ? hideAct(act) : act;
      return privateResponse({ act: told }, act.state === "running" ? 202 : 200);
    }
    if (dryRun) return privateResponse(await askPlan(planning, visit));
    const answer = await answering(visit);
    checkFlaw(answer);
    const page = answer instanceof Response ? answer.headers.get("Location") : undefined;
    await checkDone(data, page);
    return privateResponse({ ok: true, page });
  }
}

/**
 * Finds what a form would do. It begins nothing.
 *
 * @throws {Refusal} 400 if the form has no dry run, or is not filled in as it must be.
 */
async function askPlan(planning: Planning | undefined, visit: Visit): Promise<PlanDryRun> {
  if (!planning) throw new Refusal(400, "Wrong parameter", "This act has no dry run.");
  const planned = await planning(visit);
  if ("run" in planned) return dryRunOf(planned);
  checkFlaw(planned);
  throw new Refusal(400, "Wrong form", "The form is not complete.");
}

/** Refuses a form that is shown again, with what is wrong with it. */
function checkFlaw(answer: Page | Response): void {
  const flaw = answer instanceof Response ? undefined : answer.flaw;
  if (flaw !== undefined) throw new Refusal(400, "Wrong form", flaw);
}

/**
 * Checks what has become of a form that leads to the page of its act.
 *
 * @throws {Refusal} 500 if the act has failed: a page of the console would show why.
 */
async function checkDone({ acts }: ConsoleData, page: string | null | undefined): Promise<void> {
  const [, query] = /^progress\?(.*)$/.exec(page ?? "") ?? [];
  const act = query === undefined
    ? null
    : await acts.get(new URLSearchParams(query).get("id") ?? "");
  if (act?.state !== "failed" || act.query) return;
  throw new Refusal(500, "Failed", act.error ?? "The act has failed.");
}

/** Makes an answer that may have what senders or handlers have written: it is not compressed. */
const privateResponse = (
  value: unknown,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): Response => jsonResponse(value, status, { "Cache-Control": PRIVATE, ...headers });

/** Makes the answer to a request that is refused, in the shape that all errors of an app have. */
function errorOf({ status, message, headers }: Refusal): Response {
  const code = headers["X-Error-Code"] ?? CODES[status] ?? "INTERNAL";
  return privateResponse({ error: message }, status, { ...headers, "X-Error-Code": code });
}
