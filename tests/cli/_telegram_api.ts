/** Token of the bot that {@linkcode FakeTelegram} knows. */
export const BOT_TOKEN = "123456:AAbot-token_for-tests-only_0123456789";

/** Call that was made. */
export interface TelegramCall {
  readonly method: string;
  readonly params: Readonly<Record<string, string>>;
}

/** Bot API on this machine, which answers as https://core.telegram.org/bots/api describes. */
export class FakeTelegram implements AsyncDisposable {
  readonly calls: TelegramCall[] = [];
  /** Answers that are given before any other, each once, to the methods named. */
  readonly insteadOf: Record<string, (() => Response | Promise<Response>)[]> = {};
  /** Parameters of the webhook that is registered; without a URL there is none. */
  webhook: Readonly<Record<string, string>> = { url: "" };
  /** Further fields of the webhook's description. */
  info: object = {};
  readonly url: string;
  /** Updates that nobody has confirmed, as they are written. */
  #updates: { readonly id: bigint; readonly json: string }[] = [];
  readonly #waiting = new Set<() => void>();
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  constructor() {
    const quiet = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
    this.#server = Deno.serve(quiet, (request) => this.#answer(request));
    this.url = `http://127.0.0.1:${this.#server.addr.port}`;
  }

  /** Adds an update, as it is written. */
  push(json: string): void {
    const [, id] = /"update_id"\s*:\s*(\d+)/.exec(json)!;
    this.#updates.push({ id: BigInt(id!), json });
    this.#wake();
  }

  /** The number of updates that nobody has confirmed. */
  get pending(): number {
    return this.#updates.length;
  }

  /** The calls of a method. */
  callsOf(method: string): TelegramCall[] {
    return this.calls.filter((call) => call.method === method);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = this.#server.shutdown();
    this.#wake();
    await ended;
  }

  #wake(): void {
    for (const wake of this.#waiting) wake();
  }

  async #answer(request: Request): Promise<Response> {
    const [, token, method = ""] = /^\/bot([^/]+)\/(\w+)$/.exec(new URL(request.url).pathname) ??
      [];
    const params = Object.fromEntries(new URLSearchParams(await request.text()));
    this.calls.push({ method, params });
    const instead = this.insteadOf[method]?.shift();
    if (instead !== undefined) return await instead();
    if (token !== BOT_TOKEN) return refusal(401, "Unauthorized");
    if (method === "getWebhookInfo") return result({ ...this.#info() });
    if (method === "setWebhook") return this.#setWebhook(params);
    if (method === "deleteWebhook") {
      this.webhook = { url: "" };
      return result(true, "Webhook was deleted");
    }
    if (method === "getUpdates") return await this.#getUpdates(params);
    return refusal(404, "Not Found");
  }

  #info(): object {
    return {
      ...{ url: this.webhook.url, has_custom_certificate: false },
      ...{ pending_update_count: this.#updates.length },
      ...this.webhook.url && { max_connections: 40 },
      ...this.webhook.allowed_updates &&
        { allowed_updates: JSON.parse(this.webhook.allowed_updates) },
      ...this.info,
    };
  }

  #setWebhook(params: Record<string, string>): Response {
    if (!params.url?.startsWith("https://")) {
      return refusal(400, "Bad Request: bad webhook: An HTTPS URL must be provided for webhook");
    }
    if (!/^[\w-]{1,256}$/.test(params.secret_token ?? "")) {
      return refusal(400, "Bad Request: secret token contains unallowed characters");
    }
    if (params.drop_pending_updates === "true") this.#updates = [];
    this.webhook = params;
    return result(true, "Webhook was set");
  }

  async #getUpdates(params: Record<string, string>): Promise<Response> {
    if (this.webhook.url !== "") {
      return refusal(
        409,
        "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete " +
          "the webhook first",
      );
    }
    const from = BigInt(params.offset ?? 0);
    this.#updates = this.#updates.filter(({ id }) => id >= from);
    if (this.#updates.length === 0 && params.timeout !== "0") await this.#next();
    const updates = this.#updates.slice(0, Number(params.limit ?? 100)).map(({ json }) => json);
    return new Response(`{"ok":true,"result":[${updates.join(",\n")}]}`, JSON_TYPE);
  }

  /** Waits for an update, or the end of the test: no test waits for as long as a client asks for. */
  async #next(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.add(resolve);
    await promise;
    this.#waiting.delete(resolve);
  }
}

const JSON_TYPE = { headers: { "Content-Type": "application/json" } };

/** Writes a message of a user, as an update. */
export function message(updateId: number | string, userId = 42, text = "hello"): string {
  const from = { id: userId, is_bot: false, first_name: "Ada" };
  const content = { message_id: 1, date: 1, chat: { id: userId, type: "private" }, from, text };
  return `{"update_id":${updateId},\n"message":${JSON.stringify(content)}}`;
}

/** Makes the answer to a method that failed. */
export function refusal(code: number, description: string, parameters?: object): Response {
  const body = { ok: false, error_code: code, description, ...parameters && { parameters } };
  return Response.json(body, { status: code });
}

function result(value: unknown, description?: string): Response {
  return Response.json({ ok: true, result: value, ...description && { description } });
}
