/**
 * Slack: events, slash commands, and what people do with buttons, menus, modals and shortcuts, all at one path.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { decodeUtf8, type JsonObject } from "../core/parse_json.ts";
import type { SlackEvents } from "../events/router/mod.ts";
import type { Delivery } from "../events/store/mod.ts";
import { formField } from "./form.ts";
import {
  checkPlatformOptions,
  definePlatform,
  type ParsedDelivery,
  type Platform,
  type PlatformOptions,
  variableOf,
} from "./platform.ts";
import {
  checkDeliveryId,
  checkEventType,
  invalidBody,
  keyOf,
  missingType,
  objectOf,
  parseJsonObject,
  textOf,
} from "./readers.ts";
import { checkSecrets, type FlawOf, secretVariable } from "./secrets.ts";
import { type Credentials, Verifier } from "./verifier.ts";
import { comparisonOf, type SignatureScheme, textKeyOf, TIMESTAMP } from "./verify_signature.ts";

/**
 * Options of {@linkcode slack}.
 *
 * @category Platforms
 */
export interface SlackOptions extends PlatformOptions {
  /**
   * Signing secrets that deliveries are verified with: several while one is being replaced.
   *
   * @default {undefined} The variable's.
   */
  readonly secrets?: readonly string[] | undefined;
}

/** Version of the signature. */
const PREFIX = "v0=";

/** Form of a signature: SHA-256 has 32 bytes. */
const SIGNATURE = /^v0=[0-9a-f]{64}$/;

/** Tokens of bots, users and apps, and of the configuration: `xoxb-`, `xapp-`, `xoxe.xoxp-`. */
const TOKEN = /^x(?:ox[a-z]|app)[.-]/;

/** Longest challenge that is answered: Slack's have 52 characters. */
const MAX_CHALLENGE = 500;

/** Only a JSON document has braces: a form encodes them. */
const BRACE = 0x7b;

/**
 * Policy of Slack's events: the last attempt is 8.5 to 10.6 minutes after the first. An answer in a conversation that
 * comes a day later is of no use, and a response URL is good for 30 minutes.
 */
const RETRY = { maxAttempts: 10 } as const;

/** Questions for the options of a menu, which would have to be answered within 3 s. */
const QUESTIONS: readonly unknown[] = ["block_suggestion", "dialog_suggestion"];

const encoder = new TextEncoder();

/** Signs version, time and body. The time is all digits, so it cannot hold a part of the body. */
const SCHEME: SignatureScheme = {
  prefix: PREFIX,
  encoding: "hex",
  isSame: comparisonOf(PREFIX.length + 64),
  isFor: () => true,
  keyOf: textKeyOf,
  read: (headers) => {
    const signature = headers.get("X-Slack-Signature");
    if (!signature) return undefined;
    const timestamp = headers.get("X-Slack-Request-Timestamp") ?? "";
    if (!SIGNATURE.test(signature) || !TIMESTAMP.test(timestamp)) return null;
    return { signatures: [signature], timestamp, head: encoder.encode(`v0:${timestamp}:`) };
  },
};

const CREDENTIALS: Credentials = { schemes: [SCHEME], tokens: [] };

/**
 * Makes the platform of Slack: the Events API, slash commands and interactivity, at one path. It reads
 * `SLACK_SIGNING_SECRET`, during a rotation also with `_PREVIOUS`. With another `name` the variable begins with that
 * name.
 *
 * A delivery is verified by its signature over time and body, and must not be older than 5 minutes. Its type is that of
 * the event in the envelope (`app_mention`), `slash_command`, or the interaction's (`block_actions`), and its action the
 * subtype, or the name that your app has given: `message.channel_join`, `slash_command.deploy`,
 * `block_actions.approve`. Its id is the `event_id`, or else the `trigger_id`. The challenge for the address is answered,
 * and so are questions for the options of a menu, with none.
 *
 * @typeParam TEvents The payloads by type. By default those that Slack publishes.
 * @param options Its name, path, limits and ordering, and secrets in code.
 * @returns The platform.
 * @throws {TypeError} If an option has the wrong type, or a secret cannot be used.
 * @throws {RangeError} If a limit is out of range.
 *
 * @example
 * ```ts
 * import { byThread, defineApp, slack, sqlite } from "@org/edge-base";
 * import { slackDelivery, startTestBot } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * const heard: string[] = [];
 * const platform = slack({ groupBy: byThread });
 * const bot = defineApp({ name: "my-bot", platform, store: sqlite() });
 * bot.on("app_mention", ({ payload: { event } }) => heard.push(event.text));
 * bot.on("slash_command.deploy", ({ payload }) => heard.push(payload.text));
 *
 * await using test = await startTestBot(bot);
 * await test.deliver(slackDelivery({ event: { type: "app_mention", text: "hello" } }));
 * await test.deliver(slackDelivery({ command: "/deploy", text: "main" }));
 * assertEquals(heard, ["hello", "main"]);
 * ```
 *
 * @category Platforms
 */
export function slack<TEvents extends object = SlackEvents>(
  options: SlackOptions = {},
): Platform<TEvents> {
  checkPlatformOptions("slack", options, ["secrets"]);
  const { name = "slack", secrets, ...shared } = options;
  if (secrets !== undefined) checkSecrets(`define the platform '${name}'`, secrets, flawOfSecret);
  const variable = variableOf(name, "signingSecret");
  return definePlatform<TEvents>({
    ...{ ...shared, name, kind: "slack", retry: RETRY },
    env: secretVariable(variable, secrets, flawOfSecret),
    createVerifier: ({ [variable]: read }) =>
      new Verifier(CREDENTIALS, secrets ?? read as readonly string[], []).verifyHead,
    parse: (_headers, body) => readRequest(body),
    // Any other text would be shown to the user of a command, or be taken for an error by a modal.
    respond: () => new Response(),
    testSecrets: { [variable]: "signing" },
  });
}

/** Finds out why a signing secret cannot be used. */
const flawOfSecret: FlawOf = (secret) => {
  if (secret.trim() !== secret) return "begins or ends with white space, such as a line break";
  return TOKEN.test(secret)
    ? "is a token of Slack's API, and not the signing secret of the app"
    : undefined;
};

/** Reads a request. The content type is not signed, so the body decides what it is. */
function readRequest(body: Uint8Array<ArrayBuffer>): ParsedDelivery | Response {
  if (body.includes(BRACE)) return readEvent(parseJsonObject(body), body);
  const document = formField(body, "payload");
  return document ? readInteraction(parseJsonObject(document), document) : readCommand(body);
}

/** Reads an event, or answers the challenge for the address. */
function readEvent(payload: JsonObject, body: Uint8Array): ParsedDelivery | Response {
  const { type, challenge, event_id: id } = payload;
  if (type === "url_verification") {
    if (typeof challenge !== "string" || challenge.length > MAX_CHALLENGE) {
      throw invalidBody("Challenge is malformed");
    }
    return Response.json({ challenge });
  }
  const event = objectOf(payload.event);
  const action = textOf(event.subtype);
  return { ...namedBy(type === "event_callback" ? event.type : type, id, body), action, payload };
}

/** Reads an interaction: a JSON document in the field of a form. */
function readInteraction(
  payload: JsonObject,
  body: Uint8Array<ArrayBuffer>,
): ParsedDelivery | Response {
  const { type, actions, callback_id, view, trigger_id: id } = payload;
  if (QUESTIONS.includes(type)) return Response.json({ options: [] });
  const first = objectOf(Array.isArray(actions) ? actions[0] : undefined);
  const action = textOf(first.action_id) ?? textOf(first.name) ?? textOf(callback_id) ??
    textOf(objectOf(view).callback_id);
  return { ...namedBy(type, id, body), action, payload, body };
}

/** Reads a slash command, whose payload are the fields of a form, or answers a check of the certificate that is signed. */
function readCommand(form: Uint8Array): ParsedDelivery | Response {
  const fields = Object.fromEntries(new URLSearchParams(decodeUtf8(form)));
  if (fields.ssl_check === "1") return new Response();
  const { command, trigger_id: id } = fields;
  if (!command?.startsWith("/")) throw invalidBody("Form must have a payload or a command");
  const payload = { ...fields, type: "slash_command" };
  const body = encoder.encode(JSON.stringify(payload));
  return { ...namedBy(payload.type, id, form), action: command.slice(1), payload, body };
}

/** Checks the type and the id. What Slack gives no id is known by its bytes: it is sent once, or says the time. */
function namedBy(
  type: unknown,
  id: unknown,
  body: Uint8Array,
): Pick<ParsedDelivery, "type" | "deliveryId"> {
  if (type === undefined) throw missingType();
  const deliveryId = checkDeliveryId(
    id ?? createHash("sha256").update(body).digest("hex").slice(0, 32),
  );
  return { type: checkEventType(type), deliveryId };
}

/**
 * Groups Slack's events, commands and interactions by conversation.
 *
 * @param delivery The delivery.
 * @returns The id of the channel; undefined for an event without one.
 * @category Platforms
 */
export function byChannel({ payload }: Delivery): string | undefined {
  const event = objectOf(payload.event);
  const given = event.channel ?? event.channel_id ?? objectOf(event.item).channel ??
    objectOf(event.assistant_thread).channel_id ?? payload.channel ?? payload.channel_id ??
    objectOf(payload.container).channel_id;
  return keyOf(given) ?? keyOf(objectOf(given).id);
}

/**
 * Groups Slack's events and interactions by thread. A message outside of a thread may begin one, so its group is the
 * thread that it would begin. A reaction to a reply is in a group of that reply: Slack does not send its thread.
 *
 * @param delivery The delivery.
 * @returns The ids of channel and thread; the channel's for what belongs to no message, undefined without a channel.
 * @category Platforms
 */
export function byThread(delivery: Delivery): string | undefined {
  const channel = byChannel(delivery);
  const { event, message, container } = delivery.payload;
  const inner = objectOf(event);
  // A change or a removal of a message says itself where that is. An ephemeral message is only in the container.
  const about = objectOf(
    inner.message ?? inner.previous_message ?? inner.item ?? inner.assistant_thread ?? message ??
      event ?? container,
  );
  const thread = keyOf(about.thread_ts) ?? keyOf(about.ts) ?? keyOf(about.message_ts);
  return channel === undefined || thread === undefined ? channel : `${channel}:${thread}`;
}
