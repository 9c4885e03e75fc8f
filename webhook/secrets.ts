import { met } from "../core/check_options.ts";
import { type EnvSpec, type EnvVariable, readSecrets, secretName } from "../core/env.ts";

/** Finds out why a secret cannot be used: the reason, to follow its name; undefined if it can. */
export type FlawOf = (secret: string) => string | undefined;

/** Characters that a header's value can bring unchanged. Telegram allows A-Z a-z 0-9 _ - only. */
const TOKEN = /^[!-~](?:[ -~]*[!-~])?$/;

/** Finds out why a secret cannot be sent along in a header. */
export const flawOfToken: FlawOf = (token) => {
  if (TOKEN.test(token)) return undefined;
  return TOKEN.test(token.trim())
    ? "begins or ends with white space, such as a line break, which no header can bring"
    : "has characters that no header can bring";
};

/**
 * Describes the variable of a platform's secrets.
 *
 * @param name The name of the variable.
 * @param given Secrets in code: with these there is no variable.
 * @param flawOf Finds out why a secret cannot be used.
 * @returns The description.
 */
export function secretVariable(
  name: string,
  given: readonly string[] | undefined,
  flawOf: FlawOf,
): EnvSpec {
  if (given !== undefined) return {};
  return { [name]: { read: (name, variables) => readSecrets(name, variables, flawOf) } };
}

/** Makes a variable with a secret that need not be set. A blank one is an error all the same. */
export function optionalSecret(flawOf: FlawOf): EnvVariable<readonly string[] | undefined> {
  return {
    read(name, variables) {
      // The old one is asked for in any case: all that may not be read is reported at once.
      const [secret] = [0, 1].map((position) => variables.get(secretName(name, position)));
      return secret === undefined ? undefined : readSecrets(name, variables, flawOf);
    },
  };
}

/**
 * Checks secrets that are given in code.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param secrets The secrets.
 * @param flawOf Finds out why a secret cannot be used.
 * @param option The option's name, for the message.
 * @throws {TypeError} If the list is empty, or a secret is blank or cannot be used.
 */
export function checkSecrets(
  doing: string,
  secrets: readonly string[],
  flawOf: FlawOf,
  option = "secrets",
): void {
  if (!Array.isArray(secrets) || secrets.length === 0) {
    // A text would be the secret itself, so it is not quoted.
    const got = Array.isArray(secrets)
      ? "an empty one"
      : typeof secrets === "string"
      ? "a text"
      : met(secrets);
    throw new TypeError(
      `Cannot ${doing}: '${option}' must be an array with at least one secret, got ${got}`,
    );
  }
  secrets.forEach((secret: unknown, i) => {
    const flaw = typeof secret !== "string"
      ? `must be a text, got ${typeof secret}`
      : secret.trim() === ""
      ? "is blank"
      : flawOf(secret);
    if (flaw) throw new TypeError(`Cannot ${doing}: ${option.slice(0, -1)} ${i + 1} ${flaw}`);
  });
}
