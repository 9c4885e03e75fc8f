/**
 * Signatures and secret tokens: the schemes that they follow, the keys that they are made with, and their
 * comparison in constant time.
 *
 * @module
 */
import { createHmac } from "node:crypto";
import { timingSafeEqual } from "@std/crypto/timing-safe-equal";
import { tokenFinder } from "../core/secrets.ts";

/** Way to sign requests with HMAC-SHA256. */
export interface SignatureScheme {
  /** Start of a signature. The digest follows. */
  readonly prefix: string;
  /** Encoding of the digest. */
  readonly encoding: "hex" | "base64";
  /** Compares two signatures in constant time. */
  readonly isSame: (first: string, second: string) => boolean;
  /** Checks whether a secret is meant for this scheme. */
  isFor(secret: string): boolean;
  /** Decodes the key of a secret; undefined if the secret holds none. */
  keyOf(secret: string): Uint8Array<ArrayBuffer> | undefined;
  /** Reads what a request claims to be signed with: undefined for nothing, null if it is malformed. */
  read(headers: Headers): Signed | null | undefined;
}

/** Signatures in a request's headers. They are a claim until the body is there. */
export interface Signed {
  /** Signatures in the scheme's form. One of them must be right. */
  readonly signatures: readonly string[];
  /** Bytes that are signed ahead of the body; undefined for none. */
  readonly head?: Uint8Array<ArrayBuffer>;
  /** Signed time of sending, in seconds since the epoch; undefined for none. */
  readonly timestamp?: string;
}

/** Key that a secret holds. */
export interface Key {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Position of its secret among all secrets, from 1. */
  readonly position: number;
  /** The key for Web Crypto, imported when it is needed for the first time. */
  imported?: Promise<CryptoKey>;
}

/** Start of a hub signature. */
const HUB_PREFIX = "sha256=";

/** Form of a hub signature: SHA-256 has 32 bytes. */
const HUB_SIGNATURE = /^sha256=[0-9a-f]{64}$/;

/** Start of a secret of the Standard Webhooks specification. The key follows, in base64. */
const STANDARD_SECRET = "whsec_";

/** Form of a standard signature. */
const STANDARD_SIGNATURE = /^v1,[A-Za-z0-9+/]{43}=$/;

const STANDARD_LENGTH = 47;

/** Two headers that were joined, each with a signature. */
const TWO_HEADERS = /,[^ ,]+, /;

/** Form of a time in seconds since the epoch. */
export const TIMESTAMP = /^\d{1,12}$/;

/** Difference allowed between the clocks, as in the specification's libraries. */
const TOLERANCE_MS = 300_000;

/**
 * Points of Ed25519 whose multiples are only up to 8 others, in all their encodings (libsodium,
 * `ge25519_has_small_order`).
 */
const SMALL_ORDER: ReadonlySet<string> = new Set([
  "00".repeat(32),
  `01${"00".repeat(31)}`,
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
  ...["ec", "ed", "ee"].map((first) => `${first}${"ff".repeat(30)}7f`),
]);

const encoder = new TextEncoder();

const isSameHub = comparisonOf(71);

/** Makes a comparison of ASCII texts of one length. Its bytes are reused: new ones take 2 µs. */
export function comparisonOf(length: number): SignatureScheme["isSame"] {
  const [left, right] = [new Uint8Array(length), new Uint8Array(length)];
  return (first, second) => {
    encoder.encodeInto(first, left);
    encoder.encodeInto(second, right);
    return timingSafeEqual(left, right);
  };
}

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
 *
 * @category Platforms
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
 * @category Platforms
 */
export function verifySignatureBytes(
  payload: Uint8Array,
  signature: string,
  secret: string,
): boolean {
  return isRight(payload, signature, secret);
}

/** A text goes into the HMAC as it is: converting 25 MB to bytes first takes twice as long. */
function isRight(payload: string | Uint8Array, signature: string, secret: string): boolean {
  if (typeof secret !== "string" || secret === "" || !isHubSignature(signature)) return false;
  const digest = createHmac("sha256", secret).update(payload).digest("hex");
  return isSameHub(signature, HUB_PREFIX + digest);
}

function isHubSignature(text: unknown): text is string {
  return typeof text === "string" && HUB_SIGNATURE.test(text);
}

/**
 * Checks a secret token, in a time that tells neither where the two differ nor how long the right one is.
 *
 * @param token The token of the request.
 * @param secret The token that was agreed on.
 * @returns Whether they are the same; false for an empty secret.
 * @category Steps of an intake
 */
export function verifySecretToken(token: string, secret: string): boolean {
  if (typeof token !== "string" || typeof secret !== "string" || secret === "") return false;
  return tokenFinder([secret])(token) > 0;
}

/** The scheme of GitHub, Gitea and Forgejo: `X-Hub-Signature-256` has the HMAC of the body, in hex. */
export const HUB_SCHEME: SignatureScheme = {
  prefix: HUB_PREFIX,
  encoding: "hex",
  isSame: isSameHub,
  isFor: () => true,
  keyOf: textKeyOf,
  read: (headers) => {
    const signature = headers.get("X-Hub-Signature-256");
    if (!signature) return undefined;
    return isHubSignature(signature) ? { signatures: [signature] } : null;
  },
};

/** Makes the key of a secret that is used as it is; undefined if it is empty. */
export function textKeyOf(secret: string): Uint8Array<ArrayBuffer> | undefined {
  return typeof secret === "string" && secret ? encoder.encode(secret) : undefined;
}

/**
 * Makes a scheme of the Standard Webhooks specification.
 *
 * @param isFor Checks whether a secret is meant for it.
 * @param prefixes The starts of its headers' names, see {@linkcode standardHeadersOf}.
 * @returns The scheme.
 */
export function standardScheme(
  isFor: (secret: string) => boolean,
  prefixes: readonly string[],
): SignatureScheme {
  return {
    prefix: "v1,",
    encoding: "base64",
    isSame: comparisonOf(STANDARD_LENGTH),
    isFor,
    keyOf: (secret) => isFor(secret) ? standardKeyOf(secret) : undefined,
    read: (headers) => {
      const signed = standardHeadersOf(headers, prefixes);
      if (!signed) return signed;
      const signatures = signed.signatures.filter(isStandardSignature);
      return { ...signed, signatures, head: standardHeadOf(signed) };
    },
  };
}

/** Headers of a request that is signed as the Standard Webhooks specification says. */
interface StandardHeaders extends Signed {
  /** Id of the delivery. */
  readonly id: string;
  readonly timestamp: string;
}

/**
 * Reads id, time and signatures of a request, all with one prefix: they are never mixed. Signatures of another
 * form or version are kept, since the specification's libraries pass over them. The headers have room for
 * 1,365 signatures: comparing them takes 1 ms.
 *
 * @param headers The request's headers.
 * @param prefixes The starts of the headers' names, such as `webhook`. The first with three headers counts.
 * @returns The headers; undefined if there is no signature, null if none of the prefixes has all three.
 */
export function standardHeadersOf(
  headers: Headers,
  prefixes: readonly string[],
): StandardHeaders | null | undefined {
  let isSigned = false;
  for (const prefix of prefixes) {
    const signatures = headers.get(`${prefix}-signature`);
    if (!signatures) continue;
    isSigned = true;
    const id = headers.get(`${prefix}-id`);
    const timestamp = headers.get(`${prefix}-timestamp`);
    if (!id || !timestamp || !TIMESTAMP.test(timestamp) || TWO_HEADERS.test(signatures)) continue;
    return { id, timestamp, signatures: signatures.split(" ") };
  }
  return isSigned ? null : undefined;
}

/** Makes the bytes that are signed ahead of the body. */
export function standardHeadOf(
  { id, timestamp }: Pick<StandardHeaders, "id" | "timestamp">,
): Uint8Array<ArrayBuffer> {
  return encoder.encode(`${id}.${timestamp}.`);
}

function isStandardSignature(text: string): boolean {
  return text.length === STANDARD_LENGTH && STANDARD_SIGNATURE.test(text);
}

/** Checks whether a secret is one of the Standard Webhooks specification. */
export function isStandardSecret(secret: string): boolean {
  return typeof secret === "string" && secret.startsWith(STANDARD_SECRET);
}

/** Decodes the key of a standard secret, with or without its prefix; undefined if it is not base64, or empty. */
export function standardKeyOf(secret: string): Uint8Array<ArrayBuffer> | undefined {
  return bytesOf(isStandardSecret(secret) ? secret.slice(STANDARD_SECRET.length) : secret);
}

/** Decodes base64; undefined if it is something else, or empty. */
export function bytesOf(base64: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    const bytes = atob(base64);
    return bytes === "" ? undefined : Uint8Array.from(bytes, (byte) => byte.charCodeAt(0));
  } catch {
    return undefined;
  }
}

/** Checks that a request was sent within 5 minutes of now, so that a captured one is of no use later. */
export function isRecent(timestamp: string, now: number = Date.now()): boolean {
  return Math.abs(now - Number(timestamp) * 1_000) <= TOLERANCE_MS;
}

/** Decodes the keys of secrets. A secret of another scheme has none. */
export function keysOf(secrets: readonly string[], keyOf: SignatureScheme["keyOf"]): Key[] {
  return secrets.flatMap((secret, index) => {
    const bytes = keyOf(secret);
    return bytes ? [{ bytes, position: index + 1 }] : [];
  });
}

/** Returns a key for Web Crypto. */
export function importedOf(
  key: Key,
  algorithm: HmacImportParams | "Ed25519",
  usage: "sign" | "verify",
): Promise<CryptoKey> {
  return key.imported ??= crypto.subtle.importKey("raw", key.bytes, algorithm, false, [usage]);
}

/** Joins the bytes that are signed ahead of a body with the body. */
export function joined(head: Uint8Array, body: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(head.byteLength + body.byteLength);
  bytes.set(head);
  bytes.set(body, head.byteLength);
  return bytes;
}

/**
 * Checks whether anybody can sign for an Ed25519 public key. Web Crypto in Deno takes such a key, and for one
 * message in 8 anybody can name its signature. All zeros, a likely placeholder, is one of them. Refuse it where
 * your platform reads its key.
 *
 * @param key The public key, 32 bytes.
 * @returns True if it is a point of small order.
 *
 * @example
 * ```ts
 * import { isWeakPublicKey } from "@org/edge-base/webhook";
 * import { assert } from "@std/assert";
 *
 * assert(isWeakPublicKey(new Uint8Array(32)));
 * ```
 *
 * @category Platforms
 */
export function isWeakPublicKey(key: Uint8Array): boolean {
  // The highest bit is the sign of the other coordinate.
  const unsigned = Array.from(key, (byte, i) => i === 31 ? byte & 0x7f : byte);
  return SMALL_ORDER.has(unsigned.map((byte) => byte.toString(16).padStart(2, "0")).join(""));
}
