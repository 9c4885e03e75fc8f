import { met } from "../core/check_options.ts";
import { HttpError } from "../core/mod.ts";
import type { JsonObject } from "../core/parse_json.ts";

/** The bindings that {@linkcode isUserAuthorized} reads. */
export interface AllowedUsersEnv {
  /** The ids of the users who may use the bot, separated by commas; `*` for everybody. */
  readonly MESSENGER_ALLOWED_USERS?: string | undefined;
}

/** Decides whether a messaging platform's user may use the bot. */
export type AuthorizeUser<TEnv extends object = AllowedUsersEnv> = (
  env: TEnv,
  userId: number | undefined,
) => boolean | Promise<boolean>;

/** Where the content of an update names its sender: the first for most kinds, the last two for boosts. */
const SENDER_PATHS: readonly (readonly string[])[] = [
  ["from"],
  ["user"],
  ["source", "user"],
  ["boost", "source", "user"],
];

/** The one kind that names its user by the private chat only: the two have the same id. */
const STOPPED = "stopped_message_generation";
const STOPPED_PATHS = [["chat"]] as const;

const USER_ID = /^[1-9]\d{0,15}$/;

/**
 * Checks a user id against the allowed users.
 *
 * @param env The bindings. Unset, empty or blank, `MESSENGER_ALLOWED_USERS` allows nobody.
 * @param userId The user's id; undefined, for an update without a user, is allowed only by `*`.
 * @returns Whether the user is allowed.
 * @throws {TypeError} If `MESSENGER_ALLOWED_USERS` is no text.
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
 */
export function isUserAuthorized(
  env: AllowedUsersEnv,
  userId: number | string | undefined,
): boolean {
  const list = env?.MESSENGER_ALLOWED_USERS;
  checkAllowedUsers("check the user", list);
  const entries = list?.split(",").map((entry) => entry.trim()) ?? [];
  return entries.includes("*") ||
    (userId !== undefined && USER_ID.test(String(userId)) && entries.includes(String(userId)));
}

/**
 * Checks that the allowed users are a text: of a number or an array none would be found.
 *
 * @param doing What cannot be done otherwise, for the message.
 * @param list The allowed users.
 * @throws {TypeError} If they are something else than a text, or undefined.
 */
export function checkAllowedUsers(doing: string, list: unknown): void {
  if (list === undefined || list === null || typeof list === "string") return;
  throw new TypeError(
    `Cannot ${doing}: 'MESSENGER_ALLOWED_USERS' must be a text of user ids separated by commas, got ` +
      met(list),
  );
}

/**
 * Tells the kind of an update: `message`, `callback_query`, `channel_post`, ...
 *
 * @param update The update. Beside its `update_id` it has one field, named after its kind.
 * @returns The kind; undefined where the update has no content.
 */
export function updateKindOf(update: JsonObject): string | undefined {
  return Object.keys(update).find((key) => typeof update[key] === "object" && update[key] !== null);
}

/**
 * Finds the id of the user who sent an update.
 *
 * @param update The update.
 * @returns The id; undefined where the update has no user (a channel post, or a message on behalf of a
 * chat, whose `from` is a stand-in) or its id is no number.
 */
export function userIdOf(update: JsonObject): number | undefined {
  return userOf(update)?.id;
}

/** Finds the user who sent an update; undefined where there is none with an id. */
export function userOf(update: JsonObject): JsonObject & { readonly id: number } | undefined {
  const kind = updateKindOf(update) ?? "";
  const content = update[kind];
  if (fieldOf(content, "sender_chat") !== undefined) return undefined;
  for (const path of kind === STOPPED ? STOPPED_PATHS : SENDER_PATHS) {
    const user = path.reduce(fieldOf, content);
    if (Number.isSafeInteger(fieldOf(user, "id"))) return user as JsonObject & { id: number };
  }
  return undefined;
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined;
}

/**
 * Checks the sender of an update.
 *
 * @param env The bindings.
 * @param update The update.
 * @param isAuthorized Decides.
 * @throws {HttpError} 403 `AUTH_001` if the user is not allowed.
 */
export async function authorizeUpdate<TEnv extends object = AllowedUsersEnv>(
  env: TEnv,
  update: JsonObject,
  isAuthorized: AuthorizeUser<TEnv> = isUserAuthorized,
): Promise<void> {
  if (!(await isAuthorized(env, userIdOf(update)))) {
    throw notAuthorized();
  }
}

/**
 * Makes the error for a user who is not allowed.
 *
 * @returns The error, 403 `AUTH_001`.
 */
export function notAuthorized(): HttpError {
  return new HttpError(403, "User not authorized", { code: "AUTH_001" });
}
