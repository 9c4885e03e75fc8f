import { HttpError } from "../core/mod.ts";
import { firstField, FORM_TYPE } from "./_form.ts";
import { SLICE_BYTES, Slices } from "./_slices.ts";
import type { BodyBudget, BodyShare } from "./body_budget.ts";
import {
  headOf,
  isOneOf,
  isRecent,
  isStandardSecret,
  isStandardSigned,
  standardKeyOf,
  type StandardSignature,
  standardSignatureOf,
} from "./_standard_signature.ts";
import { doesWithoutNodeCrypto, nodeCrypto } from "../core/node_crypto.ts";
import { positionOf, type ProvedBy } from "./proved_by.ts";
import { verifySecretToken } from "./verify_secret_token.ts";
import {
  hmacElsewhere,
  isSignature,
  isSignatureOf,
  verifySignatureBytes,
} from "./verify_signature.ts";

const HUB_SIGNATURE = "X-Hub-Signature-256";
const STANDARD_SIGNATURE = "webhook-signature";
const TOKEN = "X-Gitlab-Token";

const encoder = new TextEncoder();

/**
 * Web Crypto proves a larger body on another thread: of 3 MB, 4 at a time, ×1.13 as many were taken so,
 * and small ones beside them after ×0.8 of the time (p99). One of 25 MB would hold all others for 13 ms.
 */
const MAX_SYNC_BYTES = 262_144;

/** A delivery with a signature: that of `X-Hub-Signature-256`, or what `webhook-signature` has. */
export interface SignedDelivery {
  readonly signature: string | StandardSignature;
  readonly headers: Headers;
  readonly body: Uint8Array<ArrayBuffer>;
  /** What bodies may hold together. */
  readonly budget?: BodyBudget | undefined;
  /** What this one holds of it. */
  readonly share?: BodyShare | undefined;
}

/** Checks the rest of a proof once the body is there. */
export type VerifyRest<T> = (
  body: Uint8Array<ArrayBuffer>,
  budget?: BodyBudget,
  share?: BodyShare,
) => T;

/**
 * Checks that a delivery was sent by one who knows one of the secrets. The strongest proof that the
 * request brings, and that there is a secret for, is judged, and no other: whoever is refused by it is
 * not helped by a weaker one.
 *
 * - `X-Hub-Signature-256` (GitHub, Gitea, Forgejo): HMAC-SHA256 over the body as it was sent or, for a
 *   form, over the JSON document in it, which is what Gitea and Forgejo sign.
 * - `webhook-signature` (GitLab with a signing token), judged by secrets that begin with `whsec_`: over
 *   id, time and body, and not older than 5 minutes.
 * - `X-Gitlab-Token` (GitLab with a secret token), only where there are `tokens`: it travels with each
 *   delivery, and does not cover the body.
 *
 * @param headers The request's headers.
 * @param body The request's body.
 * @param secrets The secrets that are signed with. All are always tried.
 * @param tokens The tokens that are sent along. All are always tried.
 * @returns Which secret or token it was.
 * @throws {HttpError} 401 `MISSING_SIG` (without secrets `MISSING_TOKEN`) if there is nothing to judge;
 * 401 `INVALID_SIG`, `INVALID_TOKEN` or `STALE_SIG` if it is not right, or not recent.
 */
export function verifyForgeDelivery(
  headers: Headers,
  body: Uint8Array<ArrayBuffer>,
  secrets: readonly string[],
  tokens: readonly string[] = [],
): ProvedBy {
  return verifyForgeHead(headers, secrets, tokens, verifyHere)(body);
}

/**
 * Checks what can be checked before the body is read: the form of a signature, and all of a token.
 *
 * @typeParam T What the rest of the proof comes to.
 * @param headers The request's headers.
 * @param secrets The secrets that are signed with.
 * @param tokens The tokens that are sent along.
 * @param verifyRest Checks the rest of the proof by a signature.
 * @returns What checks the rest of the proof.
 * @throws {HttpError} As {@linkcode verifyForgeDelivery} does.
 */
export function verifyForgeHead<T>(
  headers: Headers,
  secrets: readonly string[],
  tokens: readonly string[],
  verifyRest: (delivery: SignedDelivery, secrets: readonly string[]) => T,
): VerifyRest<T | ProvedBy> {
  const signature = signatureOf(headers, secrets);
  if (signature) {
    return (body, budget, share) =>
      verifyRest({ signature, headers, body, budget, share }, secrets);
  }
  const token = headers.get(TOKEN);
  if (token && tokens.length > 0) return verifyToken(token, tokens);
  throw secrets.length > 0
    ? new HttpError(401, "Missing signature", { code: "MISSING_SIG" })
    : new HttpError(401, "Missing secret token", { code: "MISSING_TOKEN" });
}

/** The signature to judge, if there is one and a secret for it. */
function signatureOf(
  headers: Headers,
  secrets: readonly string[],
): SignedDelivery["signature"] | undefined {
  const hub = headers.get(HUB_SIGNATURE);
  if (hub && secrets.length > 0) {
    if (!isSignature(hub)) throw invalidSignature();
    return hub;
  }
  if (!secrets.some(isStandardSecret) || !headers.get(STANDARD_SIGNATURE)) return undefined;
  const standard = standardSignatureOf(headers);
  if (!standard) throw invalidSignature();
  return standard;
}

/**
 * Checks the proof of a delivery by its signature, without holding up others: by Web Crypto, and to be
 * awaited, for as long as Node's module is done without, and if the body is a large one that the budget
 * has room for. Other large ones are hashed in slices.
 *
 * @param delivery The delivery.
 * @param secrets The secrets. All are always tried.
 * @param slices Where large bodies have their turns.
 * @returns Which secret it was.
 * @throws {HttpError} 401 `INVALID_SIG` if it is none; 503 `OVERLOADED` if the body is evicted meanwhile.
 */
export function verifySigned(
  delivery: SignedDelivery,
  secrets: readonly string[],
  slices: Slices = new Slices(),
): ProvedBy | Promise<ProvedBy> {
  if (delivery.body.byteLength > MAX_SYNC_BYTES) return verifyLarge(delivery, secrets, slices);
  return doesWithoutNodeCrypto()
    ? verifySignedAsync(delivery, secrets)
    : verifyHere(delivery, secrets);
}

function verifyHere(delivery: SignedDelivery, secrets: readonly string[]): ProvedBy {
  const { signature, body } = delivery;
  if (typeof signature !== "string") {
    const isBy = (secret: string) => {
      const key = isStandardSecret(secret) ? standardKeyOf(secret) : undefined;
      return key !== undefined && isStandardSigned(body, signature, key);
    };
    return provedBy(delivery, positionOf(secrets, isBy));
  }
  const position = positionOf(secrets, (each) => verifySignatureBytes(body, signature, each));
  if (position || !isForm(delivery)) return provedBy(delivery, position);
  return provedBy(
    delivery,
    claimedBy(delivery, lastOf(hashes(documentOf(body), delivery, secrets))),
  );
}

/**
 * Checks the proof of a delivery by its signature, by Web Crypto.
 *
 * @param delivery The delivery.
 * @param secrets The secrets. All are always tried.
 * @returns Which secret it was.
 * @throws {HttpError} 401 `INVALID_SIG` if it is none.
 */
export async function verifySignedAsync(
  delivery: SignedDelivery,
  secrets: readonly string[],
): Promise<ProvedBy> {
  const position = claimedBy(delivery, await hashElsewhere(delivery, secrets));
  if (position || !isForm(delivery)) return provedBy(delivery, position);
  const document = wholeOf(documentOf(delivery.body));
  const inner = document && await hashElsewhere({ ...delivery, body: document }, secrets);
  return provedBy(delivery, inner ? claimedBy(delivery, inner) : 0);
}

async function verifyLarge(
  delivery: SignedDelivery,
  secrets: readonly string[],
  slices: Slices,
): Promise<ProvedBy> {
  const { body, budget, share } = delivery;
  const inSlices = (parts: Parts) =>
    slices.run(hashes(parts, delivery, secrets), () => share?.isEvicted ?? false);
  // Web Crypto makes a copy, and has to be given one where more than the body is signed.
  const copies = typeof delivery.signature === "string" ? 1 : 2;
  const release = budget?.reserveFree(copies * body.byteLength);
  const digests = release
    ? await hashElsewhere(delivery, secrets).finally(release)
    : await inSlices(partsOf(body));
  const position = claimedBy(delivery, digests);
  if (position || !isForm(delivery)) return provedBy(delivery, position);
  return provedBy(delivery, claimedBy(delivery, await inSlices(documentOf(body))));
}

/** What is hashed, in slices. It comes to false if that was nothing. */
type Parts = Generator<Uint8Array<ArrayBuffer>, boolean>;

/** What each secret makes of a message; undefined if the secret is for another kind of signature. */
type Digests = readonly (Uint8Array | undefined)[];

function* partsOf(body: Uint8Array<ArrayBuffer>): Parts {
  for (let at = 0; at < body.byteLength; at += SLICE_BYTES) {
    yield body.subarray(at, at + SLICE_BYTES);
  }
  return true;
}

/** What Gitea and Forgejo sign where they send a form: the document in it, its only field. */
function documentOf(body: Uint8Array<ArrayBuffer>): Parts {
  return firstField(body, "payload");
}

/** Hashes for all secrets at once: a form is decoded for all of them, and nothing of it is kept. */
function* hashes(
  parts: Parts,
  { signature }: SignedDelivery,
  secrets: readonly string[],
): Generator<void, Digests> {
  const hmacs = keysOf(signature, secrets).map((key) =>
    key && nodeCrypto().createHmac("sha256", key)
  );
  if (typeof signature !== "string") { for (const hmac of hmacs) hmac?.update(headOf(signature)); }
  for (;;) {
    const { done, value } = parts.next();
    if (done) return hmacs.map((hmac) => value ? hmac?.digest() : undefined);
    for (const hmac of hmacs) hmac?.update(value);
    yield;
  }
}

/** Hashes by Web Crypto, for one secret after the other: each makes a copy of the body. */
async function hashElsewhere(
  { signature, body }: SignedDelivery,
  secrets: readonly string[],
): Promise<Digests> {
  const message = typeof signature === "string" ? body : joined(headOf(signature), body);
  const digests: (Uint8Array | undefined)[] = [];
  for (const key of keysOf(signature, secrets)) {
    digests.push(key && await hmacElsewhere(key, message));
  }
  return digests;
}

function keysOf(
  signature: SignedDelivery["signature"],
  secrets: readonly string[],
): readonly (Uint8Array<ArrayBuffer> | undefined)[] {
  if (typeof signature === "string") {
    return secrets.map((secret) => secret ? encoder.encode(secret) : undefined);
  }
  return secrets.map((secret) => isStandardSecret(secret) ? standardKeyOf(secret) : undefined);
}

/** Finds the secret whose digest is the one that a request claims. */
function claimedBy({ signature }: SignedDelivery, digests: Digests): number {
  return positionOf(digests, (digest) => {
    if (!digest) return false;
    return typeof signature === "string"
      ? isSignatureOf(digest, signature)
      : isOneOf(signature, digest);
  });
}

function joined(head: Uint8Array, body: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(head.byteLength + body.byteLength);
  bytes.set(head);
  bytes.set(body, head.byteLength);
  return bytes;
}

/** Goes to the end of slices at once. */
function lastOf<T>(sliced: Generator<unknown, T>): T {
  for (;;) {
    const { done, value } = sliced.next();
    if (done) return value;
  }
}

/** Joins the parts of what is small. */
function wholeOf(parts: Parts): Uint8Array<ArrayBuffer> | undefined {
  let whole: Uint8Array<ArrayBuffer> | undefined;
  for (;;) {
    const { done, value } = parts.next();
    if (done) return value ? whole : undefined;
    whole = whole ? joined(whole, value) : value.slice();
  }
}

/** Whether the document in a body may be what is signed. */
function isForm({ signature, headers }: SignedDelivery): boolean {
  if (typeof signature !== "string") return false;
  return headers.get("Content-Type")?.toLowerCase().startsWith(FORM_TYPE) ?? false;
}

function provedBy({ signature }: SignedDelivery, position: number): ProvedBy {
  if (!position) throw invalidSignature();
  // Only after the proof: who has captured a delivery learns no more than that it is too old.
  if (typeof signature !== "string" && !isRecent(signature)) {
    throw new HttpError(401, "Stale signature", { code: "STALE_SIG" });
  }
  return `secret ${position}`;
}

function verifyToken(token: string, tokens: readonly string[]): () => ProvedBy {
  const position = positionOf(tokens, (each) => verifySecretToken(token, each));
  if (!position) throw new HttpError(401, "Invalid secret token", { code: "INVALID_TOKEN" });
  return () => `token ${position}`;
}

function invalidSignature(): HttpError {
  return new HttpError(401, "Invalid signature", { code: "INVALID_SIG" });
}
