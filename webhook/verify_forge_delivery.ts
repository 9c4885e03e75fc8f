import { HttpError } from "../middleware/mod.ts";
import { FORM_TYPE, formField } from "./_form.ts";
import type { BodyBudget } from "./body_budget.ts";
import {
  isRecent,
  isStandardSecret,
  isStandardSigned,
  standardKeyOf,
  standardSignatureOf,
} from "./_standard_signature.ts";
import { doesWithoutNodeCrypto } from "./node_crypto.ts";
import { positionOf, type ProvedBy } from "./proved_by.ts";
import { verifySecretToken } from "./verify_secret_token.ts";
import { isSignature, verifySignatureAsync, verifySignatureBytes } from "./verify_signature.ts";

const HUB_SIGNATURE = "X-Hub-Signature-256";
const STANDARD_SIGNATURE = "webhook-signature";
const TOKEN = "X-Gitlab-Token";

/**
 * Web Crypto proves a larger body on another thread: of 3 MB, 4 at a time, ×1.13 as many were taken so,
 * and small ones beside them after ×0.8 of the time (p99). One of 25 MB would hold all others for 13 ms.
 */
const MAX_SYNC_BYTES = 262_144;

/** A delivery with a signature in the header `X-Hub-Signature-256`. */
export interface SignedDelivery {
  readonly signature: string;
  readonly headers: Headers;
  readonly body: Uint8Array<ArrayBuffer>;
  /** What bodies may hold together. */
  readonly budget?: BodyBudget | undefined;
}

type VerifySync = (body: Uint8Array<ArrayBuffer>) => ProvedBy;

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
  return verifyForgeHead(headers, secrets, tokens, verifyHub)(body);
}

/**
 * Checks what can be checked before the body is read: the form of a signature, and all of a token.
 *
 * @typeParam T What the rest of the proof comes to.
 * @param headers The request's headers.
 * @param secrets The secrets that are signed with.
 * @param tokens The tokens that are sent along.
 * @param verifyRest Checks the rest of the proof by `X-Hub-Signature-256`.
 * @returns What checks the rest of the proof.
 * @throws {HttpError} As {@linkcode verifyForgeDelivery} does.
 */
export function verifyForgeHead<T>(
  headers: Headers,
  secrets: readonly string[],
  tokens: readonly string[],
  verifyRest: (delivery: SignedDelivery, secrets: readonly string[]) => T,
): (body: Uint8Array<ArrayBuffer>, budget?: BodyBudget) => T | ProvedBy {
  const signature = headers.get(HUB_SIGNATURE);
  if (signature && secrets.length > 0) {
    if (!isSignature(signature)) throw invalidSignature();
    return (body, budget) => verifyRest({ signature, headers, body, budget }, secrets);
  }
  if (secrets.some(isStandardSecret) && headers.get(STANDARD_SIGNATURE)) {
    return verifyStandard(headers, secrets);
  }
  const token = headers.get(TOKEN);
  if (token && tokens.length > 0) return verifyToken(token, tokens);
  throw secrets.length > 0
    ? new HttpError(401, "Missing signature", { code: "MISSING_SIG" })
    : new HttpError(401, "Missing secret token", { code: "MISSING_TOKEN" });
}

/**
 * Checks the proof of a delivery by `X-Hub-Signature-256`: by Web Crypto, and to be awaited, for as long
 * as Node's module is done without, and if the body is a large one that the budget has room for.
 *
 * @param delivery The delivery.
 * @param secrets The secrets. All are always tried.
 * @returns Which secret it was.
 * @throws {HttpError} 401 `INVALID_SIG` if it is none.
 */
export function verifySigned(
  delivery: SignedDelivery,
  secrets: readonly string[],
): ProvedBy | Promise<ProvedBy> {
  const { headers, body: { byteLength }, budget } = delivery;
  if (byteLength <= MAX_SYNC_BYTES) {
    return doesWithoutNodeCrypto()
      ? verifyHubAsync(delivery, secrets)
      : verifyHub(delivery, secrets);
  }
  // Web Crypto makes a copy, and the document in a form is one: where there is no room for all, bodies
  // that wait for their proof would pile up.
  const release = budget?.reserveFree((isForm(headers) ? 3 : 2) * byteLength);
  return release
    ? verifyHubAsync(delivery, secrets).finally(release)
    : verifyHub(delivery, secrets);
}

function verifyHub(delivery: SignedDelivery, secrets: readonly string[]): ProvedBy {
  const { signature, body } = delivery;
  const signedBy = (bytes: Uint8Array) =>
    positionOf(secrets, (secret) => verifySignatureBytes(bytes, signature, secret));
  return provedBy(signedBy(body) || withDocument(delivery, signedBy));
}

/**
 * Checks the proof of a delivery by `X-Hub-Signature-256` by Web Crypto.
 *
 * @param delivery The delivery.
 * @param secrets The secrets. All are always tried.
 * @returns Which secret it was.
 * @throws {HttpError} 401 `INVALID_SIG` if it is none.
 */
export async function verifyHubAsync(
  delivery: SignedDelivery,
  secrets: readonly string[],
): Promise<ProvedBy> {
  const { signature, body } = delivery;
  const signedBy = async (bytes: Uint8Array<ArrayBuffer>) => {
    const proofs: boolean[] = [];
    // One after the other: each makes a copy of the body.
    for (const secret of secrets) {
      proofs.push(await verifySignatureAsync(bytes, signature, secret));
    }
    return positionOf(proofs, (isRight) => isRight);
  };
  return provedBy(await signedBy(body) || await withDocument(delivery, signedBy));
}

/** What Gitea and Forgejo sign where they send a form: the document in it. */
function withDocument<T>(
  { headers, body }: SignedDelivery,
  signedBy: (document: Uint8Array<ArrayBuffer>) => T,
): T | undefined {
  const document = isForm(headers) ? formField(body, "payload") : undefined;
  return document && signedBy(document);
}

function isForm(headers: Headers): boolean {
  return headers.get("Content-Type")?.toLowerCase().startsWith(FORM_TYPE) ?? false;
}

function provedBy(position: number | undefined): ProvedBy {
  if (position) return `secret ${position}`;
  throw invalidSignature();
}

function verifyStandard(headers: Headers, secrets: readonly string[]): VerifySync {
  const signature = standardSignatureOf(headers);
  if (!signature) throw invalidSignature();
  return (body) => {
    const position = positionOf(secrets, (secret) => {
      const key = isStandardSecret(secret) ? standardKeyOf(secret) : undefined;
      return key !== undefined && isStandardSigned(body, signature, key);
    });
    if (!position) throw invalidSignature();
    // Only after the proof: who has captured a delivery learns no more than that it is too old.
    if (!isRecent(signature)) throw new HttpError(401, "Stale signature", { code: "STALE_SIG" });
    return `secret ${position}`;
  };
}

function verifyToken(token: string, tokens: readonly string[]): VerifySync {
  const position = positionOf(tokens, (each) => verifySecretToken(token, each));
  if (!position) throw new HttpError(401, "Invalid secret token", { code: "INVALID_TOKEN" });
  return () => `token ${position}`;
}

function invalidSignature(): HttpError {
  return new HttpError(401, "Invalid signature", { code: "INVALID_SIG" });
}
