/**
 * GitHub, GitLab, Gitea and Forgejo: their secrets and headers, what they sign, and what their payloads say.
 *
 * @module
 */
import { type EnvSpec, secretName, VariableError } from "../core/env.ts";
import type { JsonObject } from "../core/parse_json.ts";
import type { ForgeEvents, GithubEvents, GitlabEvents } from "../events/router/mod.ts";
import type { Delivery } from "../events/store/mod.ts";
import { firstField, FORM_TYPE, formField, type Parts } from "./form.ts";
import {
  checkPlatformOptions,
  definePlatform,
  deliveryOf,
  type ParsedDelivery,
  type Platform,
  type PlatformOptions,
  PRODUCT,
  variableOf,
} from "./platform.ts";
import {
  checkDeliveryId,
  checkEventType,
  integerOf,
  invalidBody,
  keyOf,
  mediaTypeOf,
  missingType,
  objectOf,
  parseJsonObject,
  repositoryOf,
  senderOf,
  textOf,
} from "./readers.ts";
import { checkSecrets, type FlawOf, flawOfToken, optionalSecret } from "./secrets.ts";
import { type Credentials, Verifier } from "./verifier.ts";
import { HUB_SCHEME, isStandardSecret, standardKeyOf, standardScheme } from "./verify_signature.ts";

/**
 * Options of {@linkcode forge} and {@linkcode gitlab}. {@linkcode github} and {@linkcode gitea} have the same,
 * without `tokens`. In code, secrets or tokens are enough.
 *
 * @category Platforms
 */
export interface ForgeOptions extends PlatformOptions {
  /**
   * Secrets that deliveries are signed with: several while one is being replaced. A secret that begins
   * with `whsec_` is a signing token of GitLab, with its key in base64.
   *
   * @default {undefined} The variable's; none if `tokens` are given.
   */
  readonly secrets?: readonly string[] | undefined;
  /**
   * Tokens that GitLab sends along in `X-Gitlab-Token` if it does not sign. The token travels with each delivery, and
   * anybody who reads it once can send any. So tokens are separate from `secrets`, and
   * a token must not be a secret as well.
   *
   * @default {undefined} The variable's; none if `secrets` are given.
   */
  readonly tokens?: readonly string[] | undefined;
}

/** Headers with a value, each with the product that sends it. The first that is present counts. */
type Names = readonly (readonly [header: string, source: string])[];

/** Parts of a platform that differ between code hosts. */
interface ForgeProduct {
  readonly name: string;
  /** Headers with the event's type. */
  readonly event: Names;
  /** Headers with the delivery id. */
  readonly delivery: Names;
  readonly credentials: Credentials;
  readonly flawOf: FlawOf;
  /** Secrets that the test kit signs with, the current one first. */
  readonly testSecrets: readonly ("signing" | "gitlab")[];
}

/** Largest payload of a code host: GitHub's limit. */
const MAX_BODY_BYTES = 25 * 1024 * 1024;

const JSON_TYPE = "application/json";

/** Field of a form that holds the JSON document. */
const DOCUMENT_FIELD = "payload";

/** GitLab's spelling of event types: `Merge Request Hook`. */
const GITLAB_TYPE = /^[A-Za-z]+(?: [A-Za-z]+)* Hook$/;

/** Start of a public or private key of the Standard Webhooks specification. */
const NO_SECRET = /^wh[ps]k_/;

/** GitHub signs a form, and not the document in it. */
const GITHUB_CREDENTIALS: Credentials = { schemes: [HUB_SCHEME], tokens: [] };

const GITLAB_CREDENTIALS: Credentials = {
  schemes: [standardScheme(isStandardSecret, ["webhook"])],
  tokens: ["X-Gitlab-Token"],
};

const GITHUB: ForgeProduct = {
  ...{ name: "github", event: named("GitHub-Event"), delivery: named("GitHub-Delivery") },
  ...{ credentials: GITHUB_CREDENTIALS, flawOf: () => undefined, testSecrets: ["signing"] },
};

const GITEA: ForgeProduct = {
  ...{ ...GITHUB, name: "gitea", credentials: { ...GITHUB_CREDENTIALS, signedDocumentOf } },
  event: named("Forgejo-Event", "Gitea-Event"),
  delivery: named("Forgejo-Delivery", "Gitea-Delivery"),
};

const GITLAB: ForgeProduct = {
  ...{ name: "gitlab", event: named("Gitlab-Event"), credentials: GITLAB_CREDENTIALS },
  delivery: [["webhook-id", "gitlab"], ["Idempotency-Key", "gitlab"]],
  ...{ flawOf: flawOfGitlabSecret, testSecrets: ["gitlab"] },
};

/**
 * All code hosts, and the contract of this package. Gitea also sends GitHub's headers, and Forgejo both theirs:
 * a product's name comes before the names that it borrows.
 */
const FORGE: ForgeProduct = {
  name: "forge",
  event: [...named("Forge-Event"), ...GITEA.event, ...GITHUB.event, ...GITLAB.event],
  // The signed one comes first: otherwise one delivery with another id beside it could be sent twice.
  delivery: [
    ["webhook-id", "gitlab"],
    ...[...named("Forge-Delivery"), ...GITEA.delivery, ...GITHUB.delivery],
    ["Idempotency-Key", "gitlab"],
  ],
  credentials: {
    ...GITLAB_CREDENTIALS,
    schemes: [HUB_SCHEME, ...GITLAB_CREDENTIALS.schemes],
    signedDocumentOf,
  },
  ...{ flawOf: flawOfSecret, testSecrets: ["signing", "gitlab"] },
};

/** Signatures and tokens of all code hosts. */
export const FORGE_CREDENTIALS: Credentials = FORGE.credentials;

function named(...headers: readonly `${string}-${string}`[]): Names {
  return headers.map((header) => [`X-${header}`, header.split("-")[0]!.toLowerCase()]);
}

/**
 * Makes the platform of a code host: GitHub, GitLab, Gitea or Forgejo, whichever sends. It reads
 * `FORGE_WEBHOOK_SECRET` or, for GitLab's secret token, `FORGE_WEBHOOK_TOKEN`; during a rotation both with
 * `_PREVIOUS`. With another `name` the variables begin with that name.
 *
 * A delivery is verified in one of the ways of {@linkcode verifyForgeDelivery}.
 *
 * @typeParam TEvents The payloads by type. By default the payloads of all these code hosts.
 * @param options Its name, path, limits and ordering, and secrets in code.
 * @returns The platform.
 * @throws {TypeError} If an option has the wrong type, or a secret cannot be used.
 * @throws {RangeError} If a limit is out of range.
 * @category Platforms
 */
export function forge<TEvents extends object = ForgeEvents>(
  options?: ForgeOptions,
): Platform<TEvents> {
  return forgePlatform(FORGE, options);
}

/**
 * Makes the platform of GitHub. It reads `GITHUB_WEBHOOK_SECRET`, during a rotation also with `_PREVIOUS`.
 * With another `name` the variable begins with that name.
 *
 * @typeParam TEvents The payloads by type. By default the ones that GitHub publishes.
 * @param options Its name, path, limits and ordering, and secrets in code.
 * @returns The platform.
 * @throws {TypeError} If an option has the wrong type, or a secret cannot be used.
 * @throws {RangeError} If a limit is out of range.
 * @category Platforms
 */
export function github<TEvents extends object = GithubEvents>(
  options?: Omit<ForgeOptions, "tokens">,
): Platform<TEvents> {
  return forgePlatform(GITHUB, options);
}

/**
 * Makes the platform of Gitea and Forgejo. It reads `GITEA_WEBHOOK_SECRET`, during a rotation also with
 * `_PREVIOUS`. With another `name` the variable begins with that name.
 *
 * @typeParam TEvents The payloads by type. By default GitHub's: Gitea's and Forgejo's are like them.
 * @param options Its name, path, limits and ordering, and secrets in code.
 * @returns The platform.
 * @throws {TypeError} If an option has the wrong type, or a secret cannot be used.
 * @throws {RangeError} If a limit is out of range.
 * @category Platforms
 */
export function gitea<TEvents extends object = GithubEvents>(
  options?: Omit<ForgeOptions, "tokens">,
): Platform<TEvents> {
  return forgePlatform(GITEA, options);
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
  return forgePlatform(GITLAB, options);
}

function flawOfSecret(secret: string): string | undefined {
  if (NO_SECRET.test(secret)) {
    return "begins with whpk_ or whsk_: it is a key of Ed25519, and not a secret";
  }
  if (!isStandardSecret(secret) || standardKeyOf(secret)) return undefined;
  return "begins with whsec_ and is not base64";
}

function flawOfGitlabSecret(secret: string): string | undefined {
  if (isStandardSecret(secret)) return flawOfSecret(secret);
  return "does not begin with whsec_, as GitLab's signing tokens do: a secret token belongs into the tokens";
}

function forgePlatform<TEvents extends object>(
  product: ForgeProduct,
  options: ForgeOptions = {},
): Platform<TEvents> {
  const { credentials, flawOf, testSecrets: [current, previous] } = product;
  const hasTokens = credentials.tokens.length > 0;
  checkPlatformOptions(product.name, options, ["secrets", "tokens"]);
  const { name = product.name, secrets, tokens, ...shared } = options;
  const inCode = secrets !== undefined || tokens !== undefined;
  if (inCode) checkForgeSecrets(`define the platform '${name}'`, product, secrets, tokens);
  const [secret, token] = [variableOf(name, "secret"), variableOf(name, "token")];
  const platform = definePlatform<TEvents, EnvSpec>({
    ...{ maxBodyBytes: MAX_BODY_BYTES, ...shared, name, kind: "forge" },
    env: inCode ? {} : {
      [secret]: optionalSecret(flawOf),
      ...(hasTokens && { [token]: optionalSecret(flawOfToken) }),
    },
    createVerifier: (env) => {
      if (inCode) return new Verifier(credentials, secrets ?? [], tokens ?? []).verifyHead;
      const { [secret]: read = [], [token]: sent = [] } = env as Record<string, readonly string[]>;
      if (read.length + sent.length === 0) throw new VariableError(`${secret} is not set`);
      const flaw = flawOfBoth(
        read,
        sent,
        (i) => secretName(secret, i),
        (i) => secretName(token, i),
      );
      if (flaw) throw new VariableError(flaw);
      return new Verifier(credentials, read, sent).verifyHead;
    },
    parse: (headers, body) => readDelivery(product, headers, body),
    testSecrets: {
      [secret]: current!,
      ...(previous && { [secretName(secret, 1)]: previous }),
      ...(hasTokens && { [token]: "gitlabToken" }),
    },
  });
  return Object.assign(platform, { [PRODUCT]: product.name });
}

function checkForgeSecrets(
  doing: string,
  { credentials, flawOf }: ForgeProduct,
  secrets: readonly string[] = [],
  tokens: readonly string[] = [],
): void {
  if (credentials.tokens.length === 0 && !isEmpty(tokens)) {
    throw new TypeError(
      `Cannot ${doing}: 'tokens' are GitLab's: this platform's deliveries are signed`,
    );
  }
  if (!isEmpty(tokens)) checkSecrets(doing, tokens, flawOfToken, "tokens");
  if (!isEmpty(secrets) || isEmpty(tokens)) checkSecrets(doing, secrets, flawOf);
  const flaw = flawOfBoth(secrets, tokens, (i) => `secret ${i + 1}`, (i) => `token ${i + 1}`);
  if (flaw) throw new TypeError(`Cannot ${doing}: ${flaw}`);
}

/** Finds a token that is a secret as well. */
function flawOfBoth(
  secrets: readonly string[],
  tokens: readonly string[],
  secretAt: (index: number) => string,
  tokenAt: (index: number) => string,
): string | undefined {
  const both = tokens.findIndex((token) => secrets.includes(token));
  if (both < 0) return undefined;
  return `${tokenAt(both)} is the same as ${
    secretAt(secrets.indexOf(tokens[both]!))
  }: a token is sent with ` +
    "each request, a secret must not be";
}

function isEmpty(list: unknown): boolean {
  return Array.isArray(list) && list.length === 0;
}

/**
 * Verifies that a delivery was sent by somebody who knows one of the secrets. The strongest credential
 * that the request brings, and that there is a secret for, decides alone: a weaker one beside it does not
 * make up for it.
 *
 * - `X-Hub-Signature-256` (GitHub, Gitea, Forgejo): HMAC-SHA256 over the body as it was sent or, for a
 *   form, over the JSON document in it, as Gitea and Forgejo sign.
 * - `webhook-signature` (GitLab with a signing token), checked with the secrets that begin with `whsec_`:
 *   over id, time and body, and not older than 5 minutes.
 * - `X-Gitlab-Token` (GitLab with a secret token), only if there are `tokens`: it travels with each
 *   delivery, and does not cover the body.
 *
 * @param headers The request's headers.
 * @param body The request's body.
 * @param secrets The secrets that deliveries are signed with. All are always tried.
 * @param tokens The tokens that are sent along. All are always tried.
 * @returns The secret or token that has verified it, such as `secret 1`, by its position.
 * @throws {HttpError} 401 `MISSING_SIG` (without secrets `MISSING_TOKEN`) if it brings no credential;
 * 401 `INVALID_SIG`, `INVALID_TOKEN` or `STALE_SIG` if the credential is not right, or not recent.
 * @category Steps of an intake
 */
export function verifyForgeDelivery(
  headers: Headers,
  body: Uint8Array<ArrayBuffer>,
  secrets: readonly string[],
  tokens: readonly string[] = [],
): string {
  return new Verifier(FORGE_CREDENTIALS, secrets, tokens).verify(headers, body);
}

/** Reads the document in a form, which Gitea and Forgejo sign instead of the form. */
function signedDocumentOf(
  headers: Headers,
  body: Uint8Array<ArrayBuffer>,
  partBytes: number,
): Parts | undefined {
  const type = headers.get("Content-Type")?.toLowerCase();
  return type?.startsWith(FORM_TYPE) ? firstField(body, DOCUMENT_FIELD, partBytes) : undefined;
}

/**
 * Makes the delivery of a verified request.
 *
 * @param headers The request's headers.
 * @param body The request's body: JSON, or a form with the JSON document in its field `payload`.
 * @returns The delivery.
 * @throws {HttpError} 415 `UNSUPPORTED_MEDIA_TYPE`, 400 `MISSING_EVENT`, `INVALID_EVENT`,
 * `INVALID_DELIVERY` or `INVALID_BODY`.
 * @category Steps of an intake
 */
export function parseForgeDelivery(headers: Headers, body: Uint8Array<ArrayBuffer>): Delivery {
  return deliveryOf({ name: "forge", kind: "forge" }, readDelivery(FORGE, headers, body), body);
}

function readDelivery(
  { event, delivery }: ForgeProduct,
  headers: Headers,
  body: Uint8Array<ArrayBuffer>,
): ParsedDelivery {
  const isJson = mediaTypeOf(headers, [JSON_TYPE, FORM_TYPE]) === JSON_TYPE;
  const { sent, source } = firstOf(headers, event) ?? {};
  if (!sent || !source) throw missingType();
  const type = checkEventType(source === "gitlab" ? typeOf(sent) : sent);
  const id = firstOf(headers, delivery)?.sent;
  const deliveryId = id === undefined ? undefined : checkDeliveryId(id);
  const document = isJson ? body : formField(body, DOCUMENT_FIELD);
  if (!document) throw invalidBody(`Form must have one field '${DOCUMENT_FIELD}' in UTF-8`);
  const payload = parseJsonObject(document);
  return { source, type, deliveryId, ...subjectsOf(payload), body: document, payload };
}

/** Reads the first of some headers that a request has. */
function firstOf(
  headers: Headers,
  names: Names,
): { readonly sent: string; readonly source: string } | undefined {
  // Taken apart in the head of the loop, each pair would make an iterator.
  for (const named of names) {
    const sent = headers.get(named[0]);
    if (sent !== null) return { sent, source: named[1] };
  }
  return undefined;
}

/** Makes `merge_request` of `Merge Request Hook`: all others write types so. */
function typeOf(type: string): string {
  if (!GITLAB_TYPE.test(type)) return type;
  return type.slice(0, -" Hook".length).replaceAll(" ", "_").toLowerCase();
}

/**
 * Reads the action, the repository and the user behind the event: from `action`, `repository` and `sender`, or
 * from GitLab's `object_attributes`, `project`, and `user` or `user_id`.
 */
export function subjectsOf(
  payload: JsonObject,
): Pick<ParsedDelivery, "action" | "repository" | "sender"> {
  const [repository, project] = [objectOf(payload.repository), objectOf(payload.project)];
  const [sender, user] = [objectOf(payload.sender), objectOf(payload.user)];
  return {
    action: textOf(payload.action) ?? textOf(objectOf(payload.object_attributes).action),
    repository: repositoryOf({
      id: integerOf(repository.id) ?? project.id,
      fullName: textOf(repository.full_name) ?? project.path_with_namespace,
    }),
    sender: senderOf({
      id: integerOf(sender.id) ?? integerOf(user.id) ?? payload.user_id,
      name: textOf(sender.login) ?? textOf(user.username) ?? payload.user_username,
      isBot: sender.type === "Bot",
    }),
  };
}

/**
 * Groups a forge's events by repository. A payload may name one without describing a whole
 * {@linkcode EventRepository}.
 *
 * @param delivery The delivery.
 * @returns The repository's id or full name; undefined for an event without a repository.
 * @category Platforms
 */
export function byRepository({ payload }: Delivery): string | undefined {
  const { id, full_name: name } = objectOf(payload.repository);
  return keyOf(id) ?? keyOf(name) ?? keyOf(objectOf(payload.project).id);
}
