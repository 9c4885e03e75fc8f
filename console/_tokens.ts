/** Shortest token: 32 hexadecimal digits have 128 bits. The sessions of its role are signed with a key made of it. */
const MIN_TOKEN_LENGTH = 32;

/** Longest token: as a form encodes it, it and the page to go on to fit into the form of a login. */
export const MAX_TOKEN_LENGTH = 256;

/** Fewest different characters: a text with fewer is not random. */
const MIN_CHARACTERS = 8;

/** Longest name of an environment. */
const MAX_ENVIRONMENT_LENGTH = 40;

/**
 * Checks the tokens and the environment of a console.
 *
 * @param values The token of viewers, the one of operators, and the environment, as far as there are any.
 * @param names Their names, for the messages.
 * @returns The flaws. They show no token.
 */
export function flawsOf(
  [viewers, operators, environment]: readonly unknown[],
  names: readonly [string, string, string],
): string[] {
  const flaws = [viewers, operators].map(flawOfToken)
    .flatMap((flaw, i) => flaw === undefined ? [] : [`${names[i]} ${flaw}`]);
  if (viewers !== undefined && viewers === operators) {
    flaws.push(`${names[0]} and ${names[1]} must differ`);
  }
  if (
    environment !== undefined &&
    (typeof environment !== "string" || environment.length > MAX_ENVIRONMENT_LENGTH)
  ) {
    flaws.push(`${names[2]} must be a text of at most ${MAX_ENVIRONMENT_LENGTH} characters`);
  }
  return flaws;
}

function flawOfToken(token: unknown): string | undefined {
  if (token === undefined) return undefined;
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
