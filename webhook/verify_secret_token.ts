import { timingSafeEqual } from "@std/crypto/timing-safe-equal";

/** Texts are compared in as many blocks of this length as the longer one takes, in bytes. */
const BLOCK_BYTES = 512;

const encoder = new TextEncoder();

/**
 * Checks a secret token. The comparison takes the same time wherever the two differ, and whatever
 * their lengths up to 512 bytes: a messenger's tokens have 256 at most.
 *
 * @param token The token that a request brought.
 * @param secret The token that was agreed on.
 * @returns Whether they are the same; false for an empty secret.
 */
export function verifySecretToken(token: string, secret: string): boolean {
  if (typeof token !== "string" || typeof secret !== "string" || secret === "") return false;
  const [sent, agreed] = [encoder.encode(token), encoder.encode(secret)];
  const blocks = Math.ceil(Math.max(sent.byteLength, agreed.byteLength) / BLOCK_BYTES);
  const isSame = timingSafeEqual(padded(sent, blocks), padded(agreed, blocks));
  return isSame && sent.byteLength === agreed.byteLength;
}

function padded(bytes: Uint8Array, blocks: number): Uint8Array {
  const padded = new Uint8Array(blocks * BLOCK_BYTES);
  padded.set(bytes);
  return padded;
}
