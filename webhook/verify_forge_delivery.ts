import { HttpError } from "../middleware/mod.ts";
import { FORM_TYPE, formField } from "./_form.ts";
import {
  isRecent,
  isStandardSecret,
  isStandardSigned,
  standardKeyOf,
  standardSignatureOf,
} from "./_standard_signature.ts";
import type { VerifyBody } from "./intake.ts";
import { positionOf, type ProvedBy } from "./proved_by.ts";
import { verifySecretToken } from "./verify_secret_token.ts";
import { isSignature, verifySignatureBytes } from "./verify_signature.ts";

const HUB_SIGNATURE = "X-Hub-Signature-256";
const STANDARD_SIGNATURE = "webhook-signature";
const TOKEN = "X-Gitlab-Token";

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
  return verifyForgeHead(headers, secrets, tokens)(body);
}

/** Checks what can be checked before the body is read: the form of a signature, and all of a token. */
export function verifyForgeHead(
  headers: Headers,
  secrets: readonly string[],
  tokens: readonly string[],
): VerifyBody {
  const signature = headers.get(HUB_SIGNATURE);
  if (signature && secrets.length > 0) return verifyHub(signature, headers, secrets);
  if (secrets.some(isStandardSecret) && headers.get(STANDARD_SIGNATURE)) {
    return verifyStandard(headers, secrets);
  }
  const token = headers.get(TOKEN);
  if (token && tokens.length > 0) return verifyToken(token, tokens);
  throw secrets.length > 0
    ? new HttpError(401, "Missing signature", { code: "MISSING_SIG" })
    : new HttpError(401, "Missing secret token", { code: "MISSING_TOKEN" });
}

function verifyHub(signature: string, headers: Headers, secrets: readonly string[]): VerifyBody {
  if (!isSignature(signature)) throw invalidSignature();
  const signedBy = (bytes: Uint8Array) =>
    positionOf(secrets, (secret) => verifySignatureBytes(bytes, signature, secret));
  return (body) => {
    const position = signedBy(body);
    if (position) return `secret ${position}`;
    const isForm = headers.get("Content-Type")?.toLowerCase().startsWith(FORM_TYPE);
    const document = isForm ? formField(body, "payload") : undefined;
    const inner = document && signedBy(document);
    if (inner) return `secret ${inner}`;
    throw invalidSignature();
  };
}

function verifyStandard(headers: Headers, secrets: readonly string[]): VerifyBody {
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

function verifyToken(token: string, tokens: readonly string[]): VerifyBody {
  const position = positionOf(tokens, (each) => verifySecretToken(token, each));
  if (!position) throw new HttpError(401, "Invalid secret token", { code: "INVALID_TOKEN" });
  return () => `token ${position}`;
}

function invalidSignature(): HttpError {
  return new HttpError(401, "Invalid signature", { code: "INVALID_SIG" });
}
