/**
 * Telegram, and messengers with the same bot API: the secret token that they send, who may use a bot, and what
 * their updates say.
 *
 * @module
 */
import { checkFunctions, met } from "../core/check_options.ts";
import { type EnvVariable, optional, VariableError } from "../core/env.ts";
import { fieldOf, type JsonObject } from "../core/parse_json.ts";
import type { TelegramEvents } from "../events/router/mod.ts";
import type { Delivery, EventSender } from "../events/store/mod.ts";
import {
  checkPlatformOptions,
  definePlatform,
  deliveryOf,
  type ParsedDelivery,
  type Platform,
  type PlatformOptions,
  PRODUCT,
  variableOf,
} from "./platform.ts";
import {
  chatOf,
  integerOf,
  invalidBody,
  keyOf,
  mediaTypeOf,
  objectOf,
  parseJsonObject,
  senderOf,
  textOf,
} from "./readers.ts";
import { checkSecrets, type FlawOf, flawOfToken, secretVariable } from "./secrets.ts";
import { type Credentials, Verifier } from "./verifier.ts";

/** Header of this package's contract. */
const MESSENGER_TOKEN = "X-Messenger-Bot-Api-Secret-Token";

/** Header of Telegram. */
const TELEGRAM_TOKEN = "X-Telegram-Bot-Api-Secret-Token";

/**
 * Policy of a messenger's events: the last attempt is 8.5 to 10.6 minutes after the first. A chat is not held up for a
 * day by a message, and an answer that comes a day later is of no use.
 */
const RETRY = { maxAttempts: 10 } as const;

/** Entry of the allowed users. */
const ALLOWED_USER = /^(\*|[1-9]\d{0,15})$/;

const USER_ID = /^[1-9]\d{0,15}$/;

/** Secret tokens that Telegram's `setWebhook` accepts. The bot's token, which has a colon, is something else. */
export const TELEGRAM_SECRET = /^[\w-]{1,256}$/;

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

/** Parts of a platform that differ between messengers. */
interface MessengerProduct {
  readonly product: string;
  readonly credentials: Credentials;
  readonly flawOf: FlawOf;
}

const MESSENGER: MessengerProduct = {
  product: "messenger",
  credentials: { schemes: [], tokens: [MESSENGER_TOKEN, TELEGRAM_TOKEN] },
  flawOf: flawOfToken,
};

const TELEGRAM: MessengerProduct = {
  product: "telegram",
  credentials: { schemes: [], tokens: [TELEGRAM_TOKEN] },
  flawOf: (token) =>
    TELEGRAM_SECRET.test(token)
      ? undefined
      : "is not a secret token that Telegram accepts: 1 to 256 letters, digits, _ and -",
};

/**
 * Options of {@linkcode messenger} and {@linkcode telegram}.
 *
 * @category Platforms
 */
export interface MessengerOptions extends PlatformOptions {
  /**
   * Secret tokens that are accepted: several while one is being replaced.
   *
   * @default {undefined} The variable's.
   */
  readonly secrets?: readonly string[] | undefined;
  /**
   * Decides which updates reach the bot, by the bindings, the user's id and the parsed update. The bindings are
   * the app's, with `MESSENGER_ALLOWED_USERS`. The id is undefined for an update without a user, such as a
   * channel post. A bot for one group looks at the update's `chat`. If it throws, the update is answered 500. If
   * it throws again for the same update, the user counts as not allowed, and an error is logged. If it takes
   * longer than 5 s, the update is answered 503.
   *
   * @default {isUserAuthorized} The users in the variable.
   */
  readonly isAuthorized?:
    | ((
      env:
        & { readonly MESSENGER_ALLOWED_USERS?: string | undefined }
        & Readonly<
          Record<string, unknown>
        >,
      userId: number | undefined,
      update: Delivery,
    ) => boolean | Promise<boolean>)
    | undefined;
  /**
   * Answer to an update of a user who is not allowed: `reject` is 403 `AUTH_001`, `ignore` is 200, and the
   * update is logged but not stored. A messenger repeats an update that was not answered 2xx for a day,
   * and holds back the later ones of the same chat.
   *
   * @default {"reject"}
   */
  readonly unauthorized?: "reject" | "ignore" | undefined;
}

/**
 * Makes the platform of Telegram, or of another messenger with its bot API. It reads
 * `MESSENGER_SECRET_TOKEN`, during a rotation also with `_PREVIOUS`, and the ids of the users who may use the
 * bot from `MESSENGER_ALLOWED_USERS`, separated by commas; `*` is everybody. With another `name` the
 * variables begin with that name.
 *
 * @typeParam TEvents The updates by kind. By default Telegram's.
 * @param options Its name, path, limits and ordering, secrets in code, and who is allowed.
 * @returns The platform.
 * @throws {TypeError} If an option has the wrong type, or a secret cannot be used.
 * @throws {RangeError} If a limit is out of range.
 * @category Platforms
 */
export function messenger<TEvents extends object = TelegramEvents>(
  options?: MessengerOptions,
): Platform<TEvents> {
  return messengerPlatform(MESSENGER, options);
}

/**
 * Makes the platform of Telegram. It reads `TELEGRAM_SECRET_TOKEN`, during a rotation also with `_PREVIOUS`,
 * and the ids of the users who may use the bot from `TELEGRAM_ALLOWED_USERS`, separated by commas; `*` is
 * everybody. With another `name` the variables begin with that name.
 *
 * @typeParam TEvents The updates by kind. By default Telegram's.
 * @param options Its name, path, limits and ordering, secrets in code, and who is allowed.
 * @returns The platform.
 * @throws {TypeError} If an option has the wrong type, or a secret cannot be used.
 * @throws {RangeError} If a limit is out of range.
 *
 * @example A bot for one group: updates of other chats are answered 200 and dropped
 * ```ts
 * import { defineApp, sqlite, telegram } from "@org/edge-base";
 * import { messengerUpdate, startTestBot } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * const GROUP = -1001234567890;
 *
 * const bot = defineApp({
 *   name: "group-bot",
 *   platform: telegram({
 *     isAuthorized: (_env, _userId, { chat }) => chat?.id === GROUP,
 *     unauthorized: "ignore",
 *   }),
 *   store: sqlite(),
 * });
 * const chats: (number | undefined)[] = [];
 * bot.on("message", ({ chat }) => chats.push(chat?.id));
 *
 * await using test = await startTestBot(bot);
 * for (const id of [GROUP, 4711]) {
 *   const message = { from: { id: 4711 }, chat: { id }, text: "hello" };
 *   assertEquals((await test.deliver(messengerUpdate({ message }))).status, 200);
 * }
 * assertEquals(chats, [GROUP]);
 * ```
 *
 * @category Platforms
 */
export function telegram<TEvents extends object = TelegramEvents>(
  options?: MessengerOptions,
): Platform<TEvents> {
  return messengerPlatform(TELEGRAM, options);
}

function messengerPlatform<TEvents extends object>(
  { product, credentials, flawOf }: MessengerProduct,
  options: MessengerOptions = {},
): Platform<TEvents> {
  checkPlatformOptions(product, options, ["secrets", "isAuthorized", "unauthorized"]);
  const { name = product, secrets, isAuthorized = isUserAuthorized, ...shared } = options;
  const doing = `define the platform '${name}'`;
  if (secrets !== undefined) checkSecrets(doing, secrets, flawOf);
  checkFunctions(doing, { isAuthorized });
  const [token, users] = [variableOf(name, "secretToken"), variableOf(name, "users")];
  const platform = definePlatform<TEvents>({
    ...{ ...shared, name, retry: RETRY, kind: "messenger" },
    env: {
      ...secretVariable(token, secrets, flawOf),
      [users]: isAuthorized === isUserAuthorized ? allowedUsers : optional(),
    },
    createVerifier: ({ [token]: read }) =>
      new Verifier(credentials, [], secrets ?? read as readonly string[]).verifyHead,
    parse: readUpdate,
    isAllowed: (update, { [token]: _, ...env }) => {
      const allowed = { ...env, MESSENGER_ALLOWED_USERS: env[users] as string | undefined };
      return isAuthorized(allowed, update.sender?.id, update);
    },
    testEnv: { [users]: "*" },
    testSecrets: { [token]: "messenger" },
  });
  return Object.assign(platform, { [PRODUCT]: product });
}

/** Reads the ids of the users who may use a bot, and warns if the list allows nobody. */
const allowedUsers: EnvVariable<string | undefined> = {
  read(name, variables) {
    const list = variables.get(name);
    if (!list?.trim()) {
      variables.warn(
        `${name} is empty: no user is allowed. Write to the bot, set ${name} to the userId in the log's ` +
          "warning about that, and restart; or set it to * to allow everybody",
      );
      return undefined;
    }
    const bad = list.split(",").findIndex((entry) => !ALLOWED_USER.test(entry.trim()));
    if (bad >= 0) throw new VariableError(`${name}: entry ${bad + 1} is neither a user id nor *`);
    return list;
  },
};

/**
 * Checks a user id against the allowed users.
 *
 * @param env The bindings. Unset, empty or blank, `MESSENGER_ALLOWED_USERS` allows nobody.
 * @param userId The user's id; undefined, for an update without a user, is allowed only by `*`.
 * @returns Whether the user is allowed.
 * @throws {TypeError} If `MESSENGER_ALLOWED_USERS` is not a text.
 *
 * @example
 * ```ts
 * import { isUserAuthorized } from "@org/edge-base";
 * import { assert, assertEquals } from "@std/assert";
 *
 * const env = { MESSENGER_ALLOWED_USERS: "42, 4711" };
 *
 * assert(isUserAuthorized(env, 42));
 * assertEquals(isUserAuthorized(env, 43), false);
 * assertEquals(isUserAuthorized({}, 42), false);
 * ```
 *
 * @category Platforms
 */
export function isUserAuthorized(
  env: { readonly MESSENGER_ALLOWED_USERS?: string | undefined },
  userId: number | string | undefined,
): boolean {
  const list = env?.MESSENGER_ALLOWED_USERS;
  checkAllowedUsers("check the user", list);
  const entries = list?.split(",").map((entry) => entry.trim()) ?? [];
  return entries.includes("*") ||
    (userId !== undefined && USER_ID.test(String(userId)) && entries.includes(String(userId)));
}

/**
 * Checks that the allowed users are a text: nobody would be found in a number or an array.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param list The allowed users.
 * @throws {TypeError} If they are neither a text nor undefined.
 */
export function checkAllowedUsers(doing: string, list: unknown): void {
  if (list === undefined || list === null || typeof list === "string") return;
  throw new TypeError(
    `Cannot ${doing}: 'MESSENGER_ALLOWED_USERS' must be a text of user ids separated by commas, got ` +
      met(list),
  );
}

/**
 * Verifies that a request brings one of the secret tokens.
 *
 * @param headers The request's headers.
 * @param secrets The secret tokens. All are always tried.
 * @returns The secret token that has verified it, such as `secret 1`, by its position.
 * @throws {HttpError} 401 `MISSING_TOKEN` without a token; 401 `INVALID_TOKEN` if it is not right.
 * @category Steps of an intake
 */
export function verifyMessengerUpdate(headers: Headers, secrets: readonly string[]): string {
  return new Verifier(MESSENGER.credentials, [], secrets).verify(headers);
}

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
  return deliveryOf({ name: "messenger", kind: "messenger" }, readUpdate(headers, body), body);
}

function readUpdate(headers: Headers, body: Uint8Array<ArrayBuffer>): ParsedDelivery {
  mediaTypeOf(headers, ["application/json"]);
  const payload = parseJsonObject(body);
  const type = kindOf(payload);
  if (type === undefined || !KIND.test(type)) throw invalidBody("Update has no content");
  return {
    source: headers.has(MESSENGER_TOKEN) ? "messenger" : "telegram",
    type,
    deliveryId: updateIdOf(payload),
    chat: chatOf(chatIn(payload[type])),
    sender: senderIn(type, payload[type]),
    payload,
  };
}

function updateIdOf(update: JsonObject): string | undefined {
  const id = update.update_id;
  if (id === undefined) return undefined;
  if (!Number.isSafeInteger(id)) throw invalidBody("Update id must be an integer");
  return String(id);
}

/** Reads the kind of an update. Beside its `update_id` it has one field, named after its kind. */
function kindOf(update: JsonObject): string | undefined {
  return Object.keys(update).find((key) => typeof update[key] === "object" && update[key] !== null);
}

/** The chat of an update's content, or of a callback's message; empty if there is none. */
function chatIn(content: unknown): JsonObject {
  const { chat, message } = objectOf(content);
  return objectOf(chat ?? objectOf(message).chat);
}

/**
 * Reads the user who sent an update; undefined if there is none (a channel post, or a message on behalf of a chat,
 * whose `from` is a stand-in) or the id is not an integer.
 */
function senderIn(kind: string, content: unknown): EventSender | undefined {
  if (fieldOf(content, "sender_chat") !== undefined) return undefined;
  for (const path of kind === STOPPED ? STOPPED_PATHS : SENDER_PATHS) {
    const user = objectOf(path.reduce(fieldOf, content));
    const id = integerOf(fieldOf(user, "id"));
    if (id !== undefined) {
      const name = textOf(user.username) ?? user.first_name;
      return senderOf({ id, name, isBot: user.is_bot });
    }
  }
  return undefined;
}

/**
 * Groups a messenger's updates by chat. An update may name one without describing a whole
 * {@linkcode EventChat}.
 *
 * @param delivery The delivery.
 * @returns The chat's id; undefined for an update without a chat.
 * @category Platforms
 */
export function byChat({ chat, payload }: Delivery): string | undefined {
  return chat ? String(chat.id) : keyOf(chatIn(payload[kindOf(payload) ?? ""]).id);
}
