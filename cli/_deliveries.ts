import { met } from "../core/check_options.ts";
import {
  forgeDelivery,
  type ForgeSender,
  type MessengerSender,
  messengerUpdate,
  type TestDelivery,
} from "../testing/deliveries.ts";
import { SLACK_EXAMPLES, slackDelivery, withSlackId } from "../testing/slack_delivery.ts";
import { STRIPE_EXAMPLES, stripeDelivery } from "../testing/stripe_delivery.ts";
import type { SendOptions } from "./_send_options.ts";
import { messageOf, UsageError } from "./_world.ts";

/** Wrong secret, in a form that works for every sender. */
const OTHER_SECRET = `whsec_${btoa("not the secret")}`;

/** Headers that carry a signature or a token, of all senders. */
const SIGNATURE_HEADER = /signature|token/;

/** Age of a stale delivery: twice the age that is accepted. */
const STALE_MS = 600_000;

/** Package with the examples that GitHub publishes. */
const EXAMPLES = ["npm:@octokit/webhooks-examples", "7.6.1"];

interface ExamplesOfEvent {
  readonly name: string;
  readonly examples: readonly { readonly action?: unknown }[];
}

/** Builds the request, with the fault of the options. */
export function requestOf(options: SendOptions, payload: object): TestDelivery {
  const { bad } = options;
  const delivery = signed(options, bad === "json" ? "{" : payload);
  if (bad === "missing") {
    const names = [...delivery.headers.keys()].filter((name) => SIGNATURE_HEADER.test(name));
    for (const name of names) delivery.headers.delete(name);
  }
  return bad === "body" ? { ...delivery, body: withSpace(delivery.body) } : delivery;
}

function signed(options: SendOptions, document: object | string): TestDelivery {
  const { platform, type, from, form, bad, id } = options;
  const secret = bad === "signature" ? OTHER_SECRET : options.secret;
  const sentAt = bad === "stale" ? Date.now() - STALE_MS : undefined;
  if (platform === "slack") {
    const identified = isObject(document) && id ? withSlackId(document, id) : document;
    return slackDelivery(identified, { secret, sentAt });
  }
  if (platform === "stripe") {
    return stripeDelivery(isObject(document) && id ? { id, ...document } : document, {
      ...{ secret, sentAt },
    });
  }
  return platform === "forge"
    ? forgeDelivery(type.split(".", 1)[0]!, document, {
      ...{ from: from as ForgeSender, secret, form, sentAt, id },
    })
    : messengerUpdate(numbered(document, id), { from: from as MessengerSender, secret });
}

/** Tells a payload from a document that is sent as it is. */
const isObject = (document: object | string): document is object =>
  typeof document === "object" && !(document instanceof Uint8Array);

/** Headers that carry the delivery id, of all senders. */
const ID_HEADERS = ["X-GitHub-Delivery", "X-Forge-Delivery", "Idempotency-Key"];

/** Reads the id of a delivery; undefined if it has none, as a file may. */
export function deliveryIdOf({ headers, body }: TestDelivery): string | undefined {
  const names = ID_HEADERS.filter((name) => headers.has(name));
  if (names.length > 0) return headers.get(names[0]!)!;
  try {
    const { update_id, event_id, trigger_id, id } = fieldsOf(body);
    const found = update_id ?? event_id ?? trigger_id ?? id;
    return typeof found === "number" || typeof found === "string" ? String(found) : undefined;
  } catch {
    return undefined;
  }
}

/** Reads a body: JSON, a form, or JSON in a form. */
function fieldsOf(body: TestDelivery["body"]): Readonly<Record<string, unknown>> {
  const text = typeof body === "string" ? body : new TextDecoder().decode(body);
  if (text.includes("{")) return JSON.parse(text);
  const fields = Object.fromEntries(new URLSearchParams(text));
  return fields.payload === undefined ? fields : JSON.parse(fields.payload);
}

/** Puts the id into an update. */
function numbered(update: object | string, id: string | undefined): object | string {
  if (id === undefined || !isObject(update)) return update;
  if (!/^\d{1,15}$/.test(id)) {
    throw new UsageError(
      `--id of an update must be its number, update_id, got ${JSON.stringify(id)}`,
    );
  }
  return { update_id: Number(id), ...update };
}

function withSpace(body: string | Uint8Array): string | Uint8Array<ArrayBuffer> {
  return typeof body === "string" ? `${body} ` : Uint8Array.from([...body, 0x20]);
}

/** Finds the payload to send: the bytes of a file, a published example, or a made-up update. */
export async function payloadOf(options: SendOptions): Promise<object> {
  if (options.file !== undefined) {
    const bytes = await readFile(options.file);
    checkFile(options, bytes);
    return bytes;
  }
  const { platform, type } = options;
  if (platform === "messenger") return updateOf(options);
  if (platform === "slack") return madeUp(SLACK_EXAMPLES, type.split(".", 1)[0]!);
  if (platform === "stripe") return { type, ...madeUp(STRIPE_EXAMPLES, type) };
  if (options.from.startsWith("gitlab")) {
    throw new UsageError("There are no published examples of GitLab: give a payload with --file");
  }
  return exampleOf(await loadExamples(), type);
}

/** Refuses what contradicts a file: it is sent byte for byte, and has what a forge has in headers. */
function checkFile({ platform, type, id }: SendOptions, body: Uint8Array<ArrayBuffer>): void {
  if (platform === "forge") return;
  if (id !== undefined) {
    throw new UsageError("--id: the file has the id, and is sent byte for byte. Change it there");
  }
  const found = platform === "stripe" ? typeIn(body) : undefined;
  if (found === undefined || found === type) return;
  throw new UsageError(`The file has an event of the type ${met(found)}, not ${met(type)}`);
}

/** Reads the type of an event of Stripe; undefined if it has none, as a document that is to be refused. */
function typeIn(body: Uint8Array<ArrayBuffer>): unknown {
  try {
    return fieldsOf(body).type;
  } catch {
    return undefined;
  }
}

async function readFile(path: string): Promise<Uint8Array<ArrayBuffer>> {
  try {
    return await Deno.readFile(path);
  } catch (error) {
    throw new UsageError(`The file cannot be read: ${messageOf(error)}`);
  }
}

/** Loads the examples on demand. A literal specifier would be loaded with every command. */
async function loadExamples(): Promise<readonly ExamplesOfEvent[]> {
  try {
    return (await import(EXAMPLES.join("@"), { with: { type: "json" } })).default;
  } catch (error) {
    throw new Error(
      `The examples cannot be loaded from npm: ${messageOf(error)}. Give a payload with --file`,
    );
  }
}

function exampleOf(all: readonly ExamplesOfEvent[], name: string): object {
  const [type, action] = name.split(".", 2);
  const examples = all.find((each) => each.name === type)?.examples;
  if (!examples) {
    const types = all.map((each) => each.name).join(", ");
    throw new UsageError(
      `There is no example of ${type}: give one with --file, or send one of ${types}`,
    );
  }
  const example = examples.find((each) => action === undefined || each.action === action);
  if (example) return example;
  const actions = [...new Set(examples.map((each) => each.action))].join(", ");
  throw new UsageError(`There is no example of ${name}; its actions are: ${actions}`);
}

/** Makes up an update of a kind, with the fields that all bots read. */
function updateOf({ type, user, chat: chatId, text }: SendOptions): object {
  const from = { id: user, is_bot: false, first_name: "Ada", username: "ada" };
  const chat = { id: chatId ?? user, type: chatId === undefined ? "private" : "group" };
  const date = Math.floor(Date.now() / 1_000);
  const message = { message_id: 1, date, chat, from, text };
  const contents: Readonly<Record<string, object>> = {
    message,
    edited_message: { ...message, edit_date: date },
    channel_post: { message_id: 1, date, chat: { ...chat, type: "channel" }, text },
    callback_query: { id: "1", from, message, chat_instance: "1", data: text },
    inline_query: { id: "1", from, query: text, offset: "" },
    message_reaction: {
      ...{ chat, message_id: 1, user: from, date, old_reaction: [] },
      new_reaction: [{ type: "emoji", emoji: "👍" }],
    },
    my_chat_member: {
      ...{ chat, from, date, old_chat_member: { user: from, status: "member" } },
      new_chat_member: { user: from, status: "kicked" },
    },
    poll_answer: { poll_id: "1", user: from, option_ids: [0], option_persistent_ids: ["0"] },
  };
  return { [type]: madeUp(contents, type) };
}

function madeUp(examples: Readonly<Record<string, object>>, type: string): object {
  if (Object.hasOwn(examples, type)) return examples[type]!;
  throw new UsageError(
    `There is no example of ${type}: give one with --file, or send one of ` +
      Object.keys(examples).join(", "),
  );
}
