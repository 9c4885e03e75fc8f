import { fieldOf } from "../core/parse_json.ts";
import {
  type ApiAnswer,
  ApiError,
  callApi,
  type Hints,
  quoted,
  unknownForm,
} from "../core/call_api.ts";
import { retryAfterOf } from "../core/retry_at.ts";
import type { Forwarder } from "./_forward.ts";
import { elementsOf, memberOf } from "../core/json_text.ts";
import { agoOf } from "./_output.ts";
import { shownUrl } from "./_secrets.ts";
import { messengerUpdate } from "../testing/mod.ts";

/** Time that Telegram holds a request for updates while there are none. */
const POLL_SECONDS = 30;

/** Time beyond that for an answer with up to 100 updates. */
const POLL_EXTRA_MS = 30_000;

/** Shortest time between two requests that bring nothing new. */
const MIN_POLL_MS = 1_000;

/** Longest wait for the last request, which confirms what the app has answered. */
const CONFIRM_MS = 5_000;

/** Latest time that a `Date` can hold, in seconds. */
const MAX_DATE_SECONDS = 8_640_000_000_000;

/** Hints for errors, by their codes. */
const HINTS: Hints = {
  401: "the token in TELEGRAM_BOT_TOKEN is wrong or revoked, @BotFather shows the right one",
  404: "the token in TELEGRAM_BOT_TOKEN is wrong, or --api is not the address of a Bot API",
  409: "another program fetches this bot's updates, or a webhook was registered meanwhile. " +
    "Stop it, or use --take-over",
};

/** Registration of a bot's webhook, as `getWebhookInfo` describes it. */
interface WebhookInfo {
  readonly url: string;
  readonly pending: number;
  readonly events: readonly string[] | undefined;
  readonly lastError: { readonly at: number; readonly message: string } | undefined;
}

/** A bot's API: what `connect telegram` does with it. */
export class Telegram {
  readonly #forwarder: Forwarder;

  constructor(forwarder: Forwarder) {
    this.#forwarder = forwarder;
  }

  /** Registers the webhook. */
  async register(): Promise<void> {
    const { options: { webhook, secret, events, json, ...options }, world } = this.#forwarder;
    await this.#call("setWebhook", {
      ...{ url: webhook, secret_token: secret },
      ...allowedUpdates(events),
      ...options["drop-pending"] && { drop_pending_updates: "true" },
    });
    if (!json) world.out(`registered  ${shownUrl(webhook)}`);
  }

  /** Shows what is registered. */
  async show(): Promise<void> {
    const { options: { json }, world: { out, now } } = this.#forwarder;
    const info = await this.#info();
    const url = info.url === "" ? "" : shownUrl(info.url);
    if (json) {
      out(JSON.stringify({ ...info, url }));
      return;
    }
    out(`webhook     ${url || "none"}`);
    out(`pending     ${info.pending} update${info.pending === 1 ? "" : "s"}`);
    out(`events      ${info.events?.join(", ") || "those that Telegram sends by default"}`);
    if (info.lastError === undefined) return;
    out(`last error  ${agoOf(info.lastError.at, now())}: ${info.lastError.message}`);
  }

  /**
   * Fetches updates and hands them to the app. Telegram forgets an update once a later one is asked for, which
   * happens only when the app has answered it.
   */
  async forward(): Promise<never> {
    const forwarder = this.#forwarder;
    await this.#makeWayForPolling();
    forwarder.begin("Updates");
    let offset: string | undefined;
    let confirmed: string | undefined;
    try {
      for (;;) {
        const startedAt = performance.now();
        const asked = offset;
        const updates = await forwarder.persist(() => this.#poll(asked));
        confirmed = asked;
        for (const { id, type, json } of updates) {
          const { secret } = forwarder.options;
          await forwarder.hand({ type, id }, messengerUpdate(json, { from: "telegram", secret }));
          offset = String(BigInt(id) + 1n);
        }
        const isQuick = performance.now() - startedAt < MIN_POLL_MS;
        if (isQuick && offset === asked) await forwarder.world.sleep(MIN_POLL_MS, forwarder.signal);
      }
    } finally {
      if (offset !== undefined && offset !== confirmed) await this.#confirm(offset);
    }
  }

  /** Tells Telegram which updates the app has answered, so that the next run does not get them again. */
  async #confirm(offset: string): Promise<void> {
    const { signal } = new AbortController();
    const params = { offset, limit: "1", timeout: "0" };
    await this.#call("getUpdates", params, CONFIRM_MS, signal).catch(() =>
      this.#forwarder.world.err(
        "Telegram could not be told which updates were handed over: some come again, as duplicates",
      )
    );
  }

  async #poll(offset: string | undefined): Promise<Update[]> {
    const params = {
      timeout: String(POLL_SECONDS),
      ...offset !== undefined && { offset },
      ...allowedUpdates(this.#forwarder.options.events),
    };
    const timeoutMs = POLL_SECONDS * 1_000 + POLL_EXTRA_MS;
    const result = await this.#call("getUpdates", params, timeoutMs);
    if (!result.startsWith("[")) throw unknownForm(nameOf("getUpdates"), "no list");
    return elementsOf(result).map((json) => {
      const id = memberOf(json, "update_id");
      if (id === undefined || !/^\d{1,20}$/.test(id)) {
        throw unknownForm(nameOf("getUpdates"), "an update without id");
      }
      const type = Object.keys(JSON.parse(json)).find((name) => name !== "update_id");
      return { id, type: quoted(type) || "update", json };
    });
  }

  /** Makes sure that no webhook is registered: with one, Telegram hands out no updates. */
  async #makeWayForPolling(): Promise<void> {
    const forwarder = this.#forwarder;
    const { url } = await forwarder.persist(() => this.#info());
    if (url === "") return;
    const shown = shownUrl(url);
    if (!forwarder.options["take-over"]) {
      const host = URL.parse(url)?.host ?? shown;
      throw new Error(
        `A webhook is registered at ${host}, so Telegram hands out no updates: --take-over deletes it, ` +
          "and then the app there gets none",
      );
    }
    await forwarder.persist(() => this.#call("deleteWebhook", {}));
    forwarder.world.err(
      `The webhook ${shown} is deleted: the app there gets no updates until you register it again, ` +
        "with connect telegram URL",
    );
  }

  async #info(): Promise<WebhookInfo> {
    const info = JSON.parse(await this.#call("getWebhookInfo", {}));
    const [url, pending] = [fieldOf(info, "url"), fieldOf(info, "pending_update_count")];
    if (typeof url !== "string" || !Number.isSafeInteger(pending)) {
      throw unknownForm(nameOf("getWebhookInfo"), "no webhook");
    }
    const events = fieldOf(info, "allowed_updates");
    return {
      ...{ url, pending: pending as number },
      events: Array.isArray(events) ? events.map(quoted) : undefined,
      lastError: lastErrorOf(info),
    };
  }

  /**
   * Calls a method.
   *
   * @returns The text of the result.
   * @throws {ApiError} If the method fails.
   */
  async #call(
    method: string,
    params: Readonly<Record<string, string>>,
    timeoutMs?: number,
    signal = this.#forwarder.signal,
  ): Promise<string> {
    const { options: { api, token }, world } = this.#forwarder;
    const answer = await callApi({
      ...{ name: nameOf(method), url: `${api}/bot${token}/${method}` },
      ...{ method: "POST", body: new URLSearchParams(params), signal, hints: HINTS },
      ...timeoutMs !== undefined && { timeoutMs },
    });
    const result = fieldOf(answer.json, "ok") === true && memberOf(answer.text, "result");
    if (result) return result;
    throw refusalOf(method, answer, world.now());
  }
}

/** Makes the name of a method for messages. */
function nameOf(method: string): string {
  return `Telegram's API (${method})`;
}

/** An update, as it was written. */
interface Update {
  readonly id: string;
  readonly type: string;
  readonly json: string;
}

function lastErrorOf(info: unknown): WebhookInfo["lastError"] {
  const at = fieldOf(info, "last_error_date");
  if (typeof at !== "number" || !(at >= 0 && at <= MAX_DATE_SECONDS)) return undefined;
  return { at: at * 1_000, message: quoted(fieldOf(info, "last_error_message")) };
}

/** Formats the kinds of updates. An empty list stands for those that Telegram sends by default. */
function allowedUpdates(events: readonly string[] | undefined): { allowed_updates?: string } {
  if (events === undefined) return {};
  return { allowed_updates: JSON.stringify(events.filter((each) => each !== "*")) };
}

function refusalOf(method: string, { status, headers, json }: ApiAnswer, now: number): ApiError {
  const description = quoted(fieldOf(json, "description"));
  if (fieldOf(json, "ok") !== false || description === "") {
    return unknownForm(nameOf(method), "no result", status);
  }
  const errorCode = fieldOf(json, "error_code");
  const code = Number.isSafeInteger(errorCode) ? errorCode as number : status;
  const seconds = fieldOf(fieldOf(json, "parameters"), "retry_after");
  return new ApiError(`${nameOf(method)} answers ${code} ${description}`, {
    ...{ status: code, isTemporary: code === 429 || code >= 500, hints: HINTS },
    retryAfterMs: typeof seconds === "number" ? seconds * 1_000 : retryAfterOf(headers, now),
  });
}
