import { flawOfSecret, flawOfToken } from "../webhook/check_intake.ts";
import type { NotifierKind } from "../events/mod.ts";

/** Source of an app's variables, and receiver of warnings about them. */
export interface AppVariables {
  /**
   * Reads a variable.
   *
   * @param name The variable's name.
   * @returns The value; undefined if the variable is not set.
   */
  get(name: string): string | undefined;
  /**
   * Reports a problem that does not keep the app from starting.
   *
   * @param message A description. It names variables and never their values.
   */
  warn(message: string): void;
}

/** Error in a variable, which keeps an app from starting. The message names it, but not its value. */
export class VariableError extends Error {
  /** Name of the class. */
  override readonly name = "VariableError";
}

/** Shortest secret that is hard to guess: 16 random letters and digits have 95 bits. */
const MIN_SECRET_LENGTH = 16;

/** Entry of the allowed users. */
const ALLOWED_USER = /^(\*|[1-9]\d{0,15})$/;

/**
 * Reads a secret and, during a rotation, the old one from the same name with `_PREVIOUS`.
 *
 * @param variables The variables.
 * @param name The variable's name.
 * @returns The accepted secrets, the current one first.
 * @throws {VariableError} If it is not set, or blank.
 */
export function readSecrets(variables: AppVariables, name: string): string[] {
  return readAll(variables, name, () => undefined);
}

/**
 * Reads a secret that is sent in a header, such as Telegram's secret token, and during a rotation the old
 * one from the same name with `_PREVIOUS`.
 *
 * @param variables The variables.
 * @param name The variable's name.
 * @returns The accepted secrets, the current one first.
 * @throws {VariableError} If it is not set, or blank, or one has characters that no header can carry.
 */
export function readTokens(variables: AppVariables, name: string): string[] {
  return readAll(variables, name, flawOfToken);
}

/** Secrets and tokens that a forge's deliveries are verified with. */
export interface ForgeSecrets {
  /** Secrets that deliveries are signed with. */
  readonly secrets: readonly string[];
  /** Tokens that GitLab sends if it does not sign. */
  readonly tokens: readonly string[];
}

/**
 * Reads the secrets from `FORGE_WEBHOOK_SECRET` and the tokens from `FORGE_WEBHOOK_TOKEN`, each with its
 * `_PREVIOUS`. One of the two is enough.
 *
 * @param variables The variables.
 * @returns The secrets and the tokens.
 * @throws {VariableError} If neither is set, one is blank or unusable, or both are the same.
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
      `${
        nameAt(token, both)
      } is the same as ${isAs}: a token is sent with each request, a secret must not be`,
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

/** Names the variable of the current secret (0) or of the old one (1). */
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
    `${name} ${what}, which is part of the secret: every delivery is refused if the sender's has none`,
  );
}

/**
 * Reads the ids of the users who may use a bot, and warns if the list allows nobody.
 *
 * @param variables The variables.
 * @param name The variable's name.
 * @returns The list; undefined if the variable is not set.
 * @throws {VariableError} If an entry is neither a user id nor `*`.
 */
export function readAllowedUsers(variables: AppVariables, name: string): string | undefined {
  const list = variables.get(name);
  if (!list?.trim()) {
    variables.warn(
      `${name} is empty: no user is allowed. Write to the bot, set ${name} to the userId in the log's ` +
        "warning about that, and restart; or set it to * to allow everybody",
    );
    return undefined;
  }
  const bad = list.split(",").findIndex((entry) => !ALLOWED_USER.test(entry.trim()));
  if (bad >= 0) throw new VariableError(`${name}: entry ${bad + 1} is neither a user id nor *`);
  return list;
}

/**
 * Reads a whole number.
 *
 * @param variables The variables.
 * @param name The variable's name.
 * @param options `fallback` is the number to use if the variable is not set, or blank; `max` is the largest
 * number allowed. The smallest is 0.
 * @returns The number.
 * @throws {VariableError} If the variable is not a whole number in that range.
 */
export function readInteger(
  variables: AppVariables,
  name: string,
  { fallback, max }: { readonly fallback: number; readonly max: number },
): number {
  const text = variables.get(name)?.trim();
  if (!text) return fallback;
  if (/^\d{1,10}$/.test(text) && Number(text) <= max) return Number(text);
  throw new VariableError(`${name} must be a whole number from 0 to ${max}`);
}

/**
 * Reads the notifier that wakes workers.
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
 * Reads the form of the log's records.
 *
 * @param variables The variables.
 * @param name The variable's name.
 * @returns The form. `auto` is `text` on a terminal, else `json`.
 * @throws {VariableError} If it is none of `auto`, `json` and `text`.
 */
export function readLogFormat(
  variables: Pick<AppVariables, "get">,
  name: string,
): "json" | "text" | "auto" {
  const format = variables.get(name)?.trim() || "auto";
  if (format === "json" || format === "text" || format === "auto") return format;
  throw new VariableError(`${name} must be auto, json or text`);
}

/**
 * Tells whether the app runs on Deno Deploy.
 *
 * @param variables The variables.
 * @returns True if the variable that the platform sets says so.
 */
export function onDeploy(variables: Pick<AppVariables, "get">): boolean {
  // Since August 2025 the platform's documents have given its value as 1 as well.
  return ["true", "1"].includes(variables.get("DENO_DEPLOY") ?? "");
}

/**
 * Refuses the variable that makes Deno take the client's address from a header. On Deno Deploy the
 * platform sets that header. Elsewhere any client can choose its address with it, and a malformed header
 * ends the process (Deno 2.9.6).
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
