import { createHmac } from "node:crypto";
import { checkKeys, checkObject, met } from "../core/check_options.ts";
import { TEST_SECRETS } from "./test_secrets.ts";

/**
 * Sender of a forge's delivery: `forge` uses the headers of this package's own contract, `gitlab` is
 * GitLab with a signing token, and `gitlab-token` is GitLab with a secret token.
 *
 * @category Deliveries
 */
export type ForgeSender = "forge" | "github" | "gitea" | "forgejo" | "gitlab" | "gitlab-token";

/**
 * Request for the webhook, as `fetch` and `app.request` take it.
 *
 * @category Deliveries
 */
export interface TestDelivery {
  /** Kind or name of the platform that it is for: `forge`, `messenger`, or one of your own. */
  readonly platform: string;
  /**
   * Path that it is posted to.
   *
   * @default {undefined} That of the app's only platform of this kind.
   */
  readonly path?: string | undefined;
  /** Method. */
  readonly method: "POST";
  /** Headers. They can be changed before the delivery is sent. */
  readonly headers: Headers;
  /** Body. */
  readonly body: string | Uint8Array<ArrayBuffer>;
}

/**
 * Options of {@linkcode forgeDelivery}.
 *
 * @category Deliveries
 */
export interface ForgeDeliveryOptions {
  /**
   * Sender of the delivery.
   *
   * @default {"github"}
   */
  readonly from?: ForgeSender | undefined;
  /**
   * Secret that the delivery is signed with, or token that it carries.
   *
   * @default {TEST_SECRETS} The one of the sender.
   */
  readonly secret?: string | undefined;
  /**
   * Id of the delivery. Sending the same id again makes a duplicate.
   *
   * @default {crypto.randomUUID()}
   */
  readonly id?: string | undefined;
  /**
   * Sends the payload in a form, which GitLab does not support.
   *
   * @default {false}
   */
  readonly form?: boolean | undefined;
  /**
   * Path that the delivery is posted to.
   *
   * @default {undefined} That of the app's only platform of its kind.
   */
  readonly path?: string | undefined;
  /**
   * Time of sending, in milliseconds since the epoch. GitLab signs it.
   *
   * @default {Date.now()}
   */
  readonly sentAt?: number | undefined;
}

const DOING = "build the delivery";

/** Prefixes of the headers of each sender. Forgejo sends Gitea's as well, and both send GitHub's. */
const NAMES = {
  forge: ["Forge"],
  github: ["GitHub"],
  gitea: ["Gitea", "Gogs", "GitHub"],
  forgejo: ["Forgejo", "Gitea", "Gogs", "GitHub"],
} as const;

/**
 * Builds a delivery as a code host sends it, with its headers and its signature or token.
 *
 * @param type The event's type, such as `push` or `issues`. For GitLab it may be written `merge_request`
 * or `Merge Request Hook`.
 * @param payload The payload: an object, or a JSON document that is sent byte for byte.
 * @param options The sender, the secret, the id and the form.
 * @returns The delivery.
 * @throws {TypeError} If the type or the payload is missing, there is another option or sender, or a GitLab
 * signing token does not begin with `whsec_`.
 *
 * @example
 * ```ts
 * import { forgeDelivery } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * const delivery = forgeDelivery("push", { ref: "refs/heads/main" }, { from: "gitea" });
 * assertEquals(delivery.headers.get("X-Gitea-Event"), "push");
 * ```
 *
 * @category Deliveries
 */
export function forgeDelivery(
  type: string,
  payload: object | string,
  options: ForgeDeliveryOptions = {},
): TestDelivery {
  checkObject(DOING, options);
  checkKeys(DOING, options, ["from", "secret", "id", "form", "path", "sentAt"]);
  if (typeof type !== "string" || type === "") {
    throw new TypeError(`Cannot ${DOING}: it must have a type, such as push, got ${met(type)}`);
  }
  const { from = "github", id = crypto.randomUUID(), form = false, path } = options;
  const document = documentOf(payload);
  const body = form ? new URLSearchParams({ payload: textOf(document) }).toString() : document;
  const contentType = form ? "application/x-www-form-urlencoded" : "application/json";
  const headers = new Headers({ "Content-Type": contentType });
  if (from !== "gitlab" && from !== "gitlab-token" && !Object.hasOwn(NAMES, from)) {
    const known = [...Object.keys(NAMES), "gitlab", "gitlab-token"].join(", ");
    throw new TypeError(
      `Cannot ${DOING}: 'from' must be one of ${known}, got ${met(from)}`,
    );
  }
  if (from === "gitlab" || from === "gitlab-token") {
    addGitlabHeaders(headers, type, id, body, options);
    return { platform: "forge", path, method: "POST", headers, body };
  }
  for (const name of NAMES[from]) {
    headers.set(`X-${name}-Event`, type);
    headers.set(`X-${name}-Delivery`, id);
  }
  // Gitea and Forgejo sign the document even if they send it in a form.
  const signed = from === "gitea" || from === "forgejo" ? document : body;
  const digest = createHmac("sha256", options.secret ?? TEST_SECRETS.signing).update(signed);
  headers.set("X-Hub-Signature-256", `sha256=${digest.digest("hex")}`);
  return { platform: "forge", path, method: "POST", headers, body };
}

function addGitlabHeaders(
  headers: Headers,
  type: string,
  id: string,
  body: string | Uint8Array,
  { from, secret, sentAt = Date.now() }: ForgeDeliveryOptions,
): void {
  headers.set("X-Gitlab-Event", gitlabTypeOf(type));
  headers.set("Idempotency-Key", id);
  if (from === "gitlab-token") {
    headers.set("X-Gitlab-Token", secret ?? TEST_SECRETS.gitlabToken);
    return;
  }
  const timestamp = String(Math.floor(sentAt / 1_000));
  const hmac = createHmac("sha256", keyOf(secret ?? TEST_SECRETS.gitlab));
  const signature = hmac.update(`${id}.${timestamp}.`).update(body).digest("base64");
  headers.set("webhook-id", id);
  headers.set("webhook-timestamp", timestamp);
  headers.set("webhook-signature", `v1,${signature}`);
}

function keyOf(secret: string): Uint8Array {
  if (!secret.startsWith("whsec_")) {
    throw new TypeError("Cannot sign the delivery: a signing token must begin with whsec_");
  }
  return Uint8Array.from(atob(secret.slice("whsec_".length)), (byte) => byte.charCodeAt(0));
}

/** Writes a type such as `merge_request` in GitLab's way: `Merge Request Hook`. */
function gitlabTypeOf(type: string): string {
  if (type.endsWith(" Hook")) return type;
  const words = type.split("_").map((word) => word.slice(0, 1).toUpperCase() + word.slice(1));
  return `${words.join(" ")} Hook`;
}

function documentOf(payload: object | string): string | Uint8Array<ArrayBuffer> {
  if (payload === undefined || payload === null) {
    throw new TypeError(`Cannot ${DOING}: it must have a payload, got ${met(payload)}`);
  }
  if (typeof payload === "string") return payload;
  return payload instanceof Uint8Array ? new Uint8Array(payload) : JSON.stringify(payload);
}

function textOf(document: string | Uint8Array): string {
  return typeof document === "string" ? document : new TextDecoder().decode(document);
}
