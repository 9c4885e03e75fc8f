/**
 * GitHub, GitLab, Gitea and Forgejo: the headers they send, what they sign, and what their payloads say.
 *
 * @module
 */
import type { JsonObject } from "../../core/parse_json.ts";
import type { Delivery, EventRepository, EventSender } from "../../events/store/mod.ts";
import { firstField, FORM_TYPE, formField, type Parts } from "./form.ts";
import {
  deliveryIdOf,
  eventTypeOf,
  integerOf,
  invalidBody,
  keyOf,
  mediaTypeOf,
  objectOf,
  type ParsedDelivery,
  parseJsonObject,
  textOf,
} from "./readers.ts";

/** Headers of a code host, or of several. */
export interface ForgeHeaders {
  /** Headers with the event's type, each with the product that sends it. The first that is present counts. */
  readonly event: ReadonlyMap<string, string>;
  /** Headers with the delivery id, in the same way. */
  readonly delivery: ReadonlyMap<string, string>;
}

/**
 * The products and their names in headers. Forgejo sends the headers of all but the first, Gitea its own
 * and GitHub's: so a product's own name comes before the names that it borrows.
 */
const SOURCES = {
  forge: "Forge",
  forgejo: "Forgejo",
  gitea: "Gitea",
  github: "GitHub",
} as const;

/** GitLab's spelling of event types: `Merge Request Hook`. */
const GITLAB_TYPE = /^[A-Za-z]+(?: [A-Za-z]+)* Hook$/;

const JSON_TYPE = "application/json";

/** Field of a form that holds the JSON document. */
const DOCUMENT_FIELD = "payload";

/** Headers of GitHub. */
export const GITHUB_HEADERS: ForgeHeaders = headersOf("github");

/** Headers of Gitea and Forgejo. */
export const GITEA_HEADERS: ForgeHeaders = headersOf("forgejo", "gitea");

/** Headers of GitLab. */
export const GITLAB_HEADERS: ForgeHeaders = {
  event: new Map([["X-Gitlab-Event", "gitlab"]]),
  delivery: new Map([["webhook-id", "gitlab"], ["Idempotency-Key", "gitlab"]]),
};

const HUB_HEADERS = headersOf("forge", "forgejo", "gitea", "github");

/** Headers of all code hosts, and of this package's own contract. */
export const FORGE_HEADERS: ForgeHeaders = {
  event: new Map([...HUB_HEADERS.event, ...GITLAB_HEADERS.event]),
  // The signed one comes first: otherwise one delivery with another id beside it could be sent twice.
  delivery: new Map([
    ["webhook-id", "gitlab"],
    ...HUB_HEADERS.delivery,
    ["Idempotency-Key", "gitlab"],
  ]),
};

function headersOf(...sources: readonly (keyof typeof SOURCES)[]): ForgeHeaders {
  const named = (what: string) =>
    new Map(sources.map((source) => [`X-${SOURCES[source]}-${what}`, source]));
  return { event: named("Event"), delivery: named("Delivery") };
}

/**
 * Reads the document in a form, which Gitea and Forgejo sign in the form's place.
 *
 * @param headers The request's headers.
 * @param body The request's body.
 * @param partBytes The size of the parts that the document is read in.
 * @returns The parts; undefined if the body is not a form.
 */
export function signedDocumentOf(
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
  const { source = "forge", deliveryId, body: document = body, ...parsed } = readForgeDelivery(
    FORGE_HEADERS,
    headers,
    body,
  );
  return { platform: "forge", intake: "forge", source, deliveryId, body: document, ...parsed };
}

/**
 * Reads the delivery of a verified request.
 *
 * @param names The names of its sender's headers.
 * @param headers The request's headers.
 * @param body The request's body.
 * @returns The delivery.
 * @throws {HttpError} As {@linkcode parseForgeDelivery}.
 */
export function readForgeDelivery(
  { event, delivery }: ForgeHeaders,
  headers: Headers,
  body: Uint8Array<ArrayBuffer>,
): ParsedDelivery {
  const isJson = mediaTypeOf(headers, [JSON_TYPE, FORM_TYPE]) === JSON_TYPE;
  const { type, source } = eventTypeOf(headers, event, typeOf);
  const deliveryId = deliveryIdOf(headers, delivery);
  const document = isJson ? body : formField(body, DOCUMENT_FIELD);
  if (!document) throw invalidBody(`Form must have one field '${DOCUMENT_FIELD}' in UTF-8`);
  const payload = parseJsonObject(document);
  return {
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
