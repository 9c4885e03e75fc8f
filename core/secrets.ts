import { createHash } from "node:crypto";
import { timingSafeEqual } from "@std/crypto/timing-safe-equal";

/**
 * Finds the secret that verifies a request. All are tried, so that the time taken does not tell which one it was.
 *
 * @param secrets The secrets.
 * @param verifies Checks whether a secret verifies the request.
 * @returns Its position, from 1; 0 if none does.
 */
export function positionOf<TSecret>(
  secrets: readonly TSecret[],
  verifies: (secret: TSecret) => boolean,
): number {
  let position = 0;
  for (let i = 0; i < secrets.length; i++) if (verifies(secrets[i]!)) position = i + 1;
  return position;
}

/**
 * Makes the search for a token among the accepted ones. Digests are compared, in constant time: they have one length,
 * so the time taken tells neither where two tokens differ nor how long a token is.
 *
 * @param accepted The accepted tokens.
 * @returns The function that finds a token. It returns the position, from 1; 0 if the token is not accepted.
 */
export function tokenFinder(accepted: readonly string[]): (token: string) => number {
  const digests = accepted.map(digestOf);
  return (token) => {
    const digest = digestOf(token);
    return positionOf(digests, (each) => timingSafeEqual(each, digest));
  };
}

function digestOf(token: string): Uint8Array {
  return createHash("sha256").update(token).digest();
}
