/**
 * Answers whether a request is genuine. An intake builds its verifier once, with all keys decoded.
 *
 * A small body is hashed at once by `node:crypto`: 1 KB takes it 7 µs, and Web Crypto 32. A large body
 * must not hold up the other requests. Web Crypto hashes it on another thread, on a copy, if the budget
 * of bodies has room for one. Otherwise `node:crypto` hashes it slice by slice, one in each turn of the
 * event loop.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { createHmac, type Hmac } from "node:crypto";
import { HttpError } from "../core/mod.ts";
import type { BodyBudget, BodyShare } from "./body_budget.ts";
import { SLICE_BYTES, Slices } from "./_slices.ts";
import {
  hubScheme,
  isRecent,
  type SignatureClaim,
  type SignatureScheme,
  STANDARD_SCHEME,
} from "./_signature_schemes.ts";
import type { Parts } from "./platforms/form.ts";
import type { Credentials } from "./platforms/readers.ts";
import { SecretToken } from "./verify_secret_token.ts";
import { TextComparison } from "./verify_signature.ts";

/** The secret or token that has verified a request, counted from 1 in the order they are given. */
export type VerifiedBy = `secret ${number}` | `token ${number}`;

/**
 * Checks the rest of a request. A large body is checked asynchronously, and may be evicted from the budget
 * meanwhile.
 *
 * @param body The request's body.
 * @param budget The budget of all bodies.
 * @param share The part of the budget that the body holds.
 * @returns The secret or token that has verified the request.
 * @throws {HttpError} 401 if it is not genuine; 503 `OVERLOADED` if its body was evicted.
 */
export type VerifyBody = (
  body: Uint8Array<ArrayBuffer>,
  budget?: BodyBudget,
  share?: BodyShare,
) => VerifiedBy | Promise<VerifiedBy>;

/**
 * Largest body that is hashed at once. Web Crypto hashes a larger one on another thread: of 3 MB bodies, 4
 * at a time, that accepted 1.13 times as many, and small ones beside them took 0.8 of the time (p99). A
 * body of 25 MB hashed at once would hold up all others for 13 ms.
 */
const MAX_SYNC_BYTES = 262_144;

const HMAC = { name: "HMAC", hash: "SHA-256" };

const NO_BODY = new Uint8Array();

const encoder = new TextEncoder();

/** A key, decoded when the verifier is built. */
class Key {
  readonly bytes: Uint8Array<ArrayBuffer>;
  #imported: Promise<CryptoKey> | undefined;

  constructor(bytes: Uint8Array<ArrayBuffer>) {
    this.bytes = bytes;
  }

  /** The key for Web Crypto, imported for the first large body. */
  get imported(): Promise<CryptoKey> {
    return this.#imported ??= crypto.subtle.importKey("raw", this.bytes, HMAC, false, ["sign"]);
  }
}

/** The keys for one scheme of signatures. */
class SchemeKeys {
  readonly scheme: SignatureScheme;
  readonly isWanted: boolean;
  /** One for each secret; undefined for a secret of another scheme. */
  readonly #keys: readonly (Key | undefined)[];
  readonly #comparison: TextComparison;

  constructor(scheme: SignatureScheme, secrets: readonly string[]) {
    this.scheme = scheme;
    this.isWanted = secrets.some((secret) => scheme.isFor(secret));
    this.#keys = secrets.map((secret) => {
      const bytes = scheme.keyOf(secret);
      return bytes && new Key(bytes);
    });
    this.#comparison = new TextComparison(scheme.length);
  }

  /** Begins an HMAC under each key. */
  hmacs({ head }: SignatureClaim): readonly (Hmac | undefined)[] {
    return this.#keys.map((key) => {
      const hmac = key && createHmac("sha256", key.bytes);
      return head ? hmac?.update(head) : hmac;
    });
  }

  /** Hashes by Web Crypto, one key after the other: each call copies the body. */
  async digestsElsewhere(
    body: Uint8Array<ArrayBuffer>,
    { head }: SignatureClaim,
  ): Promise<Digests> {
    const message = head ? joined(head, body) : body;
    const digests: (string | undefined)[] = [];
    for (const key of this.#keys) digests.push(key && await this.#digestElsewhere(key, message));
    return digests;
  }

  async #digestElsewhere(key: Key, message: Uint8Array<ArrayBuffer>): Promise<string> {
    const digest = await crypto.subtle.sign("HMAC", await key.imported, message);
    return Buffer.from(digest).toString(this.scheme.encoding);
  }

  /** Ends the HMACs. */
  digestsOf(hmacs: readonly (Hmac | undefined)[]): Digests {
    return hmacs.map((hmac) => hmac?.digest(this.scheme.encoding));
  }

  /** Returns the number of the secret that made a digest, from 1; 0 for none. */
  positionOf({ signatures }: SignatureClaim, digests: Digests): number {
    return positionOf(digests, (digest) => {
      const expected = this.scheme.prefix + digest;
      let isRight = false;
      for (const signature of digest === undefined ? [] : signatures) {
        isRight = this.#comparison.isSame(signature, expected) || isRight;
      }
      return isRight;
    });
  }
}

/** The digest of a message under each key, in the scheme's encoding. */
type Digests = readonly (string | undefined)[];

/** A signature, and the keys that it may have been made with. */
interface Signature {
  readonly keys: SchemeKeys;
  readonly claim: SignatureClaim;
}

/** A signature and the content it covers. */
interface SignedRequest extends Signature {
  readonly body: Uint8Array<ArrayBuffer>;
  /** The document in the body, which some forges sign in its place; undefined if there is none. */
  readonly document: Parts | undefined;
}

/** Verifies the requests of one intake. */
export class Verifier {
  readonly #credentials: Credentials;
  readonly #schemes: readonly SchemeKeys[];
  readonly #tokens: readonly SecretToken[];
  readonly #slices = new Slices();

  /**
   * @param credentials The places that hold the requests' signatures and tokens.
   * @param secrets The secrets that requests are signed with.
   * @param tokens The tokens that are sent along.
   */
  constructor(credentials: Credentials, secrets: readonly string[], tokens: readonly string[]) {
    const { signature } = credentials;
    const schemes = signature === undefined ? [] : [hubScheme(signature), STANDARD_SCHEME];
    this.#credentials = credentials;
    this.#schemes = schemes.map((scheme) => new SchemeKeys(scheme, secrets))
      .filter(({ isWanted }) => isWanted);
    this.#tokens = tokens.map((token) => new SecretToken(token));
  }

  /**
   * Checks what can be checked before the body is read: a token, or the form of a signature.
   *
   * @param headers The request's headers.
   * @returns The function that checks the rest, once the body is there.
   * @throws {HttpError} 401 if the request cannot be genuine.
   */
  verifyHead(headers: Headers): VerifyBody {
    const signature = this.#signatureOf(headers);
    if (!signature) {
      const verifiedBy = this.#verifyToken(headers);
      return () => verifiedBy;
    }
    return (body, budget, share) => {
      const request = this.#signed(headers, body, signature);
      if (body.byteLength <= MAX_SYNC_BYTES) return verifyNow(request);
      return verifyLarge(request, this.#slices, budget, share);
    };
  }

  /**
   * Verifies a request in one go, however large its body is.
   *
   * @param headers The request's headers.
   * @param body The request's body. A token does not cover it.
   * @returns The secret or token that has verified the request.
   * @throws {HttpError} 401 if it is not genuine.
   */
  verify(headers: Headers, body: Uint8Array<ArrayBuffer> = NO_BODY): VerifiedBy {
    const signature = this.#signatureOf(headers);
    return signature
      ? verifyNow(this.#signed(headers, body, signature))
      : this.#verifyToken(headers);
  }

  /** Reads the strongest signature that there is a secret for. Weaker ones beside it are ignored. */
  #signatureOf(headers: Headers): Signature | undefined {
    for (const keys of this.#schemes) {
      const claim = keys.scheme.claimOf(headers);
      if (claim) return { keys, claim };
      if (claim === null) throw invalidSignature();
    }
    return undefined;
  }

  #signed(headers: Headers, body: Uint8Array<ArrayBuffer>, signature: Signature): SignedRequest {
    const { signedDocumentOf } = this.#credentials;
    // Only schemes that sign nothing but the body may sign the document instead.
    const document = signature.claim.head
      ? undefined
      : signedDocumentOf?.(headers, body, SLICE_BYTES);
    return { ...signature, body, document };
  }

  #verifyToken(headers: Headers): VerifiedBy {
    const { tokens, tokenName } = this.#credentials;
    const sent = tokens.map((name) => headers.get(name)).find((value) => value);
    if (!sent || this.#tokens.length === 0) throw this.#missing();
    const bytes = encoder.encode(sent);
    const position = positionOf(this.#tokens, (token) => token.isSame(bytes));
    if (position) return `${tokenName} ${position}`;
    throw new HttpError(401, "Invalid secret token", { code: "INVALID_TOKEN" });
  }

  #missing(): HttpError {
    return this.#schemes.length > 0
      ? new HttpError(401, "Missing signature", { code: "MISSING_SIG" })
      : new HttpError(401, "Missing secret token", { code: "MISSING_TOKEN" });
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

function verifyNow({ keys, claim, body, document }: SignedRequest): VerifiedBy {
  const hmacs = keys.hmacs(claim);
  for (const hmac of hmacs) hmac?.update(body);
  const position = keys.positionOf(claim, keys.digestsOf(hmacs));
  if (position || !document) return verified(claim, position);
  return verified(claim, keys.positionOf(claim, resultOf(hashing(keys, claim, document))));
}

async function verifyLarge(
  { keys, claim, body, document }: SignedRequest,
  slices: Slices,
  budget?: BodyBudget,
  share?: BodyShare,
): Promise<VerifiedBy> {
  const inSlices = (parts: Parts) =>
    slices.run(hashing(keys, claim, parts), () => share?.isEvicted ?? false);
  // Web Crypto copies the body. If more than the body is signed, joining the parts makes another copy.
  const release = budget?.reserveFree((claim.head ? 2 : 1) * body.byteLength);
  const digests = release
    ? await keys.digestsElsewhere(body, claim).finally(release)
    : await inSlices(partsOf(body));
  const position = keys.positionOf(claim, digests);
  if (position || !document) return verified(claim, position);
  return verified(claim, keys.positionOf(claim, await inSlices(document)));
}

/** Hashes part by part, under all keys at once, so that a form is decoded once and not kept. */
function* hashing(keys: SchemeKeys, claim: SignatureClaim, parts: Parts): Generator<void, Digests> {
  const hmacs = keys.hmacs(claim);
  for (;;) {
    const { done, value } = parts.next();
    if (done) return value ? keys.digestsOf(hmacs) : [];
    for (const hmac of hmacs) hmac?.update(value);
    yield;
  }
}

function* partsOf(body: Uint8Array<ArrayBuffer>): Parts {
  for (let at = 0; at < body.byteLength; at += SLICE_BYTES) {
    yield body.subarray(at, at + SLICE_BYTES);
  }
  return true;
}

/** Runs a generator to its end. */
function resultOf<T>(generator: Generator<unknown, T>): T {
  for (;;) {
    const { done, value } = generator.next();
    if (done) return value;
  }
}

function joined(head: Uint8Array, body: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(head.byteLength + body.byteLength);
  bytes.set(head);
  bytes.set(body, head.byteLength);
  return bytes;
}

function verified({ timestamp }: SignatureClaim, position: number): VerifiedBy {
  if (!position) throw invalidSignature();
  // Checked last, so that a captured delivery reveals nothing but its age.
  if (timestamp !== undefined && !isRecent(timestamp)) {
    throw new HttpError(401, "Stale signature", { code: "STALE_SIG" });
  }
  return `secret ${position}`;
}

function invalidSignature(): HttpError {
  return new HttpError(401, "Invalid signature", { code: "INVALID_SIG" });
}
