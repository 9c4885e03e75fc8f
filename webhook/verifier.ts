/**
 * Decides whether a request is genuine. An intake builds its verifier once, with all keys decoded.
 *
 * A small body is hashed at once by `node:crypto`: 1 KB takes it 7 µs, and Web Crypto 32. A large body
 * must not hold up the other requests. Web Crypto hashes it on another thread, on a copy, if the budget
 * of bodies has room for one. Otherwise `node:crypto` hashes it slice by slice, one in each turn of the
 * event loop.
 *
 * @module
 */
import { HttpError } from "../core/mod.ts";
import { SLICE_BYTES, Slices } from "./_slices.ts";
import type { ReceivedBody, VerifyBody } from "./platform.ts";
import type { Parts } from "./platforms/form.ts";
import { SecretToken } from "./verify_secret_token.ts";
import {
  isRecent,
  positionOf,
  SchemeKeys,
  type SignatureClaim,
  type SignatureScheme,
} from "./verify_signature.ts";

/** Places in a platform's requests that hold what they are verified by. */
export interface Credentials {
  /** Schemes that the platform's requests may be signed by, the strongest first. */
  readonly schemes: readonly SignatureScheme[];
  /** Headers with a secret token. The first one that is present counts. */
  readonly tokens: readonly string[];
  /** Name of such a token in the log: that of its option, in the singular. */
  readonly tokenName: "secret" | "token";
  /**
   * Reads the document in a body, which may be signed in the body's place.
   *
   * @param headers The request's headers.
   * @param body The request's body.
   * @param partBytes The size of the parts that the document is read in.
   * @returns The parts; undefined if the body has no such document.
   */
  readonly signedDocumentOf?:
    | ((headers: Headers, body: Uint8Array<ArrayBuffer>, partBytes: number) => Parts | undefined)
    | undefined;
}

/**
 * The secret or token that has verified a request, counted from 1 in the order they are given.
 *
 * @category Steps of an intake
 */
export type VerifiedBy = `secret ${number}` | `token ${number}`;

/**
 * Largest body that is hashed at once. Web Crypto hashes a larger one on another thread: of 3 MB bodies, 4
 * at a time, that accepted 1.13 times as many, and small ones beside them took 0.8 of the time (p99). A
 * body of 25 MB hashed at once would hold up all others for 13 ms.
 */
const MAX_SYNC_BYTES = 262_144;

const NO_BODY = new Uint8Array();

const encoder = new TextEncoder();

/** Verifies the requests of one intake. */
export class Verifier {
  readonly #credentials: Credentials;
  readonly #schemes: readonly SchemeKeys[];
  readonly #tokens: readonly SecretToken[];
  readonly #hasSeveral: boolean;
  readonly #slices = new Slices();

  /**
   * @param credentials The places that hold the requests' signatures and tokens.
   * @param secrets The secrets that requests are signed with.
   * @param tokens The tokens that are sent along.
   */
  constructor(credentials: Credentials, secrets: readonly string[], tokens: readonly string[]) {
    this.#credentials = credentials;
    this.#hasSeveral = secrets.length + tokens.length > 1;
    this.#schemes = credentials.schemes.map((scheme) => new SchemeKeys(scheme, secrets))
      .filter(({ isWanted }) => isWanted);
    this.#tokens = tokens.map((token) => new SecretToken(token));
  }

  /**
   * Checks what can be checked before the body is read: a token, or the form of a signature. It is bound, so
   * that an intake can be given it. The function that it returns checks the rest: a large body is checked
   * asynchronously, and may be evicted from the budget meanwhile.
   *
   * @param headers The request's headers.
   * @returns The function that verifies the body. It returns the secret or token that has verified the
   * request, unless there is only one.
   * @throws {HttpError} 401 if the request cannot be genuine.
   */
  readonly verifyHead = (headers: Headers): VerifyBody => {
    const claim = this.#claimOf(headers);
    if (!claim) {
      const verifiedBy = this.#named(this.#verifyToken(headers));
      return () => verifiedBy;
    }
    return (body) => {
      const verifying = this.#verifyBody(claim, headers, body);
      return verifying instanceof Promise
        ? verifying.then((verifiedBy) => this.#named(verifiedBy))
        : this.#named(verifying);
    };
  };

  /**
   * Verifies a request in one go, however large its body is.
   *
   * @param headers The request's headers.
   * @param body The request's body. A token does not cover it.
   * @returns The secret or token that has verified the request.
   * @throws {HttpError} 401 if it is not genuine.
   */
  verify(headers: Headers, body: Uint8Array<ArrayBuffer> = NO_BODY): VerifiedBy {
    const claim = this.#claimOf(headers);
    if (!claim) return this.#verifyToken(headers);
    return verifyNow(claim, body, this.#documentOf(claim, headers, body));
  }

  /** Names the secret only if there are several, so that the log has to tell them apart. */
  #named(verifiedBy: VerifiedBy): VerifiedBy | undefined {
    return this.#hasSeveral ? verifiedBy : undefined;
  }

  #verifyBody(
    claim: SignatureClaim,
    headers: Headers,
    body: ReceivedBody,
  ): VerifiedBy | Promise<VerifiedBy> {
    const document = this.#documentOf(claim, headers, body.bytes);
    if (body.bytes.byteLength <= MAX_SYNC_BYTES) return verifyNow(claim, body.bytes, document);
    return this.#verifyLarge(claim, body, document);
  }

  /** Reads the strongest signature that there is a secret for. Weaker ones beside it are ignored. */
  #claimOf(headers: Headers): SignatureClaim | undefined {
    for (const keys of this.#schemes) {
      const claim = keys.claimOf(headers);
      if (claim) return claim;
      if (claim === null) throw invalidSignature();
    }
    return undefined;
  }

  /** Reads the document in the body, which some forges sign in its place; undefined if there is none. */
  #documentOf(
    claim: SignatureClaim,
    headers: Headers,
    body: Uint8Array<ArrayBuffer>,
  ): Parts | undefined {
    // Only schemes that sign nothing but the body may sign the document instead.
    if (claim.head) return undefined;
    return this.#credentials.signedDocumentOf?.(headers, body, SLICE_BYTES);
  }

  async #verifyLarge(
    claim: SignatureClaim,
    { bytes, share, budget }: ReceivedBody,
    document: Parts | undefined,
  ): Promise<VerifiedBy> {
    const inSlices = (parts: Parts) =>
      this.#slices.run(hashing(claim, parts), () => share?.isEvicted ?? false);
    // Web Crypto copies the body. If more than the body is signed, joining the parts makes another copy.
    const release = budget?.reserveFree((claim.head ? 2 : 1) * bytes.byteLength);
    const position = release
      ? await claim.positionElsewhere(bytes).finally(release)
      : await inSlices(partsOf(bytes));
    if (position || !document) return verified(claim, position);
    return verified(claim, await inSlices(document));
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

function verifyNow(
  claim: SignatureClaim,
  body: Uint8Array<ArrayBuffer>,
  document: Parts | undefined,
): VerifiedBy {
  const hmacs = claim.hmacs();
  for (const hmac of hmacs) hmac.update(body);
  const position = claim.positionOf(hmacs);
  if (position || !document) return verified(claim, position);
  return verified(claim, resultOf(hashing(claim, document)));
}

/**
 * Hashes part by part, under all keys at once, so that a form is decoded once and not kept. Returns the
 * position of the secret; 0 for none, and for malformed parts.
 */
function* hashing(claim: SignatureClaim, parts: Parts): Generator<void, number> {
  const hmacs = claim.hmacs();
  for (;;) {
    const { done, value } = parts.next();
    if (done) return value ? claim.positionOf(hmacs) : 0;
    for (const hmac of hmacs) hmac.update(value);
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
