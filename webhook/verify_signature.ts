import { timingSafeEqual } from "@std/crypto/timing-safe-equal";
import { nodeCrypto } from "../core/node_crypto.ts";

/** The form of a signature: SHA-256 has 32 bytes. */
const SIGNATURE = /^sha256=[0-9a-f]{64}$/;

/** How a signature begins. */
const PREFIX = "sha256=";

/** How long a signature is. */
const LENGTH = PREFIX.length + 64;

/** Room for two signatures that are compared. */
const [sentBytes, expectedBytes] = [new Uint8Array(LENGTH), new Uint8Array(LENGTH)];

const encoder = new TextEncoder();

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
 * Checks a signature over bytes by Web Crypto: without Node's module, and on another thread.
 *
 * @param payload The signed bytes.
 * @param signature The signature, as `X-Hub-Signature-256` brings it.
 * @param secret The shared secret.
 * @returns Whether the signature is right; false for a malformed signature and for an empty secret.
 */
export async function verifySignatureAsync(
  payload: Uint8Array<ArrayBuffer>,
  signature: string,
  secret: string,
): Promise<boolean> {
  if (typeof secret !== "string" || secret === "" || !isSignature(signature)) return false;
  return isSignatureOf(await hmacElsewhere(encoder.encode(secret), payload), signature);
}

/**
 * Makes the HMAC-SHA256 of bytes by Web Crypto, which makes a copy of them.
 *
 * @param key The key.
 * @param payload The bytes.
 * @returns The digest.
 */
export async function hmacElsewhere(
  key: Uint8Array<ArrayBuffer>,
  payload: Uint8Array<ArrayBuffer>,
): Promise<Uint8Array> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const imported = await crypto.subtle.importKey("raw", key, algorithm, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, payload));
}

/**
 * Compares a digest with a signature, in constant time.
 *
 * @param digest The digest.
 * @param signature The signature, which has the form of one.
 * @returns Whether the signature is right.
 */
export function isSignatureOf(digest: Uint8Array, signature: string): boolean {
  return isSame(signature, Array.from(digest, hexOf).join(""));
}

/** A text goes to the HMAC as it is: made bytes before, 25 MB of it take twice as long. */
function isRight(payload: string | Uint8Array, signature: string, secret: string): boolean {
  if (typeof secret !== "string" || secret === "") return false;
  if (!isSignature(signature)) return false;
  return isSame(
    signature,
    nodeCrypto().createHmac("sha256", secret).update(payload).digest("hex"),
  );
}

/** Into the same bytes each time: to make new ones takes another 1 µs. */
function isSame(signature: string, digest: string): boolean {
  encoder.encodeInto(signature, sentBytes);
  encoder.encodeInto(PREFIX + digest, expectedBytes);
  return timingSafeEqual(sentBytes, expectedBytes);
}

function hexOf(byte: number): string {
  return byte.toString(16).padStart(2, "0");
}
