import { isStandardSecret, standardKeyOf } from "./_standard_signature.ts";

/** What a header's value can bring unchanged. Telegram takes A-Z a-z 0-9 _ - only. */
const TOKEN = /^[!-~](?:[ -~]*[!-~])?$/;

/**
 * Tells why a secret is of no use to sign with.
 *
 * @param secret The secret.
 * @returns The reason, to follow its name; undefined if it is of use.
 */
export function flawOfSecret(secret: string): string | undefined {
  if (!isStandardSecret(secret) || standardKeyOf(secret)) return undefined;
  return "begins with whsec_ and is not base64";
}

/**
 * Tells why a secret cannot be sent along in a header.
 *
 * @param token The secret.
 * @returns The reason, to follow its name; undefined if it can.
 */
export function flawOfToken(token: string): string | undefined {
  if (TOKEN.test(token)) return undefined;
  return TOKEN.test(token.trim())
    ? "begins or ends with white space, such as a line break, which no header can bring"
    : "has characters that no header can bring";
}
