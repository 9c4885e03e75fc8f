import type { Hono } from "@hono/hono";
import { HttpError } from "../middleware/mod.ts";
import {
  type Delivery,
  deliveryIdOf,
  eventTypeOf,
  mediaTypeOf,
  type SourceHeader,
} from "./delivery.ts";
import { checkSecrets, createIntake, type IntakeOptions } from "./intake.ts";
import { decodeUtf8, invalidBody, parseJsonObject } from "./parse_json.ts";
import { isSignature, verifySignatureBytes } from "./verify_signature.ts";

/** The largest payload that a code host sends: GitHub's limit. */
const MAX_BODY_BYTES = 25 * 1024 * 1024;

/** Forgejo sends all of these names but the first, Gitea its own and GitHub's: the own name leads. */
const SOURCES = [
  ["Forge", "forge"],
  ["Forgejo", "forgejo"],
  ["Gitea", "gitea"],
  ["GitHub", "github"],
] as const;

const EVENT_HEADERS = SOURCES.map(([name, source]): SourceHeader => [`X-${name}-Event`, source]);

const DELIVERY_HEADERS = SOURCES.map(([name, source]): SourceHeader => [
  `X-${name}-Delivery`,
  source,
]);

const JSON_TYPE = "application/json";
const FORM_TYPE = "application/x-www-form-urlencoded";

/**
 * What a form consists of. The media type is not signed: without this a signed JSON document, which
 * always has a brace, could be sent as a form, and a text in it be taken for the payload.
 */
const FORM = /^[\w*.~!'()+%&=:;,@/?$-]*$/;

const encoder = new TextEncoder();

/** Options of {@linkcode createForgeIntake}. */
export interface ForgeIntakeOptions extends IntakeOptions {
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
 * A request is answered 200 `OK` once its event is stored; 401 `MISSING_SIG` or `INVALID_SIG` if it is
 * not proved genuine; 400, 413, 415 or 408 if it is, and is no delivery; 503 `QUEUE_UNAVAILABLE` if
 * the store cannot take it.
 *
 * @param options The secrets and the store.
 * @returns An app to mount with `app.route("/", ...)`.
 * @throws {TypeError} If there is no secret, or one is blank.
 * @throws {RangeError} If a limit makes no sense, or is more than the store can hold.
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
  const { secrets, maxBodyBytes = MAX_BODY_BYTES } = options;
  checkSecrets("forge", secrets);
  return createIntake(
    {
      name: "forge",
      maxBodyBytes,
      verifyHead: checkSignatureForm,
      verifyBody: (headers, body) => verifyForgeDelivery(headers, body, secrets),
      parse: parseForgeDelivery,
      authorize: () => true,
    },
    options,
  );
}

/**
 * Checks that a delivery was signed with one of the secrets: over the body as it was sent or, for a
 * form, over the JSON document in it, which is what Gitea signs.
 *
 * @param headers The request's headers.
 * @param body The request's body.
 * @param secrets The secrets. All are always tried.
 * @throws {HttpError} 401 `MISSING_SIG` without a signature; 401 `INVALID_SIG` if it is not right.
 */
export function verifyForgeDelivery(
  headers: Headers,
  body: Uint8Array<ArrayBuffer>,
  secrets: readonly string[],
): void {
  const signature = signatureOf(headers);
  if (isSigned(body, signature, secrets)) return;
  const document = headers.get("Content-Type")?.toLowerCase().startsWith(FORM_TYPE)
    ? formField(body, "payload")
    : undefined;
  if (document && isSigned(document, signature, secrets)) return;
  throw invalidSignature();
}

/**
 * Makes the delivery of a request that was proved genuine.
 *
 * @param headers The request's headers.
 * @param body The request's body: JSON, or a form with the JSON document in its field `payload`.
 * @returns The delivery.
 * @throws {HttpError} 415 `UNSUPPORTED_MEDIA_TYPE`, 400 `MISSING_EVENT`, `INVALID_EVENT`,
 * `INVALID_DELIVERY` or `INVALID_BODY`.
 */
export function parseForgeDelivery(headers: Headers, body: Uint8Array<ArrayBuffer>): Delivery {
  const isJson = mediaTypeOf(headers, [JSON_TYPE, FORM_TYPE]) === JSON_TYPE;
  const { type, source } = eventTypeOf(headers, EVENT_HEADERS);
  const deliveryId = deliveryIdOf(headers, DELIVERY_HEADERS);
  const document = isJson ? body : formField(body, "payload");
  if (!document) throw invalidBody("Form must have one field 'payload' in UTF-8");
  const payload = parseJsonObject(document);
  return { platform: "forge", source, type, deliveryId, body: document, payload };
}

/** A signature of the wrong form is refused before the body is read. */
function checkSignatureForm(headers: Headers): void {
  if (!isSignature(signatureOf(headers))) throw invalidSignature();
}

function invalidSignature(): HttpError {
  return new HttpError(401, "Invalid signature", { code: "INVALID_SIG" });
}

function signatureOf(headers: Headers): string {
  const signature = headers.get("X-Hub-Signature-256");
  if (!signature) throw new HttpError(401, "Missing signature", { code: "MISSING_SIG" });
  return signature;
}

function isSigned(bytes: Uint8Array, signature: string, secrets: readonly string[]): boolean {
  let signed = false;
  for (const secret of secrets) signed = verifySignatureBytes(bytes, signature, secret) || signed;
  return signed;
}

/**
 * Finds the one field of a name in a form. Not with `URLSearchParams`, which takes any text for a form
 * and replaces invalid UTF-8.
 */
function formField(body: Uint8Array, name: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    const form = decodeUtf8(body);
    if (!FORM.test(form)) return undefined;
    const fields = form.split("&").filter((field) => field.startsWith(`${name}=`));
    const value = fields[0]?.slice(name.length + 1).replaceAll("+", " ");
    return fields.length === 1 ? encoder.encode(decodeURIComponent(value!)) : undefined;
  } catch {
    return undefined;
  }
}
