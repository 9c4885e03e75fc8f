import type { TestDelivery } from "./forge_delivery.ts";
import { TEST_SECRETS } from "./test_secrets.ts";

/** Sender of an update: `messenger` uses the header of this package's own contract. */
export type MessengerSender = "messenger" | "telegram";

/** Options of {@linkcode messengerUpdate}. */
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
}

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
 *
 * @example
 * ```ts
 * import { messengerUpdate } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * const update = messengerUpdate({ update_id: 1, message: { from: { id: 42 }, text: "hello" } });
 * assertEquals(update.body, '{"update_id":1,"message":{"from":{"id":42},"text":"hello"}}');
 * ```
 */
export function messengerUpdate(
  update: object | string,
  options: MessengerUpdateOptions = {},
): TestDelivery {
  const { from = "telegram", secret = TEST_SECRETS.messenger } = options;
  const headers = new Headers({ "Content-Type": "application/json", [HEADERS[from]]: secret });
  return { platform: "messenger", method: "POST", headers, body: bodyOf(update) };
}

function bodyOf(update: object | string): string | Uint8Array<ArrayBuffer> {
  if (typeof update === "string") return update;
  if (update instanceof Uint8Array) return new Uint8Array(update);
  const [random] = crypto.getRandomValues(new Uint32Array(1));
  return JSON.stringify({ update_id: random! % MAX_UPDATE_ID, ...update });
}
