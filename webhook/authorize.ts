import { met } from "../core/check_options.ts";
import { HttpError, type LogSink, writeLog } from "../core/mod.ts";
import type { JsonObject } from "../core/parse_json.ts";
import type { Delivery } from "../events/store/mod.ts";
import { userIdOf } from "./platforms/messenger.ts";

/**
 * The bindings that {@linkcode isUserAuthorized} reads.
 *
 * @category Platforms
 */
export interface AllowedUsersEnv {
  /** The ids of the users who may use the bot, separated by commas; `*` for everybody. */
  readonly MESSENGER_ALLOWED_USERS?: string | undefined;
}

/**
 * Decides whether an update may reach the bot, by its user and by the rest of it: its chat, sender, type
 * and payload. The user id is undefined for an update without a user, such as a channel post. The bindings
 * are those of the app, and `MESSENGER_ALLOWED_USERS`.
 *
 * @category Platforms
 */
export type AuthorizeUser = (
  env: AllowedUsersEnv & Readonly<Record<string, unknown>>,
  userId: number | undefined,
  update: Delivery,
) => boolean | Promise<boolean>;

/** Decides whether a delivery may reach the bot, by the app's bindings and the log of its request. */
export type DecideDelivery = (
  delivery: Delivery,
  bindings: object,
  log: LogSink,
) => Promise<boolean>;

const USER_ID = /^[1-9]\d{0,15}$/;

/** Number of updates for which a failed check is remembered. */
const MAX_REMEMBERED = 1_000;

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
 * Checks the sender of an update.
 *
 * @param env The bindings.
 * @param update The update.
 * @param isAuthorized Decides whether the sender is allowed.
 * @throws {HttpError} 403 `AUTH_001` if the user is not allowed.
 * @category Steps of an intake
 */
export async function authorizeUpdate<TEnv extends object = AllowedUsersEnv>(
  env: TEnv,
  update: JsonObject,
  isAuthorized: (env: TEnv, userId: number | undefined) => boolean | Promise<boolean> =
    isUserAuthorized,
): Promise<void> {
  if (!(await isAuthorized(env, userIdOf(update)))) throw notAuthorized();
}

/**
 * Creates the error for a user who is not allowed.
 *
 * @returns The error, 403 `AUTH_001`.
 */
export function notAuthorized(): HttpError {
  return new HttpError(403, "User not authorized", { code: "AUTH_001" });
}

/**
 * Names an update's user and chat for the log, so that you can read there whom to allow.
 *
 * @param update The update.
 * @returns The ids, and nothing else of the update.
 */
export function idsOf(
  { sender, chat }: Delivery,
): { readonly userId: number | undefined; readonly chatId: number | undefined } {
  return { userId: sender?.id, chatId: chat?.id };
}

/**
 * Lets a check fail once for each delivery, which is then sent again. A second failure counts as a refusal:
 * an update that is answered 5xx each time holds up the later updates of its chat for a day.
 *
 * @param isAllowed The check.
 * @returns The decision on deliveries.
 */
export function failingOnce(
  isAllowed: (delivery: Delivery, bindings: object) => boolean | Promise<boolean>,
): DecideDelivery {
  const failed = new Set<string>();
  return async (delivery, bindings, log) => {
    const { deliveryId } = delivery;
    try {
      return await isAllowed(delivery, bindings);
    } catch (error) {
      if (error instanceof HttpError && error.status < 500) throw error;
      if (deliveryId === undefined || !failed.has(deliveryId)) {
        remember(failed, deliveryId);
        throw error;
      }
      const fields = { deliveryId, error };
      writeLog(log, "error", "update refused: its user could not be checked twice", fields);
      return false;
    }
  };
}

function remember(failed: Set<string>, id: string | undefined): void {
  if (id === undefined) return;
  failed.add(id);
  const [oldest] = failed;
  if (failed.size > MAX_REMEMBERED) failed.delete(oldest!);
}
