/**
 * Telegram, and messengers with the same bot API: the header they send, and what their updates say.
 *
 * @module
 */
import type { JsonObject } from "../../core/parse_json.ts";
import type { Delivery, EventChat, EventSender } from "../../events/store/mod.ts";
import {
  integerOf,
  invalidBody,
  keyOf,
  mediaTypeOf,
  objectOf,
  parseJsonObject,
  textOf,
} from "./readers.ts";

/** Header of this package's own contract. */
export const MESSENGER_TOKEN = "X-Messenger-Bot-Api-Secret-Token";

/** Header of Telegram. */
export const TELEGRAM_TOKEN = "X-Telegram-Bot-Api-Secret-Token";

/** The form of a kind. It becomes the event's type. */
const KIND = /^[a-z][a-z0-9_]{0,99}$/i;

/** Paths from an update's content to its sender: the first for most kinds, the last two for boosts. */
const SENDER_PATHS: readonly (readonly string[])[] = [
  ["from"],
  ["user"],
  ["source", "user"],
  ["boost", "source", "user"],
];

/** The only kind that names its user just by the private chat: the two have the same id. */
const STOPPED = "stopped_message_generation";
const STOPPED_PATHS = [["chat"]] as const;

/**
 * Makes the delivery of a verified request.
 *
 * @param headers The request's headers.
 * @param body The request's body: the update, in JSON.
 * @returns The delivery. Its id is the `update_id`.
 * @throws {HttpError} 415 `UNSUPPORTED_MEDIA_TYPE` or 400 `INVALID_BODY`.
 * @category Steps of an intake
 */
export function parseMessengerUpdate(headers: Headers, body: Uint8Array<ArrayBuffer>): Delivery {
  mediaTypeOf(headers, ["application/json"]);
  const payload = parseJsonObject(body);
  const type = updateKindOf(payload);
  if (type === undefined || !KIND.test(type)) throw invalidBody("Update has no content");
  return {
    platform: "messenger",
    intake: "messenger",
    source: headers.has(MESSENGER_TOKEN) ? "messenger" : "telegram",
    type,
    deliveryId: updateIdOf(payload),
    chat: chatOf(payload),
    sender: updateSenderOf(payload),
    body,
    payload,
  };
}

function updateIdOf(update: JsonObject): string | undefined {
  const id = update.update_id;
  if (id === undefined) return undefined;
  if (!Number.isSafeInteger(id)) throw invalidBody("Update id must be an integer");
  return String(id);
}

/**
 * Reads the kind of an update: `message`, `callback_query`, `channel_post`, ...
 *
 * @param update The update. Beside its `update_id` it has one field, named after its kind.
 * @returns The kind; undefined if the update has no content.
 * @category Steps of an intake
 */
export function updateKindOf(update: JsonObject): string | undefined {
  return Object.keys(update).find((key) => typeof update[key] === "object" && update[key] !== null);
}

/** Reads the chat of an update. */
export function chatOf(update: JsonObject): EventChat | undefined {
  const chat = chatIn(update);
  const id = integerOf(chat.id);
  return id === undefined ? undefined : { id, type: textOf(chat.type) };
}

/**
 * Reads the ordering key of a chat, its id. A payload may have a key and still not describe a whole
 * {@linkcode EventChat}.
 */
export function chatKeyOf(update: JsonObject): string | undefined {
  return keyOf(chatIn(update).id);
}

/** The chat of an update's content, or of a callback's message; empty if there is none. */
function chatIn(update: JsonObject): JsonObject {
  const content = objectOf(update[updateKindOf(update) ?? ""]);
  return objectOf(content.chat ?? objectOf(content.message).chat);
}

/**
 * Reads the id of the user who sent an update.
 *
 * @param update The update.
 * @returns The id; undefined if the update has no user (a channel post, or a message on behalf of a chat,
 * whose `from` is a stand-in) or the id is not an integer.
 * @category Steps of an intake
 */
export function userIdOf(update: JsonObject): number | undefined {
  return updateSenderOf(update)?.id;
}

/** Reads the user who sent an update, as {@linkcode userIdOf} does. */
export function updateSenderOf(update: JsonObject): EventSender | undefined {
  const kind = updateKindOf(update) ?? "";
  const content = update[kind];
  if (fieldOf(content, "sender_chat") !== undefined) return undefined;
  for (const path of kind === STOPPED ? STOPPED_PATHS : SENDER_PATHS) {
    const user = objectOf(path.reduce(fieldOf, content));
    const id = integerOf(fieldOf(user, "id"));
    if (id !== undefined) return senderOf(id, user);
  }
  return undefined;
}

function senderOf(id: number, user: JsonObject): EventSender {
  return {
    id,
    name: textOf(user.username) ?? textOf(user.first_name),
    isBot: user.is_bot === true,
  };
}

/** Reads an object's own field: an update decides who is allowed, so `__proto__` must not. */
function fieldOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined;
}
