import { createHash } from "node:crypto";
import { timingSafeEqual } from "@std/crypto/timing-safe-equal";

/**
 * Checks a secret token. The comparison takes the same time wherever the two differ, and whatever
 * their lengths: digests are compared.
 *
 * @param token The token that a request brought.
 * @param secret The token that was agreed on.
 * @returns Whether they are the same; false for an empty secret.
 */
export function verifySecretToken(token: string, secret: string): boolean {
  if (typeof token !== "string" || typeof secret !== "string" || secret === "") return false;
  return timingSafeEqual(sha256(token), sha256(secret));
}

function sha256(text: string): Uint8Array {
  return createHash("sha256").update(text).digest();
}
