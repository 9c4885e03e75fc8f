import { createHmac } from "node:crypto";
import { checkKeys, checkObject, met } from "../core/check_options.ts";
import { TEST_SECRETS } from "./test_secrets.ts";
import { bytesOf } from "../webhook/verify_signature.ts";
import type { TestDelivery } from "./forge_delivery.ts";

/**
 * Options of {@linkcode standardDelivery}.
 *
 * @category Deliveries
 */
export interface StandardDeliveryOptions {
  /**
   * Secret that the delivery is signed with, with or without `whsec_`.
   *
   * @default {TEST_SECRETS.gitlab}
   */
  readonly secret?: string | undefined;
  /**
   * Id of the delivery. Sending the same id again makes a duplicate.
   *
   * @default {crypto.randomUUID()}
   */
  readonly id?: string | undefined;
  /**
   * Time of sending, in milliseconds since the epoch. It is signed.
   *
   * @default {Date.now()}
   */
  readonly sentAt?: number | undefined;
  /**
   * Path that the delivery is posted to.
   *
   * @default {undefined} That of the app's only platform of its kind.
   */
  readonly path?: string | undefined;
  /**
   * Name of the platform that the delivery is for, in an app that has several of `standard()`.
   *
   * @default {"standard"} Their kind.
   */
  readonly platform?: string | undefined;
}

/**
 * Builds a delivery that is signed as the Standard Webhooks specification says, for the platforms of
 * `standard()`.
 *
 * @param payload The payload, with the event's type: an object, or a JSON document that is sent byte for byte.
 * @param options The secret, the id, the time and the platform.
 * @returns The delivery.
 * @throws {TypeError} If the payload is missing, there is another option, or the secret is not base64.
 *
 * @example
 * ```ts
 * import { standardDelivery } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * const delivery = standardDelivery({ type: "invoice.paid", data: {} }, { id: "msg_1" });
 * assertEquals(delivery.headers.get("webhook-id"), "msg_1");
 * ```
 *
 * @category Deliveries
 */
export function standardDelivery(
  payload: object | string,
  options: StandardDeliveryOptions = {},
): TestDelivery {
  checkObject("build the delivery", options);
  checkKeys("build the delivery", options, ["secret", "id", "sentAt", "path", "platform"]);
  if (payload === undefined || payload === null) {
    throw new TypeError(`Cannot build the delivery: it must have a payload, got ${met(payload)}`);
  }
  const { secret = TEST_SECRETS.gitlab, id = crypto.randomUUID(), path } = options;
  const { platform = "standard", sentAt = Date.now() } = options;
  const body = bodyOf(payload);
  const timestamp = String(Math.floor(sentAt / 1_000));
  const signed = createHmac("sha256", keyOf(secret)).update(`${id}.${timestamp}.`).update(body);
  const headers = new Headers({
    "Content-Type": "application/json",
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": `v1,${signed.digest("base64")}`,
  });
  return { platform, path, method: "POST", headers, body };
}

function keyOf(secret: string): Uint8Array {
  const key = bytesOf(secret.replace(/^whsec_/, ""));
  if (key) return key;
  throw new TypeError("Cannot sign the delivery: the secret must be base64, after whsec_ or alone");
}

function bodyOf(payload: object | string): string | Uint8Array<ArrayBuffer> {
  if (typeof payload === "string") return payload;
  return payload instanceof Uint8Array ? new Uint8Array(payload) : JSON.stringify(payload);
}
