import type { Context, Hono } from "@hono/hono";
import { checkFunctions, met } from "../core/check_options.ts";
import { logSinkOf, writeLog } from "../core/mod.ts";
import type { Delivery } from "../events/store/mod.ts";
import {
  type AllowedUsersEnv,
  type AuthorizeUser,
  failingOnce,
  idsOf,
  isUserAuthorized,
  notAuthorized,
} from "./authorize.ts";
import { checkIntakeOptions, checkTokens } from "./check_intake.ts";
import { createIntake, type IntakeOptions } from "./intake.ts";
import { MESSENGER_CREDENTIALS, parseMessengerUpdate } from "./platforms/messenger.ts";
import { type VerifiedBy, Verifier } from "./verifier.ts";

/** An update holds one message with its quotes, which is far smaller. */
const MAX_BODY_BYTES = 1024 * 1024;

const DOING = "create the messenger intake";

/** Options of {@linkcode createMessengerIntake}. */
export interface MessengerIntakeOptions<TEnv extends object = AllowedUsersEnv>
  extends IntakeOptions {
  /** The secret tokens that are accepted: several while one is being replaced. */
  readonly secrets: readonly string[];
  /**
   * Largest body, in bytes.
   *
   * @default {1_048_576} 1 MiB.
   */
  readonly maxBodyBytes?: number | undefined;
  /**
   * Decides which updates reach the bot, by the bindings, the user's id and the parsed update. A bot for
   * one group looks at the update's `chat`. If it throws, the update is answered 500. If it throws again
   * for the same update, the user counts as not allowed, and an error is logged.
   *
   * @default {isUserAuthorized} The users in the binding `MESSENGER_ALLOWED_USERS`.
   */
  readonly isAuthorized?: AuthorizeUser<TEnv> | undefined;
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
 * Makes the app that accepts a messenger's updates at `POST /webhook`.
 *
 * A request is answered 200 `OK` once its event is stored; 401 `MISSING_TOKEN` or `INVALID_TOKEN` if it
 * does not bring the secret token; 403 `AUTH_001` if its sender is not allowed; 400, 413, 415 or 408
 * if it is not an update; 503 `QUEUE_UNAVAILABLE` if the store cannot accept it.
 *
 * @param options The secret tokens, the store, and the allowed users.
 * @returns An app to mount with `app.route("/", ...)`.
 * @throws {TypeError} If there is no secret token, or one is blank or not printable ASCII.
 * @throws {RangeError} If a limit is out of range, or is more than the store can hold.
 *
 * @example
 * ```ts
 * import { createBaseApp, createMessengerIntake, openEventStore } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * using kv = await Deno.openKv(":memory:");
 * const store = await openEventStore(kv);
 * const app = createBaseApp({ name: "messenger", logger: false });
 * app.route("/", createMessengerIntake({ secrets: ["a-secret-token"], store }));
 *
 * const response = await app.request("/webhook", { method: "POST", body: "{}" });
 * assertEquals(response.status, 401);
 * assertEquals(await response.json(), { error: "Missing secret token" });
 * ```
 *
 * @example A bot for one group: updates of other chats are answered 200 and dropped
 * ```ts
 * import { createBaseApp, createMessengerIntake, openEventStore } from "@org/edge-base";
 * import { messengerUpdate } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * const GROUP = -1001234567890;
 *
 * using kv = await Deno.openKv(":memory:");
 * const store = await openEventStore(kv);
 * const app = createBaseApp({ name: "group-bot", logger: false });
 * const secrets = ["a-secret-token"];
 * app.route("/", createMessengerIntake({
 *   secrets,
 *   store,
 *   isAuthorized: (_env, _userId, { chat }) => chat?.id === GROUP,
 *   unauthorized: "ignore",
 * }));
 *
 * for (const id of [GROUP, 4711]) {
 *   const message = { from: { id: 4711 }, chat: { id }, text: "hello" };
 *   const update = messengerUpdate({ message }, { secret: secrets[0] });
 *   assertEquals((await app.request("/webhook", update)).status, 200);
 * }
 * const chats = (await Array.fromAsync(store.list())).map((event) => "chat" in event && event.chat?.id);
 * assertEquals(chats, [GROUP]);
 * ```
 */
export function createMessengerIntake<TEnv extends object = AllowedUsersEnv>(
  options: MessengerIntakeOptions<TEnv>,
): Hono {
  checkIntakeOptions("messenger", options);
  const { secrets, maxBodyBytes = MAX_BODY_BYTES } = options;
  const { isAuthorized = isUserAuthorized, unauthorized = "reject" } = options;
  checkTokens("messenger", secrets);
  checkFunctions(DOING, { isAuthorized });
  if (unauthorized !== "reject" && unauthorized !== "ignore") {
    const got = met(unauthorized);
    throw new TypeError(`Cannot ${DOING}: 'unauthorized' must be "reject" or "ignore", got ${got}`);
  }
  const decide = failingOnce<TEnv>(isAuthorized);
  return createIntake(
    {
      name: "messenger",
      maxBodyBytes,
      hasSeveralSecrets: secrets.length > 1,
      verifier: new Verifier(MESSENGER_CREDENTIALS, [], secrets),
      parse: parseMessengerUpdate,
      authorize: async (c, update) => {
        const authorized = await decide(c.env ?? {}, update, logSinkOf(c));
        if (!authorized && unauthorized === "reject") throw notAuthorized();
        if (!authorized) logIgnored(c, update);
        return authorized;
      },
    },
    options,
  );
}

/**
 * Verifies that a request brings one of the secret tokens.
 *
 * @param headers The request's headers.
 * @param secrets The secret tokens. All are always tried.
 * @returns The secret token that has verified it.
 * @throws {HttpError} 401 `MISSING_TOKEN` without a token; 401 `INVALID_TOKEN` if it is not right.
 */
export function verifyMessengerUpdate(headers: Headers, secrets: readonly string[]): VerifiedBy {
  return new Verifier(MESSENGER_CREDENTIALS, [], secrets).verify(headers);
}

function logIgnored(c: Context, update: Delivery): void {
  const requestId = c.get("requestId");
  const fields = { requestId, platform: "messenger", code: "AUTH_001", ...idsOf(update) };
  writeLog(logSinkOf(c), "warn", "update ignored: User not authorized", fields);
}
