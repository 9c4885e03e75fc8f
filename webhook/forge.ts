import type { Hono } from "@hono/hono";
import { checkEach, checkSecrets, checkTokens } from "./_check_secrets.ts";
import { flawOfSecret } from "./flaw_of_secret.ts";
import { Slices } from "./_slices.ts";
import { checkIntakeOptions, createIntake, type IntakeOptions } from "./intake.ts";
import { parseForgeDelivery } from "./parse_forge_delivery.ts";
import { withReplayWindow } from "./_replay_window.ts";
import { type SignedDelivery, verifyForgeHead, verifySigned } from "./verify_forge_delivery.ts";

/** The largest payload that a code host sends: GitHub's limit. */
const MAX_BODY_BYTES = 25 * 1024 * 1024;

/** Options of {@linkcode createForgeIntake}. */
export interface ForgeIntakeOptions extends IntakeOptions {
  /**
   * The secrets that deliveries are signed with: several while one is being replaced. One that begins
   * with `whsec_` is a signing token of GitLab, its key in base64.
   *
   * @default {[]} None: then there have to be `tokens`.
   */
  readonly secrets?: readonly string[] | undefined;
  /**
   * The tokens that GitLab sends along in `X-Gitlab-Token`, where it does not sign. Such a token
   * travels with each delivery: whoever reads it once can send any. So it is taken only as one of
   * these, and a secret that is signed with must not be among them.
   *
   * @default {[]} None: a delivery that is not signed is refused.
   */
  readonly tokens?: readonly string[] | undefined;
  /**
   * For how many milliseconds a document is known again, whatever delivery id it comes with: it is
   * answered 200, and makes no second event. The signature of GitHub, Gitea and Forgejo covers the body
   * alone, so whoever has captured a delivery can send it again under a fresh id. At most the store's
   * {@linkcode EventStoreOptions.retentionMs}: whoever wants more gives the store more.
   *
   * Off by default, for forges send equal documents that are meant twice, test deliveries among them. One
   * whose event has died is taken again.
   *
   * @default {undefined} Only the delivery id tells.
   */
  readonly replayWindow?: number | undefined;
  /**
   * How many bytes a body may have.
   *
   * @default {26_214_400} 25 MiB.
   */
  readonly maxBodyBytes?: number | undefined;
}

/**
 * Makes the app that takes a code host's signed events at `POST /webhook`.
 *
 * A request is answered 200 `OK` once its event is stored; 401 if it is not proved genuine, by one of
 * the ways of {@linkcode verifyForgeDelivery}; 400, 413, 415 or 408 if it is, and is no delivery; 503
 * `QUEUE_UNAVAILABLE` if the store cannot take it.
 *
 * @param options The secrets and the store.
 * @returns An app to mount with `app.route("/", ...)`.
 * @throws {TypeError} If there is no secret and no token, or one is blank or of no use.
 * @throws {RangeError} If a limit makes no sense, or is more than the store can hold or remembers.
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
  const { secrets = [], tokens = [], maxBodyBytes = MAX_BODY_BYTES, replayWindow } = options;
  checkForgeSecrets(secrets, tokens);
  const store = replayWindow === undefined
    ? options.store
    : withReplayWindow(options.store, replayWindow);
  const slices = new Slices();
  const verify = (delivery: SignedDelivery) => verifySigned(delivery, secrets, slices);
  return createIntake(
    {
      name: "forge",
      maxBodyBytes,
      hasSeveralSecrets: secrets.length + tokens.length > 1,
      verifyHead: (headers) => verifyForgeHead(headers, secrets, tokens, verify),
      parse: parseForgeDelivery,
      authorize: () => true,
    },
    { ...options, store },
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
