/**
 * Signatures of requests: the schemes they follow, the keys they are made with, and their comparison.
 *
 * A scheme finds the signature in a request's headers, which is a claim until the body is there. The claim
 * knows the keys of its scheme: its HMACs, one under each key, are given the content, and then tell which
 * secret has made the signature.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { createHmac, type Hmac } from "node:crypto";
import { timingSafeEqual } from "@std/crypto/timing-safe-equal";

/** A way to sign requests with HMAC-SHA256. */
export interface SignatureScheme {
  /** Start of a signature. The digest follows. */
  readonly prefix: string;
  /** Length of a signature, in characters. */
  readonly length: number;
  /** Encoding of the digest. */
  readonly encoding: "hex" | "base64";
  /** Checks whether a secret is meant for this scheme. */
  isFor(secret: string): boolean;
  /** Decodes the key out of a secret; undefined if the secret holds none. */
  keyOf(secret: string): Uint8Array<ArrayBuffer> | undefined;
  /** Reads the signature that a request claims to have: undefined for none, null if it is malformed. */
  claimOf(headers: Headers, keys: SchemeKeys): SignatureClaim | null | undefined;
}

/** Start of a {@linkcode hubScheme} signature. */
const HUB_PREFIX = "sha256=";

/** The form of such a signature: SHA-256 has 32 bytes. */
const HUB_SIGNATURE = /^sha256=[0-9a-f]{64}$/;

const HUB_LENGTH = 71;

/** Start of a secret of the Standard Webhooks specification. The key follows, in base64. */
const STANDARD_SECRET = "whsec_";

/** The form of a standard signature. */
const STANDARD_SIGNATURE = /^v1,[A-Za-z0-9+/]{43}=$/;

const STANDARD_LENGTH = 47;

/** Two headers that were joined, each with a signature. */
const TWO_HEADERS = /,[^ ,]+, /;

const TIMESTAMP = /^\d{1,12}$/;

/** Difference allowed between the clocks: the specification's own libraries have the same. */
const TOLERANCE_MS = 300_000;

const HMAC = { name: "HMAC", hash: "SHA-256" };

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
  return new TextComparison(HUB_LENGTH).isSame(signature, HUB_PREFIX + digest);
}

function isHubSignature(text: unknown): text is string {
  return typeof text === "string" && HUB_SIGNATURE.test(text);
}

/**
 * Makes the scheme of GitHub, Gitea and Forgejo: a header with the HMAC of the body, in hex.
 *
 * @param header The header's name.
 * @returns The scheme.
 */
export function hubScheme(header: string): SignatureScheme {
  return {
    prefix: HUB_PREFIX,
    length: HUB_LENGTH,
    encoding: "hex",
    isFor: () => true,
    keyOf: (secret) => typeof secret === "string" && secret ? encoder.encode(secret) : undefined,
    claimOf: (headers, keys) => {
      const signature = headers.get(header);
      if (!signature) return undefined;
      return isHubSignature(signature) ? new SignatureClaim(keys, [signature]) : null;
    },
  };
}

/** The scheme of the Standard Webhooks specification, which GitLab's signing tokens follow. */
export const STANDARD_SCHEME: SignatureScheme = standardScheme(isStandardSecret, ["webhook"]);

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
    length: STANDARD_LENGTH,
    encoding: "base64",
    isFor,
    keyOf: (secret) => isFor(secret) ? standardKeyOf(secret) : undefined,
    claimOf: (headers, keys) => {
      const signed = standardHeadersOf(headers, prefixes);
      if (!signed) return signed;
      const { signatures, timestamp } = signed;
      return new SignatureClaim(
        keys,
        signatures.filter(isStandardSignature),
        standardHeadOf(signed),
        timestamp,
      );
    },
  };
}

/** Headers of a request that is signed as the Standard Webhooks specification says. */
export interface StandardHeaders {
  /** Id of the delivery. */
  readonly id: string;
  /** Time of sending, in seconds since the epoch. */
  readonly timestamp: string;
  /** Signatures, each with its version, as the sender wrote them. */
  readonly signatures: readonly string[];
}

/**
 * Reads id, time and signatures of a request. Those of one prefix belong together: they are never mixed. A
 * signature of another form or version is kept, since the specification's own libraries pass over those. The
 * headers have room for 1,365 signatures: comparing them takes 1 ms.
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
export function standardHeadOf({ id, timestamp }: StandardHeaders): Uint8Array<ArrayBuffer> {
  return encoder.encode(`${id}.${timestamp}.`);
}

function isStandardSignature(text: string): boolean {
  return text.length === STANDARD_LENGTH && STANDARD_SIGNATURE.test(text);
}

/** Checks whether a secret is one of the Standard Webhooks specification. */
export function isStandardSecret(secret: string): boolean {
  return typeof secret === "string" && secret.startsWith(STANDARD_SECRET);
}

/** Decodes the key of a standard secret, which may lack its prefix; undefined if it is not base64, or empty. */
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

/** The keys for one scheme, decoded when the verifier is built. */
export class SchemeKeys {
  /** The scheme. */
  readonly scheme: SignatureScheme;
  /** True if one of the secrets is meant for the scheme, even if no key can be decoded out of it. */
  readonly isWanted: boolean;
  /** The keys, in the order of their secrets. A secret of another scheme has none. */
  readonly keys: readonly Key[];
  /** Compares signatures of the scheme. */
  readonly comparison: TextComparison;

  /**
   * @param scheme The scheme.
   * @param secrets The secrets, also those of other schemes.
   */
  constructor(scheme: SignatureScheme, secrets: readonly string[]) {
    this.scheme = scheme;
    this.isWanted = secrets.some((secret) => scheme.isFor(secret));
    this.keys = secrets.flatMap((secret, index) => {
      const bytes = scheme.keyOf(secret);
      return bytes ? [new Key(bytes, index + 1)] : [];
    });
    this.comparison = new TextComparison(scheme.length);
  }

  /** Reads the signature that a request claims to have, as {@linkcode SignatureScheme.claimOf} does. */
  claimOf(headers: Headers): SignatureClaim | null | undefined {
    return this.scheme.claimOf(headers, this);
  }
}

/** A key, and the position of its secret. */
class Key {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The secret's position among all secrets, from 1. */
  readonly position: number;
  #imported: Promise<CryptoKey> | undefined;

  constructor(bytes: Uint8Array<ArrayBuffer>, position: number) {
    this.bytes = bytes;
    this.position = position;
  }

  /** The key for Web Crypto, imported for the first large body. */
  get imported(): Promise<CryptoKey> {
    return this.#imported ??= crypto.subtle.importKey("raw", this.bytes, HMAC, false, ["sign"]);
  }
}

/** A signature that a request claims to have, to be checked under each key of its scheme. */
export class SignatureClaim {
  /** Bytes that are signed ahead of the body; undefined for none. */
  readonly head: Uint8Array<ArrayBuffer> | undefined;
  /** The time of sending that is signed, in seconds since the epoch; undefined for none. */
  readonly timestamp: string | undefined;
  readonly #keys: SchemeKeys;
  readonly #signatures: readonly string[];

  /**
   * @param keys The keys of its scheme.
   * @param signatures The signatures, in the scheme's form. One of them has to be right.
   * @param head Bytes that are signed ahead of the body.
   * @param timestamp The time of sending that is signed, in seconds since the epoch.
   */
  constructor(
    keys: SchemeKeys,
    signatures: readonly string[],
    head?: Uint8Array<ArrayBuffer>,
    timestamp?: string,
  ) {
    this.#keys = keys;
    this.#signatures = signatures;
    this.head = head;
    this.timestamp = timestamp;
  }

  /** Begins an HMAC under each key. The caller adds the content. */
  hmacs(): readonly Hmac[] {
    return this.#keys.keys.map(({ bytes }) => {
      const hmac = createHmac("sha256", bytes);
      return this.head ? hmac.update(this.head) : hmac;
    });
  }

  /** Ends the HMACs, and returns the position of the secret that has made the signature; 0 for none. */
  positionOf(hmacs: readonly Hmac[]): number {
    const { encoding } = this.#keys.scheme;
    return this.#positionOf(hmacs.map((hmac) => hmac.digest(encoding)));
  }

  /**
   * Hashes a body by Web Crypto, on another thread, and returns the position of the secret; 0 for none. It
   * takes one key after the other, since each call copies the body.
   */
  async positionElsewhere(body: Uint8Array<ArrayBuffer>): Promise<number> {
    const message = this.head ? joined(this.head, body) : body;
    const digests: string[] = [];
    for (const key of this.#keys.keys) {
      const digest = await crypto.subtle.sign("HMAC", await key.imported, message);
      digests.push(Buffer.from(digest).toString(this.#keys.scheme.encoding));
    }
    return this.#positionOf(digests);
  }

  #positionOf(digests: readonly string[]): number {
    const { scheme, keys, comparison } = this.#keys;
    const position = positionOf(digests, (digest) => {
      const expected = scheme.prefix + digest;
      let isRight = false;
      for (const signature of this.#signatures) {
        isRight = comparison.isSame(signature, expected) || isRight;
      }
      return isRight;
    });
    return position && keys[position - 1]!.position;
  }
}

/**
 * Finds the secret that verifies a request. All are always tried, so that the time taken does not tell.
 *
 * @typeParam TSecret The form of the secrets.
 * @param secrets The secrets.
 * @param verifies Checks whether a secret verifies the request.
 * @returns Its position, from 1; 0 if none does.
 */
export function positionOf<TSecret>(
  secrets: readonly TSecret[],
  verifies: (secret: TSecret) => boolean,
): number {
  let position = 0;
  for (const [index, secret] of secrets.entries()) {
    if (verifies(secret)) position = index + 1;
  }
  return position;
}

/** Compares ASCII texts of one length in constant time. Its bytes are reused: new ones take 2 µs. */
class TextComparison {
  readonly #first: Uint8Array<ArrayBuffer>;
  readonly #second: Uint8Array<ArrayBuffer>;

  constructor(length: number) {
    this.#first = new Uint8Array(length);
    this.#second = new Uint8Array(length);
  }

  isSame(first: string, second: string): boolean {
    encoder.encodeInto(first, this.#first);
    encoder.encodeInto(second, this.#second);
    return timingSafeEqual(this.#first, this.#second);
  }
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
