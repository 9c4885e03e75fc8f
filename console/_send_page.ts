import { html } from "@hono/hono/html";
import type { Platform } from "../webhook/mod.ts";
import {
  forgeDelivery,
  type ForgeSender,
  messengerUpdate,
  type TestDelivery,
} from "../testing/deliveries.ts";
import { SLACK_EXAMPLES, slackDelivery, withSlackId } from "../testing/slack_delivery.ts";
import { STRIPE_EXAMPLES, stripeDelivery } from "../testing/stripe_delivery.ts";
import { type Html, link, shown } from "./_format.ts";
import { ParameterError } from "./_http.ts";
import { a, current, note, type Page, type SendAnswers, tag, type Visit } from "./_layout.ts";
import { text, word } from "./_query.ts";

/** Largest form with an example. */
const MAX_EXAMPLE_BYTES = 262_144;

/** Longest payload as a form encodes it: the other fields take the rest. */
const MAX_ENCODED = MAX_EXAMPLE_BYTES - 1_144;

/** Parts of an app that examples are sent with, in development. */
export interface ExampleParts {
  /** Platforms of the app. */
  readonly platforms: readonly Platform[];
  /** Reads a variable, for the secrets that deliveries are signed with. */
  readonly variable: (name: string) => string | undefined;
  /** Answers a request as the app does. */
  readonly fetch: (request: Request) => Promise<Response>;
}

const REPOSITORY = {
  ...{ id: 1_296_269, name: "hello-world", full_name: "octocat/hello-world", private: false },
  owner: { id: 583_231, login: "octocat", type: "User" },
};

const SENDER = { id: 583_231, login: "octocat", type: "User" };

const USER = { id: 42, is_bot: false, first_name: "Ada", username: "ada" };

const CHAT = { id: 42, type: "private" };

const COMMIT = { id: "6dcb09b5b57875f334f61aebed695e2e4193db5e", message: "Fix all the bugs" };

/** Examples for code hosts, by type. */
const FORGE: Readonly<Record<string, object>> = {
  push: { ref: "refs/heads/main", after: COMMIT.id, commits: [COMMIT], head_commit: COMMIT },
  issues: {
    action: "opened",
    issue: { id: 1, number: 1_347, title: "Found a bug", body: "Help!" },
  },
  issue_comment: {
    ...{ action: "created", issue: { id: 1, number: 1_347, title: "Found a bug" } },
    comment: { id: 1, body: "Me too" },
  },
  pull_request: {
    ...{ action: "opened", number: 1_347 },
    pull_request: { id: 1, number: 1_347, title: "Amazing new feature", draft: false },
  },
  release: { action: "published", release: { id: 1, tag_name: "v1.0.0", name: "v1.0.0" } },
};

const MESSAGE = { message_id: 1, date: 1_767_225_600, chat: CHAT, from: USER, text: "hello" };

/** Examples for messengers, by type. */
const MESSENGER: Readonly<Record<string, object>> = {
  message: { message: MESSAGE },
  edited_message: { edited_message: { ...MESSAGE, edit_date: MESSAGE.date + 60 } },
  callback_query: {
    callback_query: { id: "1", from: USER, message: MESSAGE, chat_instance: "1", data: "yes" },
  },
};

/** Examples by kind of platform, and by type. */
const EXAMPLES: Readonly<Record<string, Readonly<Record<string, object>>>> = {
  ...{ forge: FORGE, messenger: MESSENGER, slack: SLACK_EXAMPLES, stripe: STRIPE_EXAMPLES },
};

/** Examples for a platform, by type. */
const examplesOf = ({ kind }: Platform): Readonly<Record<string, object>> => EXAMPLES[kind]!;

/** Writes an example. */
function exampleOf(platform: Platform, type: string): string {
  const example = examplesOf(platform)[type];
  const from = platform.kind === "forge" ? { repository: REPOSITORY, sender: SENDER } : {};
  const named = platform.kind === "stripe" ? { type } : {};
  return JSON.stringify({ ...named, ...example, ...from }, null, 2);
}

/** Result of sending an example. */
interface SentExample {
  /** Answer of the app. */
  readonly response: Response;
  /** Id that the event of the delivery has, if it is stored. */
  readonly eventId: string;
}

/** Sender of example deliveries to the app itself, on the platforms whose secrets are in variables. */
export class ExampleSender {
  readonly #parts: ExampleParts;
  /** Platforms that it can send to. */
  readonly platforms: readonly Platform[];

  constructor(parts: ExampleParts) {
    this.#parts = parts;
    this.platforms = parts.platforms.filter((platform) =>
      Object.hasOwn(EXAMPLES, platform.kind) && this.#secretOf(platform)
    );
  }

  #secretOf({ testSecrets }: Platform) {
    const { variable } = this.#parts;
    const found = Object.entries(testSecrets).find(([name]) => variable(name)?.trim());
    return found && { kind: found[1], secret: variable(found[0])! };
  }

  /** Signs and sends a delivery of a type, whose payload is a JSON document. */
  async send(name: string, type: string, payload: string): Promise<SentExample> {
    const platform = this.platforms.find((each) => each.name === name);
    if (!platform) {
      const known = this.platforms.map(({ name }) => name).join(", ") || "none";
      throw new ParameterError(`'platform' must be one that the console signs for: ${known}`);
    }
    if (!Object.hasOwn(examplesOf(platform), type)) {
      throw new ParameterError("'type' must be one of the examples'");
    }
    const { id, delivery } = deliveryOf(platform, type, payload, this.#secretOf(platform)!);
    const { method, headers, body } = delivery;
    const url = new URL(platform.path, "http://localhost");
    const response = await this.#parts.fetch(new Request(url, { method, headers, body }));
    return { response, eventId: `${name}:${id}` };
  }
}

/** Signs a delivery, and returns it with its id. */
function deliveryOf(
  platform: Platform,
  type: string,
  payload: string,
  { kind, secret }: { readonly kind: string; readonly secret: string },
): { readonly id: string; readonly delivery: TestDelivery } {
  const id = crypto.randomUUID();
  if (platform.kind === "messenger") {
    const id = numberOf(payload);
    const from = messengerOf(platform);
    return { id, delivery: messengerUpdate(numbered(payload, id), { from, secret }) };
  }
  if (platform.kind === "forge") {
    const from = forgeOf(platform, kind, secret);
    return { id, delivery: forgeDelivery(type, payload, { from, secret, id }) };
  }
  const isSlack = platform.kind === "slack";
  const given = identified(payload, (each) => isSlack ? withSlackId(each, id) : { id, ...each });
  const { event_id, trigger_id, id: own } = given as Readonly<Record<string, unknown>>;
  const document = Object.keys(given).length > 0 ? given : payload;
  const delivery = isSlack
    ? slackDelivery(document, { secret })
    : stripeDelivery(document, { secret });
  return { id: String(event_id ?? trigger_id ?? own), delivery };
}

/** Gives a document an id; an empty object for what is no JSON object, which is sent as it is. */
function identified(document: string, withId: (payload: object) => object): object {
  try {
    const payload = JSON.parse(document);
    return typeof payload === "object" && payload !== null ? withId(payload) : {};
  } catch {
    return {};
  }
}

/** Finds the sender whose headers and signature a platform takes. */
function forgeOf({ name }: Platform, kind: string, secret: string): ForgeSender {
  if (name === "gitea" || name === "forgejo") return name;
  if (kind === "signing") return "github";
  return kind === "gitlab" && secret.startsWith("whsec_") ? "gitlab" : "gitlab-token";
}

const messengerOf = ({ name }: Platform) => name === "telegram" ? "telegram" : "messenger";

/** Finds the number of an update, or makes one. */
function numberOf(payload: string): string {
  const [, own] = UPDATE_ID.exec(payload) ?? [];
  return own ?? String(Date.now() % 2 ** 31);
}

const UPDATE_ID = /^\s*\{\s*"update_id"\s*:\s*(\d{1,15})\s*[,}]/;

/** Puts the number into an update that has none. */
function numbered(payload: string, id: string): string {
  if (UPDATE_ID.test(payload)) return payload;
  return payload.replace(/^\s*\{(\s*\})?/, (_, end) => `{"update_id":${id}${end ?? ","}`);
}

/**
 * Makes the answers to an operator who sends examples: the form, and what follows it.
 *
 * @returns The answers; undefined if the app has only platforms that there are no examples for.
 */
export function sendAnswers(parts: ExampleParts): SendAnswers | undefined {
  if (!parts.platforms.some(({ kind }) => Object.hasOwn(EXAMPLES, kind))) return undefined;
  const sender = new ExampleSender(parts);
  return {
    maxBytes: MAX_EXAMPLE_BYTES,
    page: (visit) => show(sender, visit),
    async form(visit) {
      const { parameters } = visit;
      const [platform, type] = [parameters.get("platform") ?? "", text(parameters, "type") ?? ""];
      const payload = parameters.get("payload") ?? "";
      const { response, eventId } = await sender.send(platform, type, payload);
      const { status, ok } = response;
      const open = ok && [" · ", a(link("delivery", { id: eventId }), "Open it")];
      const answer = tag("p", `Answered ${status}: ${shown(await response.text(), 300)}`, open);
      return show(sender, visit, payload, note("status", status >= 300, answer));
    },
  };
}

/** Shows the form for an example, or for the payload that was sent last, with its result. */
function show({ platforms }: ExampleSender, visit: Visit, payload?: string, result?: Html): Page {
  const { parameters } = visit;
  const name = word(parameters, "platform", platforms.map((each) => each.name));
  const type = text(parameters, "type") ?? "";
  const platform = platforms.find((each) => each.name === name) ?? platforms[0];
  const body = platform ? form(platforms, platform, type, payload, result) : nothing();
  return { title: "Send an example", at: "send", body };
}

const nothing = () =>
  html`
    ${tag("h1", "Send an example")}<div class="empty">
      <p>The console can sign for none of the platforms: it needs a built-in one whose secret is in a variable.
    Sign a delivery with <code>deno task send</code>.</p>
    </div>
  `;

function form(
  platforms: readonly Platform[],
  platform: Platform,
  type: string,
  payload: string | undefined,
  result: Html | undefined,
): Html {
  const { name } = platform;
  const examples = examplesOf(platform);
  const chosen = Object.hasOwn(examples, type) ? type : Object.keys(examples)[0]!;
  const links = platforms.flatMap((each) =>
    Object.keys(examplesOf(each)).map((type) =>
      html`
        <a href="${link("send", { platform: each.name, type })}" ${current(
          each === platform && type === chosen,
        )}>${platforms.length > 1 && `${each.name} `}${type}</a>
      `
    )
  );
  return html`
    <div class="head">
      <h1>Send an example</h1>
    </div>
    <p
      class="dim">The app signs it with the platform's secret and sends it to itself. This page is here because of
    <code>CONSOLE_ENVIRONMENT=development</code>.</p>${result}<div class="more">${links}</div>
    <form method="post" action="send"><p><input type="hidden" name="platform" value="${name}">
    <input type="hidden" name="type" value="${chosen}">
    <label for="payload">Payload of <b>${chosen}</b> for ${shown(name)}</label>
    <textarea id="payload" name="payload" required data-max="${MAX_ENCODED}" spellcheck="false">${payload ??
      exampleOf(platform, chosen)}</textarea></p><button class="go">Send</button></form>
  `;
}
