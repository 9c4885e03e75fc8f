import type { TokenRule } from "../../events/store/token_bucket.ts";
import { refusal as refusalOfGithub } from "./_github.ts";
import { type ApiCall, type StandIn, startStandIn } from "./_stand_in.ts";
import { BOT_TOKEN, refusal as refusalOfTelegram } from "./_telegram.ts";

/** A platform's API as far as texts are concerned that are made and edited. */
export interface Dialect {
  /** The limits of calls that make or edit a text. */
  readonly rules: readonly TokenRule[];
  /** Finds the text of a call; undefined if it only reads. */
  textOf(call: ApiCall): string | undefined;
  /** Finds the id of the text that a call edits; undefined if it makes one. */
  idOf(call: ApiCall): number | undefined;
  /** Answers a call that has made or edited a text. */
  answer(id: number): Response;
  /** Answers an edit that changes nothing. */
  unchanged(id: number): Response;
  /** Answers a call that only reads. */
  list(texts: readonly string[]): Response;
  /** Refuses a call beyond a limit. */
  refuse(seconds: number): Response;
}

/** Fault of one of the calls that make or edit a text. */
export interface Trouble {
  /** Number of the call, from 1. */
  readonly at: number;
  /** It is never answered, before or after it had its effect, or refused for no reason. */
  readonly as: "hangs before" | "hangs after" | "is refused";
}

/** A stand-in for a platform's API that enforces its limits. */
export interface LimitedApi extends StandIn {
  /** The texts as they are now. */
  readonly texts: readonly string[];
  /** All that was shown, in the order of time. */
  readonly shown: readonly string[];
  /** Number of calls that were refused. */
  readonly refused: number;
  /** True once a call is never answered. */
  readonly hangs: boolean;
  /** True while it refuses all calls, as it has said. */
  readonly isClosed: boolean;
  /** Holds answers back until the function that it returns is called. */
  withhold(): () => void;
}

/** Seconds for which a call is refused for no reason. */
const CLOSED_SECONDS = 30;

/** Starts a stand-in that refuses calls while there were as many as a limit in the time before, by `Date.now()`. */
export function startLimited(dialect: Dialect, trouble?: Trouble): LimitedApi {
  const [times, texts, shown]: [number[], string[], string[]] = [[], [], []];
  let [count, refused, hangs, closedUntil] = [0, 0, false, 0];
  const refuse = (ms: number) => {
    refused++;
    return dialect.refuse(Math.ceil(ms / 1_000));
  };
  let gate: Promise<void> | undefined;
  const hang = () => {
    hangs = true;
    return new Response(new ReadableStream());
  };
  const respond = (call: ApiCall) => {
    const text = dialect.textOf(call);
    if (text === undefined) return dialect.list(texts);
    const as = ++count === trouble?.at ? trouble.as : undefined;
    const ms = Math.max(closedUntil - Date.now(), leftMs(times, dialect.rules));
    if (ms > 0) return refuse(ms);
    if (as === "hangs before") return hang();
    if (as === "is refused") {
      closedUntil = Date.now() + 1_000 * CLOSED_SECONDS;
      return refuse(1_000 * CLOSED_SECONDS);
    }
    times.push(Date.now());
    const id = dialect.idOf(call) ?? texts.push("");
    if (texts[id - 1] === text) return dialect.unchanged(id);
    texts[id - 1] = text;
    shown.push(text);
    return as === "hangs after" ? hang() : dialect.answer(id);
  };
  const api = startStandIn((call) => {
    const response = respond(call);
    return gate && !(hangs && count === trouble?.at) ? heldBack(response, gate) : response;
  });
  return {
    ...{ ...api, texts, shown },
    withhold: () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      gate = promise;
      return () => {
        gate = undefined;
        resolve();
      };
    },
    get refused() {
      return refused;
    },
    get hangs() {
      return hangs;
    },
    get isClosed() {
      return Date.now() < closedUntil;
    },
  };
}

/** Holds the body of an answer back. */
function heldBack(response: Response, until: Promise<void>): Response {
  const body = new ReadableStream({
    start: async (controller) => {
      await until;
      controller.enqueue(new Uint8Array(await response.arrayBuffer()));
      controller.close();
    },
  });
  return new Response(body, response);
}

/** Calculates for how long there is no room. */
function leftMs(times: readonly number[], rules: readonly TokenRule[]): number {
  return Math.max(...rules.map(({ limit, perMs }) => (times.at(-limit) ?? -Infinity) + perMs)) -
    Date.now();
}

/** Telegram, with one chat: a call a second. */
export const TELEGRAM: Dialect = {
  rules: [{ limit: 1, perMs: 1_000 }],
  textOf: ({ body }) => body.text,
  idOf: ({ path, body }) =>
    path === `/bot${BOT_TOKEN}/editMessageText` ? body.message_id : undefined,
  answer: (id) => Response.json({ ok: true, result: { message_id: id, date: 1 } }),
  unchanged: () => refusalOfTelegram(400, "Bad Request: message is not modified"),
  list: () => refusalOfTelegram(404, "Not Found"),
  refuse: (seconds) => refusalOfTelegram(429, "Too Many Requests", { retry_after: seconds }),
};

const COMMENT = /^\/repos\/octo\/app\/issues\/comments\/(\d+)$/;

/** GitHub, with one issue: what makes or edits comments is limited. */
export const GITHUB: Dialect = {
  rules: [{ limit: 80, perMs: 60_000 }, { limit: 500, perMs: 3_600_000 }],
  textOf: ({ method, body }) => method === "GET" ? undefined : body.body,
  idOf: ({ path }) => COMMENT.test(path) ? Number(COMMENT.exec(path)![1]) : undefined,
  answer: (id) => Response.json({ id }),
  unchanged: (id) => Response.json({ id }),
  list: (texts) => Response.json(texts.map((body, i) => ({ id: i + 1, body }))),
  refuse: (seconds) =>
    refusalOfGithub(403, "You have exceeded a secondary rate limit", {
      "Retry-After": String(seconds),
    }),
};
