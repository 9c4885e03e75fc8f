import { createHmac } from "node:crypto";
import type { PlatformName } from "../events/mod.ts";
import { TEST_SECRETS } from "./test_secrets.ts";

/**
 * Who sends a forge's delivery: `forge` has the headers of this package's own contract, `gitlab` is
 * GitLab with a signing token, `gitlab-token` with a secret token.
 */
export type ForgeSender = "forge" | "github" | "gitea" | "forgejo" | "gitlab" | "gitlab-token";

/** A request for the webhook, as `fetch` and `app.request` take it. */
export interface TestDelivery {
  /** The platform whose app it is for. */
  readonly platform: PlatformName;
  /** The method. */
  readonly method: "POST";
  /** The headers. They can be changed before it is sent. */
  readonly headers: Headers;
  /** The body. */
  readonly body: string | Uint8Array<ArrayBuffer>;
}

/** Options of {@linkcode forgeDelivery}. */
export interface ForgeDeliveryOptions {
  /**
   * Who sends it.
   *
   * @default {"github"}
   */
  readonly from?: ForgeSender | undefined;
  /**
   * What it is proved by.
   *
   * @default {TEST_SECRETS} The sender's one of these.
   */
  readonly secret?: string | undefined;
  /**
   * Its id: the same again makes a duplicate.
   *
   * @default {crypto.randomUUID()}
   */
  readonly id?: string | undefined;
  /**
   * Whether the payload is sent in a form, which GitLab does not.
   *
   * @default {false}
   */
  readonly form?: boolean | undefined;
  /**
   * When it is sent, in milliseconds since the epoch: GitLab signs that.
   *
   * @default {Date.now()}
   */
  readonly sentAt?: number | undefined;
}

/** Forgejo sends all of Gitea's headers beside its own, and both send GitHub's. */
const NAMES = {
  forge: ["Forge"],
  github: ["GitHub"],
  gitea: ["Gitea", "Gogs", "GitHub"],
  forgejo: ["Forgejo", "Gitea", "Gogs", "GitHub"],
} as const;

/**
 * Builds a delivery as a code host sends it, with its headers, and proved in its way.
 *
 * @param type The event's type: `push`, `issues`. GitLab's may be written `merge_request` or
 * `Merge Request Hook`.
 * @param payload The payload: an object, or a JSON document that is sent byte for byte.
 * @param options Who sends it, and what else may differ.
 * @returns The delivery.
 * @throws {TypeError} If a GitLab signing token does not begin with `whsec_`.
 *
 * @example
 * ```ts
 * import { forgeDelivery } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * const delivery = forgeDelivery("push", { ref: "refs/heads/main" }, { from: "gitea" });
 * assertEquals(delivery.headers.get("X-Gitea-Event"), "push");
 * ```
 */
export function forgeDelivery(
  type: string,
  payload: object | string,
  options: ForgeDeliveryOptions = {},
): TestDelivery {
  const { from = "github", id = crypto.randomUUID(), form = false } = options;
  const document = documentOf(payload);
  const body = form ? new URLSearchParams({ payload: textOf(document) }).toString() : document;
  const contentType = form ? "application/x-www-form-urlencoded" : "application/json";
  const headers = new Headers({ "Content-Type": contentType });
  if (from === "gitlab" || from === "gitlab-token") {
    addGitlabHeaders(headers, type, id, body, options);
    return { platform: "forge", method: "POST", headers, body };
  }
  for (const name of NAMES[from]) {
    headers.set(`X-${name}-Event`, type);
    headers.set(`X-${name}-Delivery`, id);
  }
  // Gitea and Forgejo sign the document, also where they send it in a form.
  const signed = from === "gitea" || from === "forgejo" ? document : body;
  const digest = createHmac("sha256", options.secret ?? TEST_SECRETS.signing).update(signed);
  headers.set("X-Hub-Signature-256", `sha256=${digest.digest("hex")}`);
  return { platform: "forge", method: "POST", headers, body };
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
    throw new TypeError("Cannot sign the delivery: a signing token begins with whsec_");
  }
  return Uint8Array.from(atob(secret.slice("whsec_".length)), (byte) => byte.charCodeAt(0));
}

/** `merge_request` as GitLab writes it: `Merge Request Hook`. */
function gitlabTypeOf(type: string): string {
  if (type.endsWith(" Hook")) return type;
  const words = type.split("_").map((word) => word.slice(0, 1).toUpperCase() + word.slice(1));
  return `${words.join(" ")} Hook`;
}

function documentOf(payload: object | string): string | Uint8Array<ArrayBuffer> {
  if (typeof payload === "string") return payload;
  return payload instanceof Uint8Array ? new Uint8Array(payload) : JSON.stringify(payload);
}

function textOf(document: string | Uint8Array): string {
  return typeof document === "string" ? document : new TextDecoder().decode(document);
}
