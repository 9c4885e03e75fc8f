/** What a header's value can bring unchanged. Telegram takes A-Z a-z 0-9 _ - only. */
const TOKEN = /^[!-~](?:[ -~]*[!-~])?$/;

/**
 * Checks the secrets that an intake is given.
 *
 * @param what The intake, for the message.
 * @param secrets The secrets.
 * @param name The option's name, for the message.
 * @throws {TypeError} If there is none, or one is blank.
 */
export function checkSecrets(what: string, secrets: readonly string[], name = "secrets"): void {
  if (!Array.isArray(secrets) || secrets.length === 0) {
    throw new TypeError(
      `Cannot create the ${what} intake: '${name}' must hold at least one secret`,
    );
  }
  const blank = secrets.findIndex((secret) => typeof secret !== "string" || secret.trim() === "");
  if (blank < 0) return;
  throw new TypeError(`Cannot create the ${what} intake: ${singular(name)} ${blank + 1} is blank`);
}

/**
 * Checks the secrets that are sent along in a header.
 *
 * @param what The intake, for the message.
 * @param tokens The secrets.
 * @param name The option's name, for the message.
 * @throws {TypeError} If there is none, one is blank, or one has characters that no header can bring.
 */
export function checkTokens(what: string, tokens: readonly string[], name = "secrets"): void {
  checkSecrets(what, tokens, name);
  const bad = tokens.findIndex((token) => !TOKEN.test(token));
  if (bad < 0) return;
  throw new TypeError(
    `Cannot create the ${what} intake: ${singular(name)} ${
      bad + 1
    } has characters that no header ` +
      "can bring",
  );
}

function singular(name: string): string {
  return name.slice(0, -1);
}
