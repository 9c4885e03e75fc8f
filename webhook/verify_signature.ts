import { createHmac } from "node:crypto";
import { timingSafeEqual } from "@std/crypto/timing-safe-equal";

/** The form of a signature: SHA-256 has 32 bytes. */
const SIGNATURE = /^sha256=[0-9a-f]{64}$/;

/** Start of a signature. The digest follows, in hex. */
export const HUB_PREFIX = "sha256=";

/** Length of a signature, in characters. */
export const HUB_LENGTH = HUB_PREFIX.length + 64;

const encoder = new TextEncoder();

/**
 * Checks a signature over a text.
 *
 * The signature is HMAC-SHA256 over the text's UTF-8 bytes, in lowercase hex after `sha256=`. It is
 * compared in constant time. For a request's body use {@linkcode verifySignatureBytes}: reading a body as
 * text drops a byte order mark and replaces invalid UTF-8.
 *
 * @param payload The signed text.
 * @param signature The signature, as in the header `X-Hub-Signature-256`.
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
 * @param signature The signature, as in the header `X-Hub-Signature-256`.
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
 * Checks the form of a signature.
 *
 * @param text The text.
 * @returns Whether it has the form of a signature.
 */
export function isSignature(text: unknown): text is string {
  return typeof text === "string" && SIGNATURE.test(text);
}

/** Compares ASCII texts of one length in constant time. Its bytes are reused: new ones take 2 µs. */
export class TextComparison {
  readonly #first: Uint8Array<ArrayBuffer>;
  readonly #second: Uint8Array<ArrayBuffer>;

  /** @param length The length of the texts, in characters. */
  constructor(length: number) {
    this.#first = new Uint8Array(length);
    this.#second = new Uint8Array(length);
  }

  /** Checks that two texts are the same. */
  isSame(first: string, second: string): boolean {
    encoder.encodeInto(first, this.#first);
    encoder.encodeInto(second, this.#second);
    return timingSafeEqual(this.#first, this.#second);
  }
}

/** A text goes into the HMAC as it is: converting 25 MB to bytes first takes twice as long. */
function isRight(payload: string | Uint8Array, signature: string, secret: string): boolean {
  if (typeof secret !== "string" || secret === "" || !isSignature(signature)) return false;
  const digest = createHmac("sha256", secret).update(payload).digest("hex");
  return new TextComparison(HUB_LENGTH).isSame(signature, HUB_PREFIX + digest);
}
