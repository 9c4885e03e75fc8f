/** Shortest token: 32 hexadecimal digits have 128 bits. A cookie is signed with a key made of the tokens. */
const MIN_TOKEN_LENGTH = 32;

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
  return token.length > 1_024 ? "must have at most 1,024 characters" : undefined;
}
