/** Shortest token: 32 hexadecimal digits have 128 bits. The sessions of its role are signed with a key made of it. */
const MIN_TOKEN_LENGTH = 32;

/** Longest token: as a form encodes it, it and the page to go on to fit into the form of a login. */
export const MAX_TOKEN_LENGTH = 256;

/** Fewest different characters: less is no random text. */
const MIN_CHARACTERS = 8;

/**
 * Finds out why a token cannot be used.
 *
 * @param token The token.
 * @returns The flaw, without the token; undefined if there is none.
 */
export function flawOfToken(token: unknown): string | undefined {
  if (typeof token !== "string") return `must be a text, got ${typeof token}`;
  if (token !== token.trim()) return "begins or ends with white space";
  if (token.length < MIN_TOKEN_LENGTH || new Set(token).size < MIN_CHARACTERS) {
    return `must be at least ${MIN_TOKEN_LENGTH} random characters, as \`openssl rand -hex 32\` makes them`;
  }
  if (!token.isWellFormed()) return "has a lone surrogate, which no form can send";
  return token.length > MAX_TOKEN_LENGTH
    ? `must have at most ${MAX_TOKEN_LENGTH} characters`
    : undefined;
}
