/**
 * Deliveries as the senders make them, signed, for tests and for the tool.
 *
 * @module
 */
import { createHmac } from "node:crypto";
import { checkOptions, met, oneOf } from "../core/check_options.ts";
import { standardHeadOf, standardKeyOf } from "../webhook/verify_signature.ts";
import { TEST_SECRETS } from "./test_secrets.ts";

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
   * @default {undefined} The path of the app's only platform of this kind.
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
   * Sender of the delivery: `forge` uses the headers of this package's contract, `gitlab` is GitLab with a
   * signing token, and `gitlab-token` is GitLab with a secret token.
   *
   * @default {"github"}
   */
  readonly from?:
    | "forge"
    | "github"
    | "gitea"
    | "forgejo"
    | "gitlab"
    | "gitlab-token"
    | undefined;
  /**
   * Secret that the delivery is signed with, or token that it carries.
   *
   * @default {TEST_SECRETS} The sender's.
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
   * @default {undefined} The path of the app's only platform of its kind.
   */
  readonly path?: string | undefined;
  /**
   * Time of sending, in milliseconds since the epoch. GitLab signs it.
   *
   * @default {Date.now()}
   */
  readonly sentAt?: number | undefined;
}

/**
 * Options of {@linkcode messengerUpdate}.
 *
 * @category Deliveries
 */
export interface MessengerUpdateOptions {
  /**
   * Sender of the update: `messenger` uses the header of this package's contract.
   *
   * @default {"telegram"}
   */
  readonly from?: "messenger" | "telegram" | undefined;
  /**
   * Secret token that the update carries.
   *
   * @default {TEST_SECRETS.messenger}
   */
  readonly secret?: string | undefined;
  /**
   * Path that the update is posted to.
   *
   * @default {undefined} The path of the app's only platform of its kind.
   */
  readonly path?: string | undefined;
}

/**
 * Options of {@linkcode standardDelivery}.
 *
 * @category Deliveries
 */
export interface StandardDeliveryOptions {
  /**
   * Secret that the delivery is signed with, with or without `whsec_`.
   *
   * @default {TEST_SECRETS.gitlab}
   */
  readonly secret?: string | undefined;
  /**
   * Id of the delivery. Sending the same id again makes a duplicate.
   *
   * @default {crypto.randomUUID()}
   */
  readonly id?: string | undefined;
  /**
   * Time of sending, in milliseconds since the epoch. It is signed.
   *
   * @default {Date.now()}
   */
  readonly sentAt?: number | undefined;
  /**
   * Path that the delivery is posted to.
   *
   * @default {undefined} The path of the app's only platform of its kind.
   */
  readonly path?: string | undefined;
  /**
   * Name of the platform that the delivery is for, in an app that has several of `standard()`.
   *
   * @default {"standard"} Their kind.
   */
  readonly platform?: string | undefined;
}

/** Sender of a forge's delivery. */
export type ForgeSender = NonNullable<ForgeDeliveryOptions["from"]>;

/** Sender of an update. */
export type MessengerSender = NonNullable<MessengerUpdateOptions["from"]>;

/** Body of a request: a text is sent as UTF-8. */
type Document = TestDelivery["body"];

/** Prefixes of the headers of each forge. Forgejo sends Gitea's as well, and both send GitHub's. */
const FORGES: Readonly<Record<ForgeSender, readonly string[]>> = {
  forge: ["Forge"],
  github: ["GitHub"],
  gitea: ["Gitea", "Gogs", "GitHub"],
  forgejo: ["Forgejo", "Gitea", "Gogs", "GitHub"],
  gitlab: [],
  "gitlab-token": [],
};

const MESSENGERS: Readonly<Record<MessengerSender, string>> = {
  messenger: "X-Messenger-Bot-Api-Secret-Token",
  telegram: "X-Telegram-Bot-Api-Secret-Token",
};

/** Largest random update id: updates rarely get the same one. */
const MAX_UPDATE_ID = 2 ** 31;

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
  const doing = "build the delivery";
  checkOptions(doing, options, {
    ...{ from: oneOf(...Object.keys(FORGES)), secret: undefined, id: undefined },
    ...{ form: undefined, path: undefined, sentAt: undefined },
  });
  if (typeof type !== "string" || type === "") {
    throw new TypeError(`Cannot ${doing}: it must have a type, such as push, got ${met(type)}`);
  }
  const { from = "github", id = crypto.randomUUID(), form = false, path, secret } = options;
  const document = documentOf(doing, payload);
  const body = form ? new URLSearchParams({ payload: textOf(document) }).toString() : document;
  const contentType = form ? "application/x-www-form-urlencoded" : "application/json";
  const headers = new Headers({ "Content-Type": contentType });
  for (const name of FORGES[from]) {
    headers.set(`X-${name}-Event`, type);
    headers.set(`X-${name}-Delivery`, id);
  }
  if (from === "gitlab" || from === "gitlab-token") {
    headers.set("X-Gitlab-Event", gitlabTypeOf(type));
    headers.set("Idempotency-Key", id);
  }
  if (from === "gitlab-token") headers.set("X-Gitlab-Token", secret ?? TEST_SECRETS.gitlabToken);
  else if (from === "gitlab") {
    if (secret?.startsWith("whsec_") === false) {
      throw new TypeError("Cannot sign the delivery: a signing token must begin with whsec_");
    }
    sign(headers, id, body, options);
  } else {
    // Gitea and Forgejo sign the document even if they send it in a form.
    const signed = from === "gitea" || from === "forgejo" ? document : body;
    const digest = createHmac("sha256", secret ?? TEST_SECRETS.signing).update(signed);
    headers.set("X-Hub-Signature-256", `sha256=${digest.digest("hex")}`);
  }
  return { platform: "forge", path, method: "POST", headers, body };
}

/**
 * Builds an update as a messenger sends it.
 *
 * @param update The update: an object, which gets an `update_id` if it has none, or a JSON document that is
 * sent unchanged.
 * @param options The sender and its secret token.
 * @returns The update, as a request.
 * @throws {TypeError} If the update is missing, or there is another option or sender.
 *
 * @example
 * ```ts
 * import { messengerUpdate } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * const update = messengerUpdate({ update_id: 1, message: { from: { id: 42 }, text: "hello" } });
 * assertEquals(update.body, '{"update_id":1,"message":{"from":{"id":42},"text":"hello"}}');
 * ```
 *
 * @category Deliveries
 */
export function messengerUpdate(
  update: object | string,
  options: MessengerUpdateOptions = {},
): TestDelivery {
  const doing = "build the update";
  checkOptions(doing, options, {
    ...{ from: oneOf(...Object.keys(MESSENGERS)), secret: undefined, path: undefined },
  });
  const { from = "telegram", secret = TEST_SECRETS.messenger, path } = options;
  const headers = new Headers({ "Content-Type": "application/json", [MESSENGERS[from]]: secret });
  const isObject = typeof update === "object" && !(update instanceof Uint8Array);
  const body = documentOf(
    doing,
    isObject && update ? { update_id: randomId(), ...update } : update,
  );
  return { platform: "messenger", path, method: "POST", headers, body };
}

/**
 * Builds a delivery that is signed as the Standard Webhooks specification says, for the platforms of
 * `standard()`.
 *
 * @param payload The payload, with the event's type: an object, or a JSON document that is sent byte for byte.
 * @param options The secret, the id, the time and the platform.
 * @returns The delivery.
 * @throws {TypeError} If the payload is missing, there is another option, or the secret is not base64.
 *
 * @example
 * ```ts
 * import { standardDelivery } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * const delivery = standardDelivery({ type: "invoice.paid", data: {} }, { id: "msg_1" });
 * assertEquals(delivery.headers.get("webhook-id"), "msg_1");
 * ```
 *
 * @category Deliveries
 */
export function standardDelivery(
  payload: object | string,
  options: StandardDeliveryOptions = {},
): TestDelivery {
  const doing = "build the delivery";
  checkOptions(doing, options, {
    ...{ secret: undefined, id: undefined, sentAt: undefined, path: undefined },
    platform: undefined,
  });
  const { id = crypto.randomUUID(), path, platform = "standard" } = options;
  const body = documentOf(doing, payload);
  const headers = new Headers({ "Content-Type": "application/json" });
  sign(headers, id, body, options);
  return { platform, path, method: "POST", headers, body };
}

/** Signs as the Standard Webhooks specification says. */
function sign(
  headers: Headers,
  id: string,
  body: Document,
  { secret = TEST_SECRETS.gitlab, sentAt = Date.now() }: StandardDeliveryOptions,
): void {
  const key = standardKeyOf(secret);
  if (!key) {
    throw new TypeError(
      "Cannot sign the delivery: the secret must be base64, after whsec_ or alone",
    );
  }
  const timestamp = String(Math.floor(sentAt / 1_000));
  const hmac = createHmac("sha256", key).update(standardHeadOf({ id, timestamp })).update(body);
  headers.set("webhook-id", id);
  headers.set("webhook-timestamp", timestamp);
  headers.set("webhook-signature", `v1,${hmac.digest("base64")}`);
}

/** Writes a type such as `merge_request` in GitLab's way: `Merge Request Hook`. */
function gitlabTypeOf(type: string): string {
  if (type.endsWith(" Hook")) return type;
  const words = type.split("_").map((word) => word.slice(0, 1).toUpperCase() + word.slice(1));
  return `${words.join(" ")} Hook`;
}

function randomId(): number {
  const [random] = crypto.getRandomValues(new Uint32Array(1));
  return random! % MAX_UPDATE_ID;
}

/**
 * Makes the body of a delivery.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param payload The payload: an object, or a document that is sent as it is.
 * @returns The body.
 * @throws {TypeError} If it is missing.
 */
export function documentOf(doing: string, payload: object | string): Document {
  if (payload === undefined || payload === null) {
    throw new TypeError(`Cannot ${doing}: it must have a payload, got ${met(payload)}`);
  }
  if (typeof payload === "string") return payload;
  return payload instanceof Uint8Array ? new Uint8Array(payload) : JSON.stringify(payload);
}

/** Reads a body as a text. */
export function textOf(document: Document): string {
  return typeof document === "string" ? document : new TextDecoder().decode(document);
}
