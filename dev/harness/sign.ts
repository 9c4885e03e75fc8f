import { createHmac } from "node:crypto";

/** The forge's secret in tests and benchmarks. */
export const FORGE_SECRET = "It's a Secret to Everybody";

/** The messenger's secret token in the tests. */
export const MESSENGER_SECRET = "a-secret-token-for-tests";

/** The HMAC-SHA256 of text or bytes, as `node:crypto` computes it. */
export function hmac(key: string | Uint8Array, signed: string | Uint8Array): Uint8Array {
  return createHmac("sha256", key).update(signed).digest();
}

/** Signs a body as GitHub does. */
export function sign(body: string | Uint8Array, secret: string = FORGE_SECRET): string {
  return `sha256=${hmac(secret, body).toHex()}`;
}

/** Signs a body as Standard Webhooks do: together with its id and its time, in seconds. */
export function signStandard(
  body: string | Uint8Array,
  id: string,
  time: string | number,
  key: string | Uint8Array,
): string {
  const signed = createHmac("sha256", key).update(`${id}.${time}.`).update(body);
  return `v1,${signed.digest("base64")}`;
}

/** Signs a body as Slack does: together with its time, in seconds. */
export function signSlack(
  body: string | Uint8Array,
  time: string | number,
  secret: string,
): string {
  const signed = createHmac("sha256", secret).update(`v0:${time}:`).update(body);
  return `v0=${signed.digest("hex")}`;
}
