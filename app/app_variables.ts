import { flawOfSecret, flawOfToken } from "../webhook/flaw_of_secret.ts";
import type { NotifierKind } from "../events/mod.ts";

/** Where an app's variables come from, and where what is odd about them is reported. */
export interface AppVariables {
  /**
   * Reads a variable.
   *
   * @param name Its name.
   * @returns Its value; undefined if it is not set.
   */
  get(name: string): string | undefined;
  /**
   * Reports something that does not keep the app from starting.
   *
   * @param message What is odd. It names variables and never their values.
   */
  warn(message: string): void;
}

/** A variable that keeps an app from starting. The message names it, and not its value. */
export class VariableError extends Error {
  /** The class's name. */
  override readonly name = "VariableError";
}

/** A secret shorter than this is guessed too easily: 16 random letters and digits have 95 bits. */
const MIN_SECRET_LENGTH = 16;

/** An entry of the allowed users. */
const ALLOWED_USER = /^(\*|[1-9]\d{0,15})$/;

/**
 * Reads a secret, and the outgoing one of a rotation from the same name with `_PREVIOUS`.
 *
 * @param variables The variables.
 * @param name The variable's name.
 * @returns The secrets that are accepted, the current one first.
 * @throws {VariableError} If it is not set, or blank.
 */
export function readSecrets(variables: AppVariables, name: string): string[] {
  return readAll(variables, name, () => undefined);
}

/**
 * Reads a secret that is sent along in a header, as Telegram's secret token is, and the outgoing one of
 * a rotation from the same name with `_PREVIOUS`.
 *
 * @param variables The variables.
 * @param name The variable's name.
 * @returns The secrets that are accepted, the current one first.
 * @throws {VariableError} If it is not set, or blank, or one has characters that no header can bring.
 */
export function readTokens(variables: AppVariables, name: string): string[] {
  return readAll(variables, name, flawOfToken);
}

/** What a forge's deliveries are proved by. */
export interface ForgeSecrets {
  /** What deliveries are signed with. */
  readonly secrets: readonly string[];
  /** What GitLab sends along where it does not sign. */
  readonly tokens: readonly string[];
}

/**
 * Reads the secrets from `FORGE_WEBHOOK_SECRET` and the tokens from `FORGE_WEBHOOK_TOKEN`, each with
 * its `_PREVIOUS`. One of the two is enough.
 *
 * @param variables The variables.
 * @returns The secrets and the tokens.
 * @throws {VariableError} If neither is set, or one is blank, or of no use, or both are the same.
 */
export function readForgeSecrets(variables: AppVariables): ForgeSecrets {
  const [secret, token] = ["FORGE_WEBHOOK_SECRET", "FORGE_WEBHOOK_TOKEN"] as const;
  const hasToken = variables.get(token) !== undefined;
  const hasSecret = variables.get(secret) !== undefined;
  const secrets = hasSecret || !hasToken ? readAll(variables, secret, flawOfSecret) : [];
  const tokens = hasToken ? readTokens(variables, token) : [];
  const both = tokens.findIndex((each) => secrets.includes(each));
  if (both >= 0) {
    const isAs = nameAt(secret, secrets.indexOf(tokens[both]!));
    throw new VariableError(
      `${nameAt(token, both)} is the same as ${isAs}: it would be sent along`,
    );
  }
  return { secrets, tokens };
}

function readAll(
  variables: AppVariables,
  name: string,
  flawOf: (secret: string) => string | undefined,
): string[] {
  const secret = variables.get(name);
  if (secret === undefined) throw new VariableError(`${name} is not set`);
  if (secret.trim() === "") throw new VariableError(`${name} is blank`);
  const previous = variables.get(nameAt(name, 1));
  const secrets = previous?.trim() ? [secret, previous] : [secret];
  secrets.forEach((each, i) => {
    const flaw = flawOf(each);
    if (flaw) throw new VariableError(`${nameAt(name, i)} ${flaw}`);
  });
  secrets.forEach((each, i) => warnOfOdd(variables, nameAt(name, i), each));
  return secrets;
}

/** The variable of the current secret, or of the outgoing one. */
function nameAt(name: string, position: number): string {
  return position === 0 ? name : `${name}_PREVIOUS`;
}

function warnOfOdd(variables: AppVariables, name: string, secret: string): void {
  if (secret.length < MIN_SECRET_LENGTH) {
    variables.warn(`${name} has under ${MIN_SECRET_LENGTH} characters: it can be guessed`);
  }
  if (secret === secret.trim()) return;
  const where = secret === secret.trimStart() ? "ends" : "begins";
  const what = /[\r\n]$/.test(secret) ? "ends with a line break" : `${where} with white space`;
  variables.warn(
    `${name} ${what}, which counts as part of it: all is refused if the sender has none`,
  );
}

/**
 * Reads the ids of the users who may use a bot, and reports a list that allows nobody.
 *
 * @param variables The variables.
 * @param name The variable's name.
 * @returns Its value; undefined if it is not set.
 * @throws {VariableError} If an entry is neither a user id nor `*`.
 */
export function readAllowedUsers(variables: AppVariables, name: string): string | undefined {
  const list = variables.get(name);
  if (!list?.trim()) {
    variables.warn(`${name} is empty: no user is allowed`);
    return undefined;
  }
  const bad = list.split(",").findIndex((entry) => !ALLOWED_USER.test(entry.trim()));
  if (bad >= 0) throw new VariableError(`${name}: entry ${bad + 1} is neither a user id nor *`);
  return list;
}

/** Options of {@linkcode readInteger}. */
export interface IntegerVariableOptions {
  /** The number to use if the variable is not set, or blank. */
  readonly fallback: number;
  /** The largest number allowed. The smallest is 0. */
  readonly max: number;
}

/**
 * Reads a whole number.
 *
 * @param variables The variables.
 * @param name The variable's name.
 * @param options The default, and the largest number allowed.
 * @returns The number.
 * @throws {VariableError} If it is not a number in that range.
 */
export function readInteger(
  variables: AppVariables,
  name: string,
  { fallback, max }: IntegerVariableOptions,
): number {
  const text = variables.get(name)?.trim();
  if (!text) return fallback;
  if (/^\d{1,10}$/.test(text) && Number(text) <= max) return Number(text);
  throw new VariableError(`${name} must be a whole number from 0 to ${max}`);
}

/**
 * Reads how workers are woken.
 *
 * @param variables The variables.
 * @param name The variable's name.
 * @returns The notifier. `auto` becomes `watch` on Deno Deploy, which has no KV queues.
 * @throws {VariableError} If it is none of `auto`, `enqueue` and `watch`.
 */
export function readNotifier(variables: AppVariables, name: string): NotifierKind | "auto" {
  const notifier = variables.get(name)?.trim() || "auto";
  if (notifier === "enqueue" || notifier === "watch") return notifier;
  if (notifier !== "auto") throw new VariableError(`${name} must be auto, enqueue or watch`);
  return onDeploy(variables) ? "watch" : "auto";
}

/**
 * Tells whether the app runs on Deno Deploy.
 *
 * @param variables The variables.
 * @returns Whether it does, by the variable that the platform sets.
 */
export function onDeploy(variables: Pick<AppVariables, "get">): boolean {
  // The platform's documents have had it as 1 as well, since August 2025.
  return ["true", "1"].includes(variables.get("DENO_DEPLOY") ?? "");
}

/**
 * Refuses the variable by which Deno takes the client's address from a header. Only on Deno Deploy does
 * the platform write that header itself. Elsewhere any client can choose its address with it, and a
 * malformed one ends the process (Deno 2.9.6).
 *
 * @param variables The variables.
 * @throws {VariableError} If it is set outside Deno Deploy.
 */
export function refuseProxyHeaders(variables: AppVariables): void {
  const name = "DENO_TRUST_PROXY_HEADERS";
  if (!variables.get(name) || onDeploy(variables)) return;
  throw new VariableError(
    `${name} must not be set outside Deno Deploy: set TRUSTED_PROXY_HOPS for a reverse proxy`,
  );
}
