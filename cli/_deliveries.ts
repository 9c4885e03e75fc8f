import {
  forgeDelivery,
  type ForgeSender,
  type MessengerSender,
  messengerUpdate,
  type TestDelivery,
} from "../testing/mod.ts";
import type { SendOptions } from "./_send_options.ts";
import { UsageError } from "./_world.ts";

/** A secret that is nobody's, whatever the sender proves with it. */
const OTHER_SECRET = `whsec_${btoa("not the secret")}`;

/** What proves a delivery, of all senders. */
const PROOFS = [
  "X-Hub-Signature-256",
  "webhook-signature",
  "X-Gitlab-Token",
  "X-Messenger-Bot-Api-Secret-Token",
  "X-Telegram-Bot-Api-Secret-Token",
];

/** How long ago a stale delivery was sent: twice what is taken. */
const STALE_MS = 600_000;

/** GitHub's published examples. */
const EXAMPLES = ["npm:@octokit/webhooks-examples", "7.6.1"];

interface ExamplesOfEvent {
  readonly name: string;
  readonly examples: readonly { readonly action?: unknown }[];
}

/** Builds the request, with the fault that is asked for. */
export function requestOf(options: SendOptions, payload: object): TestDelivery {
  const { platform, type, from, form, bad } = options;
  const document = bad === "json" ? "{" : payload;
  const secret = bad === "signature" ? OTHER_SECRET : options.secret;
  const sentAt = bad === "stale" ? Date.now() - STALE_MS : undefined;
  const delivery = platform === "forge"
    ? forgeDelivery(type.split(".", 1)[0]!, document, {
      ...{ from: from as ForgeSender, secret, form, sentAt, id: options.id },
    })
    : messengerUpdate(numbered(document, options.id), { from: from as MessengerSender, secret });
  if (bad === "missing") { for (const name of PROOFS) delivery.headers.delete(name); }
  return bad === "body" ? { ...delivery, body: withSpace(delivery.body) } : delivery;
}

/** An update's id is in it. */
function numbered(update: object | string, id: string | undefined): object | string {
  if (id === undefined || typeof update !== "object" || update instanceof Uint8Array) return update;
  if (!/^\d{1,15}$/.test(id)) {
    throw new UsageError(`--id of an update is its number, update_id: got ${JSON.stringify(id)}`);
  }
  return { update_id: Number(id), ...update };
}

function withSpace(body: string | Uint8Array): string | Uint8Array<ArrayBuffer> {
  return typeof body === "string" ? `${body} ` : Uint8Array.from([...body, 0x20]);
}

/** The payload to send: a file's bytes, a published example, or an update made up. */
export async function payloadOf(options: SendOptions): Promise<object> {
  if (options.file !== undefined) return await readFile(options.file);
  if (options.platform === "messenger") return updateOf(options);
  if (options.from.startsWith("gitlab")) {
    throw new UsageError("There are no published examples of GitLab: give a payload by --file");
  }
  return exampleOf(await loadExamples(), options.type);
}

async function readFile(path: string): Promise<Uint8Array> {
  try {
    return await Deno.readFile(path);
  } catch (error) {
    throw new UsageError(`The file cannot be read: ${messageOf(error)}`);
  }
}

/** Loaded when it is needed only: written in one piece, the name would be loaded with any command. */
async function loadExamples(): Promise<readonly ExamplesOfEvent[]> {
  try {
    return (await import(EXAMPLES.join("@"), { with: { type: "json" } })).default;
  } catch (error) {
    throw new Error(
      `The examples cannot be loaded from npm: ${messageOf(error)}. Give a payload by --file`,
    );
  }
}

function exampleOf(all: readonly ExamplesOfEvent[], name: string): object {
  const [type, action] = name.split(".", 2);
  const examples = all.find((each) => each.name === type)?.examples;
  if (!examples) {
    const types = all.map((each) => each.name).join(", ");
    throw new UsageError(
      `There is no example of ${type}: give one by --file, or send one of ${types}`,
    );
  }
  const example = examples.find((each) => action === undefined || each.action === action);
  if (example) return example;
  const actions = [...new Set(examples.map((each) => each.action))].join(", ");
  throw new UsageError(`There is no example of ${name}; its actions are: ${actions}`);
}

/** An update of a kind, with what all bots look at. */
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
  if (Object.hasOwn(contents, type)) return { [type]: contents[type] };
  throw new UsageError(
    `There is no example of ${type}: give one by --file, or send one of ` +
      Object.keys(contents).join(", "),
  );
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
