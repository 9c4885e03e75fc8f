import { checkKeys, checkObject, met } from "../core/check_options.ts";
import type { TestDelivery } from "./forge_delivery.ts";
import { TEST_SECRETS } from "./test_secrets.ts";

/**
 * Sender of an update: `messenger` uses the header of this package's own contract.
 *
 * @category Deliveries
 */
export type MessengerSender = "messenger" | "telegram";

/**
 * Options of {@linkcode messengerUpdate}.
 *
 * @category Deliveries
 */
export interface MessengerUpdateOptions {
  /**
   * Sender of the update.
   *
   * @default {"telegram"}
   */
  readonly from?: MessengerSender | undefined;
  /**
   * Secret token that the update carries.
   *
   * @default {TEST_SECRETS.messenger}
   */
  readonly secret?: string | undefined;
  /**
   * Path that the update is posted to.
   *
   * @default {undefined} That of the app's only platform of its kind.
   */
  readonly path?: string | undefined;
}

const DOING = "build the update";

const HEADERS = {
  messenger: "X-Messenger-Bot-Api-Secret-Token",
  telegram: "X-Telegram-Bot-Api-Secret-Token",
} as const;

/** Largest random update id: updates rarely get the same one. */
const MAX_UPDATE_ID = 2 ** 31;

/**
 * Builds an update as a messenger sends it.
 *
 * @param update The update: an object, which gets an `update_id` if it has none, or a JSON document that is
 * sent unchanged.
 * @param options The sender and its secret token.
 * @returns The update, as a request.
 * @throws {TypeError} If the update is missing, or there is another option or sender.
 *
 * @example
 * ```ts
 * import { messengerUpdate } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * const update = messengerUpdate({ update_id: 1, message: { from: { id: 42 }, text: "hello" } });
 * assertEquals(update.body, '{"update_id":1,"message":{"from":{"id":42},"text":"hello"}}');
 * ```
 *
 * @category Deliveries
 */
export function messengerUpdate(
  update: object | string,
  options: MessengerUpdateOptions = {},
): TestDelivery {
  checkObject(DOING, options);
  checkKeys(DOING, options, ["from", "secret", "path"]);
  const { from = "telegram", secret = TEST_SECRETS.messenger, path } = options;
  if (!Object.hasOwn(HEADERS, from)) {
    const known = Object.keys(HEADERS).join(", ");
    throw new TypeError(`Cannot ${DOING}: 'from' must be one of ${known}, got ${met(from)}`);
  }
  const headers = new Headers({ "Content-Type": "application/json", [HEADERS[from]]: secret });
  if (update === undefined || update === null) {
    throw new TypeError(`Cannot ${DOING}: it must be an object or a text, got ${met(update)}`);
  }
  return { platform: "messenger", path, method: "POST", headers, body: bodyOf(update) };
}

function bodyOf(update: object | string): string | Uint8Array<ArrayBuffer> {
  if (typeof update === "string") return update;
  if (update instanceof Uint8Array) return new Uint8Array(update);
  const [random] = crypto.getRandomValues(new Uint32Array(1));
  return JSON.stringify({ update_id: random! % MAX_UPDATE_ID, ...update });
}
