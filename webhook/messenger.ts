import type { Context, Hono } from "@hono/hono";
import { checkFunctions, met } from "../core/check_options.ts";
import { HttpError, logSinkOf, writeLog } from "../core/mod.ts";
import {
  type AllowedUsersEnv,
  type AuthorizeUser,
  isUserAuthorized,
  notAuthorized,
  updateKindOf,
} from "./authorize.ts";
import { mediaTypeOf } from "./platforms/headers.ts";
import { chatOf, updateSenderOf } from "./platforms/event_subject.ts";
import type { Delivery } from "../events/store/delivery.ts";
import { failingOnce } from "./_authorize_update.ts";
import { checkTokens } from "./_check_secrets.ts";
import { checkIntakeOptions, createIntake, type IntakeOptions } from "./intake.ts";
import { invalidBody, type JsonObject, parseJsonObject } from "../core/parse_json.ts";
import { positionOf, type ProvedBy } from "./proved_by.ts";
import { verifySecretToken } from "./verify_secret_token.ts";

/** An update holds one message with its quotes: far below this. */
const MAX_BODY_BYTES = 1024 * 1024;

const TOKEN_HEADERS = [
  "X-Messenger-Bot-Api-Secret-Token",
  "X-Telegram-Bot-Api-Secret-Token",
] as const;

/** What cannot be done with wrong options. */
const DOING = "create the messenger intake";

/** Options of {@linkcode createMessengerIntake}. */
export interface MessengerIntakeOptions<TEnv extends object = AllowedUsersEnv>
  extends IntakeOptions {
  /** The secret tokens that are accepted: several while one is being replaced. */
  readonly secrets: readonly string[];
  /**
   * How many bytes a body may have.
   *
   * @default {1_048_576} 1 MiB.
   */
  readonly maxBodyBytes?: number | undefined;
  /**
   * Decides who may use the bot. When it throws, the update is answered 500; when it throws again for the
   * same update, that is taken for one of a user who is not allowed, and logged as an error.
   *
   * @default {isUserAuthorized} Whom `MESSENGER_ALLOWED_USERS` in the bindings names.
   */
  readonly isAuthorized?: AuthorizeUser<TEnv> | undefined;
  /**
   * What an update of a user who is not allowed is answered: `reject` with 403 `AUTH_001`, or `ignore`
   * with 200, logged and not stored. A messenger sends an update that was not answered 2xx again, for
   * a day, and holds back the later ones of the same chat.
   *
   * @default {"reject"}
   */
  readonly unauthorized?: "reject" | "ignore" | undefined;
}

/**
 * Makes the app that takes a messenger's updates at `POST /webhook`.
 *
 * A request is answered 200 `OK` once its event is stored; 401 `MISSING_TOKEN` or `INVALID_TOKEN` if it
 * does not bring the secret token; 403 `AUTH_001` if its sender is not allowed; 400, 413, 415 or 408
 * if it is no update; 503 `QUEUE_UNAVAILABLE` if the store cannot take it.
 *
 * @param options The secret tokens, the store, and who is allowed.
 * @returns An app to mount with `app.route("/", ...)`.
 * @throws {TypeError} If there is no secret token, or one is blank or not printable ASCII.
 * @throws {RangeError} If a limit makes no sense, or is more than the store can hold.
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
      verifyHead: (headers) => {
        const provedBy = verifyMessengerUpdate(headers, secrets);
        return () => provedBy;
      },
      parse: parseMessengerUpdate,
      authorize: async (c, update) => {
        const authorized = await decide(c.env ?? {}, update, logSinkOf(c));
        if (!authorized && unauthorized === "reject") throw notAuthorized();
        if (!authorized) logIgnored(c);
        return authorized;
      },
    },
    options,
  );
}

/**
 * Checks that a request brings one of the secret tokens.
 *
 * @param headers The request's headers.
 * @param secrets The secret tokens. All are always tried.
 * @returns Which secret token it was.
 * @throws {HttpError} 401 `MISSING_TOKEN` without a token; 401 `INVALID_TOKEN` if it is not right.
 */
export function verifyMessengerUpdate(headers: Headers, secrets: readonly string[]): ProvedBy {
  const token = TOKEN_HEADERS.map((name) => headers.get(name)).find((value) => value);
  if (!token) throw new HttpError(401, "Missing secret token", { code: "MISSING_TOKEN" });
  const position = positionOf(secrets, (secret) => verifySecretToken(token, secret));
  if (position) return `secret ${position}`;
  throw new HttpError(401, "Invalid secret token", { code: "INVALID_TOKEN" });
}

/**
 * Makes the delivery of a request that was proved genuine.
 *
 * @param headers The request's headers.
 * @param body The request's body: the update, in JSON.
 * @returns The delivery. Its id is the `update_id`.
 * @throws {HttpError} 415 `UNSUPPORTED_MEDIA_TYPE` or 400 `INVALID_BODY`.
 */
export function parseMessengerUpdate(headers: Headers, body: Uint8Array<ArrayBuffer>): Delivery {
  mediaTypeOf(headers, ["application/json"]);
  const payload = parseJsonObject(body);
  const type = updateKindOf(payload);
  if (type === undefined || !/^[a-z][a-z0-9_]{0,99}$/i.test(type)) {
    throw invalidBody("Update has no content");
  }
  return {
    platform: "messenger",
    intake: "messenger",
    source: headers.has(TOKEN_HEADERS[0]) ? "messenger" : "telegram",
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

function logIgnored(c: Context): void {
  const fields = { requestId: c.get("requestId"), platform: "messenger", code: "AUTH_001" };
  writeLog(logSinkOf(c), "warn", "update ignored: User not authorized", fields);
}
