import { type EnvSpec, type EnvVariable, readSecrets, VariableError } from "../core/env.ts";
import { checkFunctions } from "../core/check_options.ts";
import type { TelegramEvents } from "../events/router/mod.ts";
import { type AuthorizeUser, isUserAuthorized } from "./authorize.ts";
import { checkEach, checkSecrets, flawOfToken } from "./check_intake.ts";
import {
  checkPlatformOptions,
  makePlatform,
  type Platform,
  type PlatformOptions,
  prefixOf,
} from "./platform.ts";
import { MESSENGER_TOKEN, parseMessengerUpdate, TELEGRAM_TOKEN } from "./platforms/messenger.ts";
import { type Credentials, type VerifiedBy, Verifier } from "./verifier.ts";

/** Entry of the allowed users. */
const ALLOWED_USER = /^(\*|[1-9]\d{0,15})$/;

/** Tokens of the messengers. They do not sign. */
const MESSENGER_CREDENTIALS = credentialsOf(MESSENGER_TOKEN, TELEGRAM_TOKEN);

const TELEGRAM_CREDENTIALS = credentialsOf(TELEGRAM_TOKEN);

function credentialsOf(...tokens: readonly string[]): Credentials {
  return { schemes: [], tokens, tokenName: "secret" };
}

/** Secret tokens that Telegram's `setWebhook` accepts. */
const TELEGRAM_SECRET = /^[\w-]{1,256}$/;

/** The parts of a platform that differ between messengers. */
interface MessengerProduct {
  readonly product: string;
  readonly credentials: Credentials;
  /** Finds out why a secret token cannot be used. */
  readonly flawOf: (token: string) => string | undefined;
}

const MESSENGER_KEYS = ["secrets", "isAuthorized", "unauthorized"];

/**
 * Options of {@linkcode messenger} and {@linkcode telegram}.
 *
 * @category Platforms
 */
export interface MessengerOptions extends PlatformOptions {
  /**
   * Secret tokens that are accepted: several while one is being replaced.
   *
   * @default {undefined} Those of the variable.
   */
  readonly secrets?: readonly string[] | undefined;
  /**
   * Decides which updates reach the bot, by the bindings, the user's id and the parsed update. A bot for
   * one group looks at the update's `chat`. If it throws, the update is answered 500. If it throws again
   * for the same update, the user counts as not allowed, and an error is logged. If it takes longer than
   * 5 s, the update is answered 503.
   *
   * @default {isUserAuthorized} The users in the variable.
   */
  readonly isAuthorized?: AuthorizeUser | undefined;
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
  return messengerPlatform({
    ...{ product: "messenger", credentials: MESSENGER_CREDENTIALS, flawOf: flawOfToken },
  }, options);
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
 * import { defineApp, telegram } from "@org/edge-base";
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
  return messengerPlatform({
    ...{ product: "telegram", credentials: TELEGRAM_CREDENTIALS, flawOf: flawOfTelegramToken },
  }, options);
}

function messengerPlatform<TEvents extends object>(
  { product, credentials, flawOf }: MessengerProduct,
  options: MessengerOptions = {},
): Platform<TEvents> {
  checkPlatformOptions(product, options, MESSENGER_KEYS);
  const { name = product, secrets, isAuthorized, unauthorized, ...shared } = options;
  const doing = `define the platform '${name}'`;
  if (secrets !== undefined) {
    checkSecrets(doing, secrets);
    checkEach(doing, secrets, "secrets", flawOf);
  }
  checkFunctions(doing, { isAuthorized });
  const [tokenVariable, usersVariable] = [`${prefixOf(name)}_SECRET_TOKEN`, usersIn(name)];
  const decide = isAuthorized ?? isUserAuthorized;
  return makePlatform<TEvents, EnvSpec>({
    ...{ ...shared, name, unauthorized, kind: "messenger" },
    env: {
      ...(secrets === undefined ? { [tokenVariable]: tokensOf(flawOf) } : {}),
      [usersVariable]: isAuthorized === undefined ? allowedUsers : listedUsers,
    },
    createVerifier: ({ [tokenVariable]: read }) =>
      new Verifier(credentials, [], secrets ?? read as readonly string[]).verifyHead,
    parse: parseMessengerUpdate,
    isAllowed: (update, { [tokenVariable]: _, ...env }) => {
      const users = env[usersVariable] as string | undefined;
      return decide({ ...env, MESSENGER_ALLOWED_USERS: users }, update.sender?.id, update);
    },
    testEnv: { [usersVariable]: "*" },
  }, { [tokenVariable]: "messenger" });
}

function usersIn(name: string): string {
  return `${prefixOf(name)}_ALLOWED_USERS`;
}

function tokensOf(
  flawOf: (token: string) => string | undefined,
): EnvVariable<readonly string[]> {
  return { read: (name, variables) => readSecrets(name, variables, flawOf) };
}

/** Telegram's own rule for `secret_token`. The bot's token, which has a colon, is something else. */
function flawOfTelegramToken(token: string): string | undefined {
  if (TELEGRAM_SECRET.test(token)) return undefined;
  return "is not a secret token that Telegram accepts: 1 to 256 letters, digits, _ and -";
}

/** Ids of users, for a check of the app's own. */
const listedUsers: EnvVariable<string | undefined> = {
  read: (name, variables) => variables.get(name),
};

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
 * Verifies that a request brings one of the secret tokens.
 *
 * @param headers The request's headers.
 * @param secrets The secret tokens. All are always tried.
 * @returns The secret token that has verified it.
 * @throws {HttpError} 401 `MISSING_TOKEN` without a token; 401 `INVALID_TOKEN` if it is not right.
 * @category Steps of an intake
 */
export function verifyMessengerUpdate(headers: Headers, secrets: readonly string[]): VerifiedBy {
  return new Verifier(MESSENGER_CREDENTIALS, [], secrets).verify(headers);
}
