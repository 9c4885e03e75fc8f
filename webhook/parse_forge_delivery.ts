import type { Delivery } from "../events/store/delivery.ts";
import { actionOf, forgeSenderOf, repositoryOf } from "./platforms/event_subject.ts";
import { FORM_TYPE, formField } from "./_form.ts";
import { deliveryIdOf, eventTypeOf, mediaTypeOf, type SourceHeader } from "./platforms/headers.ts";
import { invalidBody, parseJsonObject } from "../core/parse_json.ts";

/** Forgejo sends all of these names but the first, Gitea its own and GitHub's: the own name leads. */
const SOURCES = [
  ["Forge", "forge"],
  ["Forgejo", "forgejo"],
  ["Gitea", "gitea"],
  ["GitHub", "github"],
] as const;

const EVENT_HEADERS: readonly SourceHeader[] = [
  ...SOURCES.map(([name, source]): SourceHeader => [`X-${name}-Event`, source]),
  ["X-Gitlab-Event", "gitlab"],
];

/** The one that is signed leads: with another beside it, one delivery could be sent for several. */
const DELIVERY_HEADERS: readonly SourceHeader[] = [
  ["webhook-id", "gitlab"],
  ...SOURCES.map(([name, source]): SourceHeader => [`X-${name}-Delivery`, source]),
  ["Idempotency-Key", "gitlab"],
];

/** How GitLab writes event types: `Merge Request Hook`. */
const GITLAB_TYPE = /^[A-Za-z]+(?: [A-Za-z]+)* Hook$/;

const JSON_TYPE = "application/json";

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
  const { type, source } = eventTypeOf(headers, EVENT_HEADERS, typeOf);
  const deliveryId = deliveryIdOf(headers, DELIVERY_HEADERS);
  const document = isJson ? body : formField(body, "payload");
  if (!document) throw invalidBody("Form must have one field 'payload' in UTF-8");
  const payload = parseJsonObject(document);
  return {
    platform: "forge",
    intake: "forge",
    source,
    type,
    deliveryId,
    action: actionOf(payload),
    repository: repositoryOf(payload),
    sender: forgeSenderOf(payload),
    body: document,
    payload,
  };
}

/** `Merge Request Hook` is `merge_request`; all others write types so themselves. */
function typeOf(type: string, source: string): string {
  if (source !== "gitlab" || !GITLAB_TYPE.test(type)) return type;
  return type.slice(0, -" Hook".length).replaceAll(" ", "_").toLowerCase();
}
