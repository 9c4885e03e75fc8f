import { Buffer } from "node:buffer";
import { createHmac } from "node:crypto";
import { timingSafeEqual } from "@std/crypto/timing-safe-equal";

/** The form of a signature: SHA-256 has 32 bytes. */
const SIGNATURE = /^sha256=[0-9a-f]{64}$/;

/**
 * Checks a signature over a text.
 *
 * The signature is HMAC-SHA256 over the text's UTF-8 bytes, in lowercase hex behind `sha256=`. It is
 * compared in constant time. To check what a request brought use {@linkcode verifySignatureBytes}:
 * reading a body as text drops a byte order mark and replaces invalid UTF-8.
 *
 * @param payload The signed text.
 * @param signature The signature, as `X-Hub-Signature-256` brings it.
 * @param secret The shared secret.
 * @returns Whether the signature is right; false for a malformed signature and for an empty secret.
 *
 * @example
 * ```ts
 * import { verifySignature } from "@org/edge-base";
 * import { assert, assertEquals } from "@std/assert";
 *
 * const signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
 *
 * assert(verifySignature("Hello, World!", signature, "It's a Secret to Everybody"));
 * assertEquals(verifySignature("Hello, World!", "sha256=00", "It's a Secret to Everybody"), false);
 * ```
 */
export function verifySignature(payload: string, signature: string, secret: string): boolean {
  return typeof payload === "string" && isRight(payload, signature, secret);
}

/**
 * Checks a signature over bytes, as {@linkcode verifySignature} does over a text.
 *
 * @param payload The signed bytes.
 * @param signature The signature, as `X-Hub-Signature-256` brings it.
 * @param secret The shared secret.
 * @returns Whether the signature is right; false for a malformed signature and for an empty secret.
 */
export function verifySignatureBytes(
  payload: Uint8Array,
  signature: string,
  secret: string,
): boolean {
  return isRight(payload, signature, secret);
}

/**
 * Tells whether a text has the form of a signature.
 *
 * @param text The text.
 * @returns Whether it has.
 */
export function isSignature(text: unknown): text is string {
  return typeof text === "string" && SIGNATURE.test(text);
}

/**
 * A text goes to the HMAC as it is: made bytes before, 25 MB of it take twice as long. Buffers are
 * compared because they are made faster than by a `TextEncoder`.
 */
function isRight(payload: string | Uint8Array, signature: string, secret: string): boolean {
  if (typeof secret !== "string" || secret === "") return false;
  if (!isSignature(signature)) return false;
  const expected = `sha256=${createHmac("sha256", secret).update(payload).digest("hex")}`;
  return timingSafeEqual(Buffer.from(signature), Buffer.from(expected));
}
