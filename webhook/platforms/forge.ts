/**
 * GitHub, GitLab, Gitea and Forgejo: the headers they send, what they sign, and what their payloads say.
 *
 * @module
 */
import type { JsonObject } from "../../core/parse_json.ts";
import type { Delivery, EventRepository, EventSender } from "../../events/store/mod.ts";
import { firstField, FORM_TYPE, formField } from "./form.ts";
import {
  type Credentials,
  deliveryIdOf,
  eventTypeOf,
  integerOf,
  invalidBody,
  keyOf,
  mediaTypeOf,
  objectOf,
  parseJsonObject,
  textOf,
} from "./readers.ts";

/**
 * The products and their names in headers. Forgejo sends the headers of all but the first, Gitea its own
 * and GitHub's: so a product's own name comes before the names that it borrows.
 */
const SOURCES = [
  ["Forge", "forge"],
  ["Forgejo", "forgejo"],
  ["Gitea", "gitea"],
  ["GitHub", "github"],
] as const;

const EVENT_HEADERS: ReadonlyMap<string, string> = new Map([
  ...SOURCES.map(([name, source]) => [`X-${name}-Event`, source] as const),
  ["X-Gitlab-Event", "gitlab"],
]);

/** The signed one comes first: otherwise one delivery with another id beside it could be sent twice. */
const DELIVERY_HEADERS: ReadonlyMap<string, string> = new Map([
  ["webhook-id", "gitlab"],
  ...SOURCES.map(([name, source]) => [`X-${name}-Delivery`, source] as const),
  ["Idempotency-Key", "gitlab"],
]);

/** GitLab's spelling of event types: `Merge Request Hook`. */
const GITLAB_TYPE = /^[A-Za-z]+(?: [A-Za-z]+)* Hook$/;

const JSON_TYPE = "application/json";

/** Field of a form that holds the JSON document. */
const DOCUMENT_FIELD = "payload";

/** Signatures and tokens of the forges. Gitea and Forgejo sign the document in a form, GitHub the form. */
export const FORGE_CREDENTIALS: Credentials = {
  signature: "X-Hub-Signature-256",
  tokens: ["X-Gitlab-Token"],
  tokenName: "token",
  signedDocumentOf: (headers, body, partBytes) => {
    const type = headers.get("Content-Type")?.toLowerCase();
    return type?.startsWith(FORM_TYPE) ? firstField(body, DOCUMENT_FIELD, partBytes) : undefined;
  },
};

/**
 * Makes the delivery of a verified request.
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
  const document = isJson ? body : formField(body, DOCUMENT_FIELD);
  if (!document) throw invalidBody(`Form must have one field '${DOCUMENT_FIELD}' in UTF-8`);
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

/** `Merge Request Hook` becomes `merge_request`, which is how all others write types. */
function typeOf(type: string, source: string): string {
  if (source !== "gitlab" || !GITLAB_TYPE.test(type)) return type;
  return type.slice(0, -" Hook".length).replaceAll(" ", "_").toLowerCase();
}

/** Reads what happened: `action`, or in GitLab's `object_attributes`. */
export function actionOf(payload: JsonObject): string | undefined {
  return textOf(payload.action) ?? textOf(objectOf(payload.object_attributes).action);
}

/** Reads the repository: `repository`, or GitLab's `project`. */
export function repositoryOf(payload: JsonObject): EventRepository | undefined {
  const [repository, project] = [objectOf(payload.repository), objectOf(payload.project)];
  const fullName = textOf(repository.full_name) ?? textOf(project.path_with_namespace);
  const id = integerOf(repository.id) ?? integerOf(project.id);
  if (fullName === undefined || id === undefined) return undefined;
  const slash = fullName.lastIndexOf("/");
  return { id, fullName, owner: fullName.slice(0, slash), name: fullName.slice(slash + 1) };
}

/**
 * Reads the ordering key of a repository: its id or, if the payload has only that, its full name. A
 * payload may have a key and still not describe a whole {@linkcode EventRepository}.
 */
export function repositoryKeyOf(payload: JsonObject): string | undefined {
  const { id, full_name: name } = objectOf(payload.repository);
  return keyOf(id) ?? keyOf(name) ?? keyOf(objectOf(payload.project).id);
}

/** Reads the user behind the event: `sender`, or GitLab's `user` or `user_id`. */
export function forgeSenderOf(payload: JsonObject): EventSender | undefined {
  const [sender, user] = [objectOf(payload.sender), objectOf(payload.user)];
  const id = integerOf(sender.id) ?? integerOf(user.id) ?? integerOf(payload.user_id);
  if (id === undefined) return undefined;
  const name = textOf(sender.login) ?? textOf(user.username) ?? textOf(payload.user_username);
  return { id, name, isBot: sender.type === "Bot" };
}
