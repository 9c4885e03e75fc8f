import { checkKeys, checkObject, checkPart, met } from "../core/check_options.ts";
import { isStandardSecret, standardKeyOf } from "./verify_signature.ts";

/** Start of a public or private key of the Standard Webhooks specification. */
const NO_SECRET = /^wh[ps]k_/;

/** Characters that a header's value can bring unchanged. Telegram allows A-Z a-z 0-9 _ - only. */
const TOKEN = /^[!-~](?:[ -~]*[!-~])?$/;

/**
 * Checks the options that an intake requires.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param options The options.
 * @throws {TypeError} If they are not an object, or have no store.
 */
export function checkIntakeOptions(
  doing: string,
  options: { readonly store: unknown; readonly telemetry?: unknown },
): void {
  checkObject(doing, options);
  checkKeys(doing, options, ["store", "telemetry", "env"]);
  const wanted = "'store' must be what openEventStore() resolves with, or a store of your own";
  checkPart(doing, options.store, "accept", wanted);
  if (options.telemetry === undefined) return;
  const wantedTelemetry = "'telemetry' must be what openTelemetry() resolves with";
  checkPart(doing, options.telemetry, "storing", wantedTelemetry);
}

/**
 * Finds out why a secret cannot be used to sign.
 *
 * @param secret The secret.
 * @returns The reason, to follow its name; undefined if it can be used.
 */
export function flawOfSecret(secret: string): string | undefined {
  if (NO_SECRET.test(secret)) {
    return "begins with whpk_ or whsk_: those are keys of Ed25519, and no secrets";
  }
  if (!isStandardSecret(secret) || standardKeyOf(secret)) return undefined;
  return "begins with whsec_ and is not base64";
}

/**
 * Finds out why a secret cannot be sent along in a header.
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

/**
 * Checks the secrets that an intake is given.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param secrets The secrets.
 * @param name The option's name, for the message.
 * @throws {TypeError} If there is none, or one is blank.
 */
export function checkSecrets(
  doing: string,
  secrets: readonly string[],
  name = "secrets",
): void {
  if (!Array.isArray(secrets) || secrets.length === 0) {
    // A text would be the secret itself, so it is not quoted.
    const got = typeof secrets === "string"
      ? "a text"
      : Array.isArray(secrets)
      ? "an empty one"
      : met(secrets);
    throw new TypeError(
      `Cannot ${doing}: '${name}' must be an array with at least one secret, got ${got}`,
    );
  }
  secrets.forEach((secret, i) => {
    if (typeof secret === "string" && secret.trim() !== "") return;
    const is = typeof secret === "string" ? "is blank" : `must be a text, got ${typeof secret}`;
    throw new TypeError(`Cannot ${doing}: ${singular(name)} ${i + 1} ${is}`);
  });
}

/**
 * Checks the tokens that are sent along in a header.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param tokens The tokens.
 * @param name The option's name, for the message.
 * @throws {TypeError} If there is none, one is blank, or one has characters that no header can bring.
 */
export function checkTokens(
  doing: string,
  tokens: readonly string[],
  name = "secrets",
): void {
  checkSecrets(doing, tokens, name);
  checkEach(doing, tokens, name, flawOfToken);
}

/**
 * Checks each secret on its own.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param secrets The secrets.
 * @param name The option's name, for the message.
 * @param flawOf Finds out why a secret cannot be used.
 * @throws {TypeError} If one cannot be used.
 */
export function checkEach(
  doing: string,
  secrets: readonly string[],
  name: string,
  flawOf: (secret: string) => string | undefined,
): void {
  secrets.forEach((secret, i) => {
    const flaw = flawOf(secret);
    if (!flaw) return;
    throw new TypeError(`Cannot ${doing}: ${singular(name)} ${i + 1} ${flaw}`);
  });
}

function singular(name: string): string {
  return name.slice(0, -1);
}
