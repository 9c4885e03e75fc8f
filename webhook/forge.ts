import type { Hono } from "@hono/hono";
import { met } from "../core/check_options.ts";
import {
  checkEach,
  checkIntakeOptions,
  checkSecrets,
  checkTokens,
  flawOfSecret,
} from "./check_intake.ts";
import { createIntake, type IntakeOptions } from "./intake.ts";
import { FORGE_CREDENTIALS, parseForgeDelivery } from "./platforms/forge.ts";
import { type VerifiedBy, Verifier } from "./verifier.ts";

/** Largest payload of a code host: GitHub's limit. */
const MAX_BODY_BYTES = 25 * 1024 * 1024;

/** Options of {@linkcode createForgeIntake}. */
export interface ForgeIntakeOptions extends IntakeOptions {
  /**
   * The secrets that deliveries are signed with: several while one is being replaced. A secret that begins
   * with `whsec_` is a signing token of GitLab, with its key in base64.
   *
   * @default {[]} None: then `tokens` are required.
   */
  readonly secrets?: readonly string[] | undefined;
  /**
   * The tokens that GitLab sends along in `X-Gitlab-Token` if it does not sign. Such a token travels with
   * each delivery, and whoever reads it once can send any. So tokens are separate from `secrets`, and
   * none of them may be a secret as well.
   *
   * @default {[]} None: a delivery that is not signed is refused.
   */
  readonly tokens?: readonly string[] | undefined;
  /**
   * Time during which the same document is a duplicate, in milliseconds, whatever delivery id it has: it
   * is answered 200, and does not create a second event. The signature of GitHub, Gitea and Forgejo covers only the
   * body, so whoever has captured a delivery can send it again with a fresh id. At most the store's
   * {@linkcode EventStoreOptions.retentionMs}: for a longer window, set a longer retention.
   *
   * Off by default, because forges send equal documents on purpose, such as test deliveries. A document
   * whose event has died is accepted again.
   *
   * @default {undefined} Only the delivery id counts.
   */
  readonly replayWindowMs?: number | undefined;
  /**
   * Largest body, in bytes.
   *
   * @default {26_214_400} 25 MiB.
   */
  readonly maxBodyBytes?: number | undefined;
}

/**
 * Makes the app that accepts a code host's events at `POST /webhook`.
 *
 * A request is answered 200 `OK` once its event is stored; 401 if it is not verified in one of the ways of
 * {@linkcode verifyForgeDelivery}; 400, 413, 415 or 408 if it is verified but is not a delivery; 503
 * `QUEUE_UNAVAILABLE` if the store cannot accept it.
 *
 * @param options The secrets and the store.
 * @returns An app to mount with `app.route("/", ...)`.
 * @throws {TypeError} If there is no secret and no token, or one is blank or cannot be used.
 * @throws {RangeError} If a limit is out of range, or is more than the store can hold or remembers.
 *
 * @example
 * ```ts
 * import { createBaseApp, createForgeIntake, openEventStore } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * using kv = await Deno.openKv(":memory:");
 * const store = await openEventStore(kv);
 * const app = createBaseApp({ name: "forge", logger: false });
 * app.route("/", createForgeIntake({ secrets: ["It's a Secret to Everybody"], store }));
 *
 * const response = await app.request("/webhook", { method: "POST", body: "{}" });
 * assertEquals(response.status, 401);
 * assertEquals(await response.json(), { error: "Missing signature" });
 * ```
 */
export function createForgeIntake(options: ForgeIntakeOptions): Hono {
  checkIntakeOptions("forge", options);
  const { secrets = [], tokens = [], maxBodyBytes = MAX_BODY_BYTES, replayWindowMs } = options;
  checkForgeSecrets(secrets, tokens);
  if (replayWindowMs !== undefined) checkReplayWindow(replayWindowMs, options.store.retentionMs);
  return createIntake(
    {
      name: "forge",
      maxBodyBytes,
      replayWindowMs,
      hasSeveralSecrets: secrets.length + tokens.length > 1,
      verifier: new Verifier(FORGE_CREDENTIALS, secrets, tokens),
      parse: parseForgeDelivery,
    },
    options,
  );
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
 */
export function verifyForgeDelivery(
  headers: Headers,
  body: Uint8Array<ArrayBuffer>,
  secrets: readonly string[],
  tokens: readonly string[] = [],
): VerifiedBy {
  return new Verifier(FORGE_CREDENTIALS, secrets, tokens).verify(headers, body);
}

/** A document whose event is forgotten cannot be told from one whose event was never stored. */
function checkReplayWindow(windowMs: number, retentionMs: number): void {
  if (Number.isFinite(windowMs) && windowMs >= 1 && windowMs <= retentionMs) return;
  throw new RangeError(
    `Cannot create the forge intake: 'replayWindowMs' must be from 1 to ${retentionMs}, the ` +
      `store's 'retentionMs', got ${met(windowMs)}`,
  );
}

function checkForgeSecrets(secrets: readonly string[], tokens: readonly string[]): void {
  if (!isEmpty(tokens)) checkTokens("forge", tokens, "tokens");
  if (!isEmpty(secrets) || isEmpty(tokens)) checkSecrets("forge", secrets);
  const both = tokens.findIndex((token) => secrets.includes(token));
  if (both >= 0) {
    throw new TypeError(
      `Cannot create the forge intake: token ${
        both + 1
      } is a secret as well: it would be sent along`,
    );
  }
  checkEach("forge", secrets, "secrets", flawOfSecret);
}

function isEmpty(list: unknown): boolean {
  return Array.isArray(list) && list.length === 0;
}
