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
import { Buffer } from "node:buffer";
import { createHmac, type Hmac } from "node:crypto";
import { HttpError } from "../core/mod.ts";
import { positionOf, tokenFinder } from "../core/secrets.ts";
import { overloaded } from "./body_budget.ts";
import type { Parts } from "./form.ts";
import type { HeldBody } from "./read_body.ts";
import {
  importedOf,
  isRecent,
  joined,
  type Key,
  keysOf,
  type SignatureScheme,
  type Signed,
} from "./verify_signature.ts";

/** Body of a request, with its share of the budget if one counts it. */
export type ReceivedBody = Pick<HeldBody, "bytes"> & Partial<HeldBody>;

/** Verifies a request's body, and returns the name of the secret that has verified it. */
export type VerifyBody = (body: ReceivedBody) => string | undefined | Promise<string | undefined>;

/** Places of the signature or token in a platform's requests. */
export interface Credentials {
  /** Schemes that the platform's requests may be signed by, the strongest first. */
  readonly schemes: readonly SignatureScheme[];
  /** Headers with a secret token. The first one that is present counts. */
  readonly tokens: readonly string[];
  /**
   * Reads the document in a body, if the sender may sign it instead of the body.
   *
   * @param headers The request's headers.
   * @param body The request's body.
   * @param partBytes The size of the parts that the document is read in.
   * @returns The parts; undefined if the body has none.
   */
  readonly signedDocumentOf?:
    | ((headers: Headers, body: Uint8Array<ArrayBuffer>, partBytes: number) => Parts | undefined)
    | undefined;
}

/** Scheme, with the keys that there are for it. */
interface Keyed {
  readonly scheme: SignatureScheme;
  readonly keys: readonly Key[];
}

/** Signatures that a request claims to have, to be checked under each key of their scheme. */
interface Claim extends Keyed {
  readonly signed: Signed;
}

/**
 * Largest body that is hashed at once. Web Crypto hashes a larger one on another thread: of 3 MB bodies, 4
 * at a time, that accepted 1.13 times as many, and small ones beside them took 0.8 of the time (p99). A
 * body of 25 MB hashed at once would hold up all others for 13 ms.
 */
const MAX_SYNC_BYTES = 262_144;

/** Size of a slice: decoding and hashing one takes 1 to 2 ms. */
const SLICE_BYTES = 524_288;

const HMAC = { name: "HMAC", hash: "SHA-256" };

const NO_BODY = new Uint8Array();

/** Verifies the requests of one intake. */
export class Verifier {
  readonly #credentials: Credentials;
  readonly #schemes: readonly Keyed[];
  /** Finds a token's position; undefined if there is no token to be sent. */
  readonly #positionOf: ((token: string) => number) | undefined;
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
    // A secret that is meant for a scheme makes its signature necessary, even if no key can be decoded.
    this.#schemes = credentials.schemes
      .filter((scheme) => secrets.some((secret) => scheme.isFor(secret)))
      .map((scheme) => ({ scheme, keys: keysOf(secrets, (secret) => scheme.keyOf(secret)) }));
    if (tokens.length > 0) this.#positionOf = tokenFinder(tokens);
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
      const document = this.#documentOf(claim, headers, body.bytes);
      if (body.bytes.byteLength <= MAX_SYNC_BYTES) {
        return this.#named(verifyNow(claim, body.bytes, document));
      }
      return this.#verifyLarge(claim, body, document).then((verifiedBy) => this.#named(verifiedBy));
    };
  };

  /**
   * Verifies a request in one go, however large its body is.
   *
   * @param headers The request's headers.
   * @param body The request's body. A token does not cover it.
   * @returns The secret or token that has verified the request, such as `secret 1`.
   * @throws {HttpError} 401 if it is not genuine.
   */
  verify(headers: Headers, body: Uint8Array<ArrayBuffer> = NO_BODY): string {
    const claim = this.#claimOf(headers);
    if (!claim) return this.#verifyToken(headers);
    return verifyNow(claim, body, this.#documentOf(claim, headers, body));
  }

  /** Names the secret only if there are several, so that the log has to tell them apart. */
  #named(verifiedBy: string): string | undefined {
    return this.#hasSeveral ? verifiedBy : undefined;
  }

  /** Reads the strongest signature that there is a secret for. Weaker ones beside it are ignored. */
  #claimOf(headers: Headers): Claim | undefined {
    for (const { scheme, keys } of this.#schemes) {
      const signed = scheme.read(headers);
      if (signed) return { scheme, keys, signed };
      if (signed === null) throw invalidSignature();
    }
    return undefined;
  }

  /** Reads the document in the body, which some forges sign instead; undefined if there is none. */
  #documentOf(
    { signed }: Claim,
    headers: Headers,
    body: Uint8Array<ArrayBuffer>,
  ): Parts | undefined {
    // Only schemes that sign nothing but the body may sign the document instead.
    if (signed.head) return undefined;
    return this.#credentials.signedDocumentOf?.(headers, body, SLICE_BYTES);
  }

  async #verifyLarge(
    claim: Claim,
    { bytes, share, budget }: ReceivedBody,
    document: Parts | undefined,
  ): Promise<string> {
    const inSlices = (parts: Parts) =>
      this.#slices.run(hashing(claim, parts), () => share?.isEvicted ?? false);
    // Web Crypto copies the body. If more than the body is signed, joining the parts makes another copy.
    const release = budget?.reserveFree((claim.signed.head ? 2 : 1) * bytes.byteLength);
    const position = release
      ? await hashedElsewhere(claim, bytes).finally(release)
      : await inSlices(partsOf(bytes));
    if (position || !document) return verified(claim, position);
    return verified(claim, await inSlices(document));
  }

  #verifyToken(headers: Headers): string {
    const { tokens, schemes } = this.#credentials;
    const sent = tokens.map((name) => headers.get(name)).find((value) => value);
    if (!sent || !this.#positionOf) {
      throw this.#schemes.length > 0
        ? missingSignature()
        : new HttpError(401, "Missing secret token", { code: "MISSING_TOKEN" });
    }
    const position = this.#positionOf(sent);
    // By the name of its option: where nothing is signed, the tokens are the secrets.
    if (position) return `${schemes.length > 0 ? "token" : "secret"} ${position}`;
    throw new HttpError(401, "Invalid secret token", { code: "INVALID_TOKEN" });
  }
}

function verifyNow(
  claim: Claim,
  body: Uint8Array<ArrayBuffer>,
  document: Parts | undefined,
): string {
  const hmacs = hmacsOf(claim);
  for (const hmac of hmacs) hmac.update(body);
  const position = positionBy(claim, hmacs);
  if (position || !document) return verified(claim, position);
  return verified(claim, resultOf(hashing(claim, document)));
}

/**
 * Hashes part by part, under all keys at once, so that a form is decoded once and not kept. Returns the
 * position of the secret; 0 for none, and for malformed parts.
 */
function* hashing(claim: Claim, parts: Parts): Generator<void, number> {
  const hmacs = hmacsOf(claim);
  for (;;) {
    const { done, value } = parts.next();
    if (done) return value ? positionBy(claim, hmacs) : 0;
    for (const hmac of hmacs) hmac.update(value);
    yield;
  }
}

/** Begins an HMAC under each key. The caller adds the content. */
function hmacsOf({ keys, signed: { head } }: Claim): readonly Hmac[] {
  return keys.map(({ bytes }) => {
    const hmac = createHmac("sha256", bytes);
    return head ? hmac.update(head) : hmac;
  });
}

/** Ends the HMACs, and returns the position of the secret that has made a signature; 0 for none. */
function positionBy(claim: Claim, hmacs: readonly Hmac[]): number {
  return positionAmong(claim, hmacs.map((hmac) => hmac.digest(claim.scheme.encoding)));
}

/**
 * Hashes a body by Web Crypto, on another thread, and returns the position of the secret; 0 for none. It
 * takes one key after the other, since each call copies the body.
 */
async function hashedElsewhere(claim: Claim, body: Uint8Array<ArrayBuffer>): Promise<number> {
  const { scheme, keys, signed: { head } } = claim;
  const message = head ? joined(head, body) : body;
  const digests: string[] = [];
  for (const key of keys) {
    const digest = await crypto.subtle.sign("HMAC", await importedOf(key, HMAC, "sign"), message);
    digests.push(Buffer.from(digest).toString(scheme.encoding));
  }
  return positionAmong(claim, digests);
}

function positionAmong({ scheme, keys, signed }: Claim, digests: readonly string[]): number {
  const position = positionOf(digests, (digest) => {
    const expected = scheme.prefix + digest;
    return positionOf(signed.signatures, (each) => scheme.isSame(each, expected)) > 0;
  });
  return position && keys[position - 1]!.position;
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

function verified({ signed: { timestamp } }: Claim, position: number): string {
  if (!position) throw invalidSignature();
  if (timestamp !== undefined) checkAge(timestamp);
  return `secret ${position}`;
}

/**
 * Checks the age of a request. That is done last, so that a captured delivery reveals nothing but its age.
 *
 * @param timestamp The signed time of sending, in seconds since the epoch.
 * @throws {HttpError} 401 `STALE_SIG` if it is not recent.
 */
export function checkAge(timestamp: string): void {
  if (!isRecent(timestamp)) throw new HttpError(401, "Stale signature", { code: "STALE_SIG" });
}

/** Creates the error for a request without a signature. */
export function missingSignature(): HttpError {
  return new HttpError(401, "Missing signature", { code: "MISSING_SIG" });
}

/** Creates the error for a signature that is not right. */
export function invalidSignature(): HttpError {
  return new HttpError(401, "Invalid signature", { code: "INVALID_SIG" });
}

/** Work in slices: each call of `next()` does one slice. */
type Sliced<T> = Generator<unknown, T>;

interface Task {
  readonly isGivenUp: () => boolean;
  /** Does the next slice, and returns whether it was the last. */
  readonly next: () => boolean;
  readonly reject: (error: unknown) => void;
}

/**
 * Does work on large bodies, one slice in each turn of the event loop. However much is sent, everything
 * else waits for one slice, and not for 24 bodies of 25 MiB. The bodies take turns, one after the other,
 * and a body that is evicted meanwhile is released at once.
 */
class Slices {
  #tasks: Task[] = [];

  /**
   * Does work in its turn.
   *
   * @typeParam T The work's result.
   * @param work The work.
   * @param isGivenUp Checks whether the caller has given up.
   * @returns The result.
   * @throws {HttpError} 503 `OVERLOADED` if the work is given up.
   */
  run<T>(work: Sliced<T>, isGivenUp: () => boolean): Promise<T> {
    return new Promise((resolve, reject) => {
      const next = () => {
        const { done, value } = work.next();
        if (done) resolve(value);
        return done === true;
      };
      this.#tasks.push({ isGivenUp, next, reject });
      if (this.#tasks.length === 1) setTimeout(this.#turn);
    });
  }

  readonly #turn = (): void => {
    for (const { isGivenUp, reject } of this.#tasks) if (isGivenUp()) reject(overloaded());
    this.#tasks = this.#tasks.filter(({ isGivenUp }) => !isGivenUp());
    const [task] = this.#tasks;
    if (task && isFinished(task)) this.#tasks.shift();
    if (this.#tasks.length > 0) setTimeout(this.#turn);
  };
}

function isFinished({ next, reject }: Task): boolean {
  try {
    return next();
  } catch (error) {
    reject(error);
    return true;
  }
}
