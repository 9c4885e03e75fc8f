/**
 * Deliveries as Slack makes them, signed, and examples of them.
 *
 * @module
 */
import { createHmac } from "node:crypto";
import { checkOptions } from "../core/check_options.ts";
import { documentOf, type TestDelivery, textOf } from "./deliveries.ts";
import { TEST_SECRETS } from "./test_secrets.ts";

/**
 * Options of {@linkcode slackDelivery}.
 *
 * @category Deliveries
 */
export interface SlackDeliveryOptions {
  /**
   * Signing secret.
   *
   * @default {TEST_SECRETS.signing}
   */
  readonly secret?: string | undefined;
  /**
   * Time of sending, in milliseconds since the epoch. It is signed.
   *
   * @default {Date.now()}
   */
  readonly sentAt?: number | undefined;
  /**
   * Path that the delivery is posted to.
   *
   * @default {undefined} The path of the app's only platform of its kind.
   */
  readonly path?: string | undefined;
  /**
   * Name of the platform that the delivery is for, in an app that has several of `slack()`.
   *
   * @default {"slack"} Their kind.
   */
  readonly platform?: string | undefined;
}

/** Ids of the published examples of Slack's documentation. */
const [TEAM, APP, USER, CHANNEL] = ["T123ABC456", "A123ABC456", "U123ABC456", "C123ABC456"];

const TS = "1767225600.000100";

const PERSON = { user: { id: USER, name: "ada" }, team: { id: TEAM, domain: "example" } };

const RESPONSE_URL = "https://hooks.slack.com/actions/T123ABC456/1/a";

const VIEW = {
  ...{ id: "V123ABC456", type: "modal", callback_id: "order", hash: "1767225600.a" },
  ...{ title: { type: "plain_text", text: "Order" }, blocks: [], private_metadata: "" },
  state: { values: { name: { name: { type: "plain_text_input", value: "Ada" } } } },
};

const MESSAGE = { type: "message", user: USER, ts: TS, text: "Ship it?" };

/** Examples by type: events, a command, and interactions. */
export const SLACK_EXAMPLES: Readonly<Record<string, object>> = {
  app_mention: {
    event: {
      ...{ type: "app_mention", user: USER, channel: CHANNEL, ts: TS, event_ts: TS },
      text: "<@U0LAN0Z89> hello",
    },
  },
  message: {
    event: { ...MESSAGE, channel: CHANNEL, channel_type: "channel", event_ts: TS },
  },
  reaction_added: {
    event: {
      ...{ type: "reaction_added", user: USER, reaction: "thumbsup", item_user: USER },
      ...{ item: { type: "message", channel: CHANNEL, ts: TS }, event_ts: TS },
    },
  },
  slash_command: {
    ...{ command: "/deploy", text: "main", user_id: USER, user_name: "ada" },
    ...{ channel_id: CHANNEL, channel_name: "general", team_id: TEAM, api_app_id: APP },
    response_url: RESPONSE_URL,
  },
  block_actions: {
    ...{ type: "block_actions", ...PERSON, api_app_id: APP, channel: { id: CHANNEL } },
    ...{ message: MESSAGE, response_url: RESPONSE_URL },
    actions: [{
      ...{ type: "button", action_id: "approve", block_id: "b1", value: "yes", action_ts: TS },
    }],
  },
  view_submission: { type: "view_submission", ...PERSON, api_app_id: APP, view: VIEW },
  shortcut: { type: "shortcut", ...PERSON, api_app_id: APP, callback_id: "help", action_ts: TS },
};

/**
 * Builds a delivery as Slack sends it: an event as JSON, a slash command as a form, an interaction as a JSON document
 * in a form.
 *
 * @param payload The payload. An object with an `event` gets the envelope around it, one with a `command` is a slash
 * command, any other an interaction; all get an id if they have none. A JSON document keeps its ids.
 * @param options The secret, the time, the path and the platform.
 * @returns The delivery.
 * @throws {TypeError} If the payload is missing or no JSON object, or there is another option.
 *
 * @example
 * ```ts
 * import { slackDelivery } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * const command = slackDelivery({ command: "/deploy", text: "main", trigger_id: "1.2" });
 * assertEquals(command.body, "command=%2Fdeploy&text=main&trigger_id=1.2");
 * ```
 *
 * @category Deliveries
 */
export function slackDelivery(
  payload: object | string,
  options: SlackDeliveryOptions = {},
): TestDelivery {
  const doing = "build the delivery";
  checkOptions(doing, options, {
    ...{ secret: undefined, sentAt: undefined, path: undefined, platform: undefined },
  });
  const { secret = TEST_SECRETS.signing, sentAt = Date.now(), path, platform = "slack" } = options;
  const isObject = typeof payload === "object" && !(payload instanceof Uint8Array);
  const document = documentOf(doing, isObject && payload ? completed(payload) : payload);
  const { body, type } = encoded(document);
  const time = String(Math.floor(sentAt / 1_000));
  const digest = createHmac("sha256", secret).update(`v0:${time}:`).update(body).digest("hex");
  const headers = new Headers({ "Content-Type": type });
  headers.set("X-Slack-Request-Timestamp", time);
  headers.set("X-Slack-Signature", `v0=${digest}`);
  return { platform, path, method: "POST", headers, body };
}

/** Adds the envelope of an event, and an id. */
function completed(payload: object): object {
  const identified = withSlackId(payload, crypto.randomUUID().replaceAll("-", ""));
  if (!("event" in payload)) return identified;
  const now = Math.floor(Date.now() / 1_000);
  const envelope = { type: "event_callback", event_time: now, team_id: TEAM, api_app_id: APP };
  return { ...envelope, ...identified };
}

/**
 * Gives a payload an id, unless it has one: an event's or an interaction's.
 *
 * @param payload The payload.
 * @param id The id.
 * @returns The payload with an id; the payload itself if it has none to have, as a challenge.
 */
export function withSlackId(payload: object, id: string): object {
  if ("challenge" in payload) return payload;
  if ("event" in payload) return { event_id: id, ...payload };
  return "trigger_id" in payload ? payload : { ...payload, trigger_id: id };
}

/** Makes the body of a document: what came in a form goes into one. What is no JSON object is sent as it is. */
function encoded(document: TestDelivery["body"]): Pick<TestDelivery, "body"> & { type: string } {
  const JSON_TYPE = "application/json";
  const payload = parsed(document);
  const isEvent = !payload || "event" in payload || "challenge" in payload ||
    payload.type === "app_rate_limited";
  if (isEvent) return { body: document, type: JSON_TYPE };
  const { type: _, ...fields } = payload;
  const form = "command" in payload
    ? fields as Record<string, string>
    : { payload: textOf(document) };
  return {
    body: new URLSearchParams(form).toString(),
    type: "application/x-www-form-urlencoded",
  };
}

function parsed(document: TestDelivery["body"]): Record<string, unknown> | undefined {
  try {
    const payload = JSON.parse(textOf(document));
    return typeof payload === "object" && payload !== null ? payload : undefined;
  } catch {
    return undefined;
  }
}
