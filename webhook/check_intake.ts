import { checkInteger, checkObject, checkPart, MAX_TIMER_MS, met } from "../core/check_options.ts";
import type { PlatformName } from "../events/store/mod.ts";
import { isStandardSecret, standardKeyOf } from "./verify_signature.ts";

/** Intakes have short names: they begin each event's id, up to the first colon. */
const INTAKE_NAME = /^[a-z][a-z0-9_-]{0,31}$/i;

/** Characters that a header's value can bring unchanged. Telegram allows A-Z a-z 0-9 _ - only. */
const TOKEN = /^[!-~](?:[ -~]*[!-~])?$/;

/**
 * Checks the options that an intake requires.
 *
 * @param platform The intake's platform, for the message.
 * @param options The options.
 * @throws {TypeError} If they are not an object, or have no store.
 */
export function checkIntakeOptions(
  platform: PlatformName,
  options: { readonly store: unknown; readonly telemetry?: unknown },
): void {
  const doing = `create the ${platform} intake`;
  checkObject(doing, options);
  const wanted = "'store' must be what openEventStore() resolves with, or a store of your own";
  checkPart(doing, options.store, "accept", wanted);
  if (options.telemetry === undefined) return;
  const wantedTelemetry = "'telemetry' must be what openTelemetry() resolves with";
  checkPart(doing, options.telemetry, "storing", wantedTelemetry);
}

/**
 * Checks an intake's name. The other platform's name would suggest that its events come from there.
 *
 * @param platform The intake's platform.
 * @param name The name.
 * @throws {TypeError} If it is not a short name, or is the other platform's.
 */
export function checkIntakeName(platform: PlatformName, name: string): void {
  const other = platform === "forge" ? "messenger" : "forge";
  if (name === other) {
    throw new TypeError(
      `Cannot create the intake: 'name' must not be ${met(name)}, which is the other platform's`,
    );
  }
  if (typeof name === "string" && INTAKE_NAME.test(name)) return;
  throw new TypeError(
    "Cannot create the intake: 'name' must be a letter, then up to 31 letters, digits, _ and -, " +
      `got ${met(name)}`,
  );
}

/**
 * Checks the limits of an intake.
 *
 * @param platform The intake's platform, for the message.
 * @param limits The limits, by the names of their options.
 * @param maxPayloadBytes The largest body that the store can hold, in bytes.
 * @throws {RangeError} If a limit is out of range.
 */
export function checkIntakeLimits(
  platform: PlatformName,
  limits: Readonly<Record<"maxBodyBytes" | "bodyTimeoutMs" | "maxTotalBodyBytes", number>>,
  maxPayloadBytes: number,
): void {
  const { maxBodyBytes, bodyTimeoutMs, maxTotalBodyBytes } = limits;
  const doing = `create the ${platform} intake`;
  checkInteger(doing, "maxBodyBytes", maxBodyBytes, { max: maxPayloadBytes });
  checkInteger(doing, "bodyTimeoutMs", bodyTimeoutMs, { max: MAX_TIMER_MS });
  // A smaller budget would refuse a body that 'maxBodyBytes' allows.
  const totalRange = { min: maxBodyBytes, max: Number.MAX_SAFE_INTEGER };
  checkInteger(doing, "maxTotalBodyBytes", maxTotalBodyBytes, totalRange);
}

/**
 * Finds out why a secret cannot be used to sign.
 *
 * @param secret The secret.
 * @returns The reason, to follow its name; undefined if it can be used.
 */
export function flawOfSecret(secret: string): string | undefined {
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
 * @param platform The intake's platform, for the message.
 * @param secrets The secrets.
 * @param name The option's name, for the message.
 * @throws {TypeError} If there is none, or one is blank.
 */
export function checkSecrets(
  platform: PlatformName,
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
      `Cannot create the ${platform} intake: '${name}' must be an array with at least one secret, got ${got}`,
    );
  }
  secrets.forEach((secret, i) => {
    if (typeof secret === "string" && secret.trim() !== "") return;
    const is = typeof secret === "string" ? "is blank" : `must be a text, got ${typeof secret}`;
    throw new TypeError(`Cannot create the ${platform} intake: ${singular(name)} ${i + 1} ${is}`);
  });
}

/**
 * Checks the tokens that are sent along in a header.
 *
 * @param platform The intake's platform, for the message.
 * @param tokens The tokens.
 * @param name The option's name, for the message.
 * @throws {TypeError} If there is none, one is blank, or one has characters that no header can bring.
 */
export function checkTokens(
  platform: PlatformName,
  tokens: readonly string[],
  name = "secrets",
): void {
  checkSecrets(platform, tokens, name);
  checkEach(platform, tokens, name, flawOfToken);
}

/**
 * Checks each secret on its own.
 *
 * @param platform The intake's platform, for the message.
 * @param secrets The secrets.
 * @param name The option's name, for the message.
 * @param flawOf Finds out why a secret cannot be used.
 * @throws {TypeError} If one cannot be used.
 */
export function checkEach(
  platform: PlatformName,
  secrets: readonly string[],
  name: string,
  flawOf: (secret: string) => string | undefined,
): void {
  secrets.forEach((secret, i) => {
    const flaw = flawOf(secret);
    if (!flaw) return;
    throw new TypeError(`Cannot create the ${platform} intake: ${singular(name)} ${i + 1} ${flaw}`);
  });
}

function singular(name: string): string {
  return name.slice(0, -1);
}
