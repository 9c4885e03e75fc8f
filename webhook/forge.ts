import {
  type EnvSpec,
  type EnvVariable,
  readSecrets,
  secretName,
  VariableError,
} from "../core/env.ts";
import type { ForgeEvents, GithubEvents, GitlabEvents } from "../events/router/mod.ts";
import { checkEach, checkSecrets, checkTokens, flawOfSecret, flawOfToken } from "./check_intake.ts";
import {
  checkPlatformOptions,
  makePlatform,
  type Platform,
  type PlatformOptions,
  prefixOf,
  type TestSecretName,
} from "./platform.ts";
import {
  FORGE_HEADERS,
  type ForgeHeaders,
  GITEA_HEADERS,
  GITHUB_HEADERS,
  GITLAB_HEADERS,
  readForgeDelivery,
  signedDocumentOf,
} from "./platforms/forge.ts";
import { type Credentials, type VerifiedBy, Verifier } from "./verifier.ts";
import { hubScheme, isStandardSecret, STANDARD_SCHEME } from "./verify_signature.ts";

/** Largest payload of a code host: GitHub's limit. */
const MAX_BODY_BYTES = 25 * 1024 * 1024;

/**
 * Options of {@linkcode github} and {@linkcode gitea}.
 *
 * @category Platforms
 */
export interface GithubOptions extends PlatformOptions {
  /**
   * Secrets that deliveries are signed with: several while one is being replaced.
   *
   * @default {undefined} Those of the variable.
   */
  readonly secrets?: readonly string[] | undefined;
}

/**
 * Options of {@linkcode forge} and {@linkcode gitlab}. Given in code, secrets or tokens are enough.
 *
 * @category Platforms
 */
export interface ForgeOptions extends GithubOptions {
  /**
   * Secrets that deliveries are signed with: several while one is being replaced. A secret that begins
   * with `whsec_` is a signing token of GitLab, with its key in base64.
   *
   * @default {undefined} Those of the variable; none if `tokens` are given.
   */
  readonly secrets?: readonly string[] | undefined;
  /**
   * Tokens that GitLab sends along in `X-Gitlab-Token` if it does not sign. Such a token travels with
   * each delivery, and whoever reads it once can send any. So tokens are separate from `secrets`, and
   * none of them may be a secret as well.
   *
   * @default {undefined} Those of the variable; none if `secrets` are given.
   */
  readonly tokens?: readonly string[] | undefined;
}

/** Secrets and tokens that deliveries are verified with. */
interface ForgeSecrets {
  readonly secrets: readonly string[];
  readonly tokens: readonly string[];
}

/** The parts of a platform that differ between code hosts. */
interface ForgeProduct {
  readonly name: string;
  readonly headers: ForgeHeaders;
  readonly credentials: Credentials;
  /** Finds out why a secret cannot be used. */
  readonly flawOf: (secret: string) => string | undefined;
  /** True if it may send a token in the place of a signature. */
  readonly hasTokens: boolean;
  /** The secrets that the test kit signs with. */
  readonly testSecrets: readonly TestSecretName[];
}

const HUB_SCHEME = hubScheme("X-Hub-Signature-256");

/** GitHub signs a form, and not the document in it. */
const GITHUB_CREDENTIALS: Credentials = { schemes: [HUB_SCHEME], tokens: [], tokenName: "token" };

const GITEA_CREDENTIALS: Credentials = { ...GITHUB_CREDENTIALS, signedDocumentOf };

const GITLAB_CREDENTIALS: Credentials = {
  schemes: [STANDARD_SCHEME],
  tokens: ["X-Gitlab-Token"],
  tokenName: "token",
};

/** Signatures and tokens of all code hosts. */
export const FORGE_CREDENTIALS: Credentials = {
  ...GITLAB_CREDENTIALS,
  schemes: [HUB_SCHEME, STANDARD_SCHEME],
  signedDocumentOf,
};

/**
 * Makes the platform of a code host: GitHub, GitLab, Gitea or Forgejo, whichever sends. It reads
 * `FORGE_WEBHOOK_SECRET` or, for GitLab's secret token, `FORGE_WEBHOOK_TOKEN`; during a rotation both with
 * `_PREVIOUS`. With another `name` the variables begin with that name.
 *
 * A delivery is verified in one of the ways of {@linkcode verifyForgeDelivery}.
 *
 * @typeParam TEvents The payloads by type. By default those of all these code hosts.
 * @param options Its name, path, limits and ordering, and secrets in code.
 * @returns The platform.
 * @throws {TypeError} If an option has the wrong type, or a secret cannot be used.
 * @throws {RangeError} If a limit is out of range.
 * @category Platforms
 */
export function forge<TEvents extends object = ForgeEvents>(
  options?: ForgeOptions,
): Platform<TEvents> {
  return forgePlatform({
    ...{ name: "forge", headers: FORGE_HEADERS, credentials: FORGE_CREDENTIALS },
    ...{ flawOf: flawOfSecret, hasTokens: true },
    testSecrets: ["signing", "gitlab"],
  }, options);
}

/**
 * Makes the platform of GitHub. It reads `GITHUB_WEBHOOK_SECRET`, during a rotation also with `_PREVIOUS`.
 * With another `name` the variable begins with that name.
 *
 * @typeParam TEvents The payloads by type. By default those that GitHub publishes.
 * @param options Its name, path, limits and ordering, and secrets in code.
 * @returns The platform.
 * @throws {TypeError} If an option has the wrong type, or a secret cannot be used.
 * @throws {RangeError} If a limit is out of range.
 * @category Platforms
 */
export function github<TEvents extends object = GithubEvents>(
  options?: GithubOptions,
): Platform<TEvents> {
  return forgePlatform({
    ...{ name: "github", headers: GITHUB_HEADERS, credentials: GITHUB_CREDENTIALS },
    ...{ flawOf: () => undefined, hasTokens: false },
    testSecrets: ["signing"],
  }, options);
}

/**
 * Makes the platform of Gitea and Forgejo. It reads `GITEA_WEBHOOK_SECRET`, during a rotation also with
 * `_PREVIOUS`. With another `name` the variable begins with that name.
 *
 * @typeParam TEvents The payloads by type. By default those of GitHub, which Gitea's and Forgejo's are like.
 * @param options Its name, path, limits and ordering, and secrets in code.
 * @returns The platform.
 * @throws {TypeError} If an option has the wrong type, or a secret cannot be used.
 * @throws {RangeError} If a limit is out of range.
 * @category Platforms
 */
export function gitea<TEvents extends object = GithubEvents>(
  options?: GithubOptions,
): Platform<TEvents> {
  return forgePlatform({
    ...{ name: "gitea", headers: GITEA_HEADERS, credentials: GITEA_CREDENTIALS },
    ...{ flawOf: () => undefined, hasTokens: false },
    testSecrets: ["signing"],
  }, options);
}

/**
 * Makes the platform of GitLab. It reads its signing token from `GITLAB_WEBHOOK_SECRET`, or its secret token
 * from `GITLAB_WEBHOOK_TOKEN`; during a rotation both with `_PREVIOUS`. With another `name` the variables
 * begin with that name.
 *
 * @typeParam TEvents The payloads by type. By default GitLab's.
 * @param options Its name, path, limits and ordering, and secrets in code.
 * @returns The platform.
 * @throws {TypeError} If an option has the wrong type, or a secret cannot be used.
 * @throws {RangeError} If a limit is out of range.
 * @category Platforms
 */
export function gitlab<TEvents extends object = GitlabEvents>(
  options?: ForgeOptions,
): Platform<TEvents> {
  return forgePlatform({
    ...{ name: "gitlab", headers: GITLAB_HEADERS, credentials: GITLAB_CREDENTIALS },
    ...{ flawOf: flawOfGitlabSecret, hasTokens: true },
    testSecrets: ["gitlab"],
  }, options);
}

function flawOfGitlabSecret(secret: string): string | undefined {
  if (isStandardSecret(secret)) return flawOfSecret(secret);
  return "does not begin with whsec_, as GitLab's signing tokens do: a secret token belongs into the tokens";
}

function forgePlatform<TEvents extends object>(
  product: ForgeProduct,
  options: ForgeOptions = {},
): Platform<TEvents> {
  checkPlatformOptions(product.name, options, ["secrets", "tokens"]);
  const { name = product.name, secrets, tokens, ...shared } = options;
  const { headers: names, credentials } = product;
  const inCode = secrets !== undefined || tokens !== undefined;
  if (inCode) checkForgeSecrets(name, product, secrets ?? [], tokens ?? []);
  const [secretVariable, tokenVariable] = variableNames(name);
  return makePlatform<TEvents, EnvSpec>({
    ...{ ...shared, name, kind: "forge" },
    maxBodyBytes: shared.maxBodyBytes ?? MAX_BODY_BYTES,
    env: inCode ? {} : {
      [secretVariable]: rotated(product.flawOf),
      ...(product.hasTokens ? { [tokenVariable]: rotated(flawOfToken) } : {}),
    },
    createVerifier: (env) => {
      const known = inCode
        ? { secrets: secrets ?? [], tokens: tokens ?? [] }
        : secretsOf(name, env as Readonly<Record<string, readonly string[] | undefined>>);
      return new Verifier(credentials, known.secrets, known.tokens).verifyHead;
    },
    parse: (headers, body) => readForgeDelivery(names, headers, body),
  }, testSecretsOf(name, product));
}

function variableNames(name: string): readonly [secret: string, token: string] {
  const prefix = prefixOf(name);
  return [`${prefix}_WEBHOOK_SECRET`, `${prefix}_WEBHOOK_TOKEN`];
}

/** Makes a variable with a secret that need not be set. A blank one is an error all the same. */
function rotated(
  flawOf: (secret: string) => string | undefined,
): EnvVariable<readonly string[] | undefined> {
  return {
    read(name, variables) {
      // The old one is asked for in any case: all that may not be read is reported at once.
      const [secret] = [0, 1].map((position) => variables.get(secretName(name, position)));
      return secret === undefined ? undefined : readSecrets(name, variables, flawOf);
    },
  };
}

/** Checks secrets and tokens together: one of the two is enough, and no token may be a secret as well. */
function secretsOf(
  name: string,
  env: Readonly<Record<string, readonly string[] | undefined>>,
): ForgeSecrets {
  const [secret, token] = variableNames(name);
  const { [secret]: secrets = [], [token]: tokens = [] } = env;
  if (secrets.length + tokens.length === 0) throw new VariableError(`${secret} is not set`);
  const both = tokens.findIndex((each) => secrets.includes(each));
  if (both < 0) return { secrets, tokens };
  const isAs = secretName(secret, secrets.indexOf(tokens[both]!));
  const named = secretName(token, both);
  throw new VariableError(
    `${named} is the same as ${isAs}: a token is sent with each request, a secret must not be`,
  );
}

function testSecretsOf(
  name: string,
  { testSecrets: [current, previous], hasTokens }: ForgeProduct,
): Platform["testSecrets"] {
  const [secret, token] = variableNames(name);
  return {
    [secret]: current!,
    ...(previous === undefined ? {} : { [secretName(secret, 1)]: previous }),
    ...(hasTokens ? { [token]: "gitlabToken" } : {}),
  };
}

/**
 * Verifies that a delivery was sent by somebody who knows one of the secrets. The strongest credential
 * that the request brings, and that there is a secret for, decides alone: a weaker one beside it does not
 * make up for it.
 *
 * - `X-Hub-Signature-256` (GitHub, Gitea, Forgejo): HMAC-SHA256 over the body as it was sent or, for a
 *   form, over the JSON document in it, which is what Gitea and Forgejo sign.
 * - `webhook-signature` (GitLab with a signing token), checked with the secrets that begin with `whsec_`:
 *   over id, time and body, and not older than 5 minutes.
 * - `X-Gitlab-Token` (GitLab with a secret token), only if there are `tokens`: it travels with each
 *   delivery, and does not cover the body.
 *
 * @param headers The request's headers.
 * @param body The request's body.
 * @param secrets The secrets that deliveries are signed with. All are always tried.
 * @param tokens The tokens that are sent along. All are always tried.
 * @returns The secret or token that has verified it.
 * @throws {HttpError} 401 `MISSING_SIG` (without secrets `MISSING_TOKEN`) if it brings no credential;
 * 401 `INVALID_SIG`, `INVALID_TOKEN` or `STALE_SIG` if the credential is not right, or not recent.
 * @category Steps of an intake
 */
export function verifyForgeDelivery(
  headers: Headers,
  body: Uint8Array<ArrayBuffer>,
  secrets: readonly string[],
  tokens: readonly string[] = [],
): VerifiedBy {
  return new Verifier(FORGE_CREDENTIALS, secrets, tokens).verify(headers, body);
}

function checkForgeSecrets(
  name: string,
  { flawOf, hasTokens }: ForgeProduct,
  secrets: readonly string[],
  tokens: readonly string[],
): void {
  const doing = `define the platform '${name}'`;
  if (!hasTokens && !isEmpty(tokens)) {
    throw new TypeError(
      `Cannot ${doing}: 'tokens' are GitLab's: this platform's deliveries are signed`,
    );
  }
  if (!isEmpty(tokens)) checkTokens(doing, tokens, "tokens");
  if (!isEmpty(secrets) || isEmpty(tokens)) checkSecrets(doing, secrets);
  const both = tokens.findIndex((token) => secrets.includes(token));
  if (both >= 0) {
    throw new TypeError(
      `Cannot ${doing}: token ${both + 1} is a secret as well: it would be sent along`,
    );
  }
  checkEach(doing, secrets, "secrets", flawOf);
}

function isEmpty(list: unknown): boolean {
  return Array.isArray(list) && list.length === 0;
}
