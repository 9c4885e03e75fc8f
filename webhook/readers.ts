/**
 * Readers of headers and JSON payloads, for all platforms. Both were written outside, so nothing in them is
 * taken for granted: a header that is malformed is refused, and a payload's field that is missing or of
 * another type is read as undefined.
 *
 * @module
 */
import { HttpError } from "../core/mod.ts";
import { type JsonObject, parseJsonObject as parse } from "../core/parse_json.ts";
import type { EventChat, EventRepository, EventSender } from "../events/store/mod.ts";
import { isEventType } from "../events/store/processes.ts";

/** GitLab's full names have up to 255 characters, all groups included. */
const MAX_TEXT_LENGTH = 255;

/** Delivery ids are UUIDs or numbers. They become part of a key, so their length is bounded. */
const DELIVERY_ID = /^[\w.:-]{1,128}$/;

/** Documents that payloads were parsed from. */
const DOCUMENTS = new WeakMap<object, Uint8Array>();

/** Checks the type of an event, and throws 400 `INVALID_EVENT`. */
export function checkEventType(type: unknown): string {
  if (isEventType(type)) return type;
  throw new HttpError(400, "Invalid event type", { code: "INVALID_EVENT" });
}

/** Creates the error for a delivery without an event's type. */
export function missingType(): HttpError {
  return new HttpError(400, "Missing event type", { code: "MISSING_EVENT" });
}

/** Checks a delivery id, and throws 400 `INVALID_DELIVERY`. */
export function checkDeliveryId(id: unknown): string {
  if (typeof id === "string" && DELIVERY_ID.test(id)) return id;
  throw new HttpError(400, "Invalid delivery id", { code: "INVALID_DELIVERY" });
}

/**
 * Reads the media type.
 *
 * @param headers The request's headers.
 * @param accepted The media types that are accepted.
 * @returns The media type, in lower case and without parameters.
 * @throws {HttpError} 415 `UNSUPPORTED_MEDIA_TYPE` if it is missing, or not accepted.
 */
export function mediaTypeOf<T extends string>(headers: Headers, accepted: readonly T[]): T {
  const sent = headers.get("Content-Type")?.split(";", 1)[0]?.trim().toLowerCase();
  const mediaType = accepted.find((each) => each === sent);
  if (mediaType !== undefined) return mediaType;
  throw new HttpError(415, `Content type must be ${accepted[0]}`, {
    code: "UNSUPPORTED_MEDIA_TYPE",
  });
}

/**
 * Parses the bytes of a JSON object.
 *
 * @param body The bytes, in UTF-8.
 * @returns The object.
 * @throws {HttpError} 400 `INVALID_BODY` if the bytes are not UTF-8, not JSON, not an object, or nested
 * deeper than 64 levels.
 * @category Steps of an intake
 */
export function parseJsonObject(body: Uint8Array): JsonObject {
  try {
    const payload = parse(body);
    DOCUMENTS.set(payload, body);
    return payload;
  } catch (error) {
    throw error instanceof SyntaxError ? invalidBody(error.message) : error;
  }
}

/**
 * Reads the payload of a document, unless that was done.
 *
 * @param document The document.
 * @param payload The payload as a platform has read it.
 * @returns The payload, if {@linkcode parseJsonObject} has made it of this document; otherwise a new one.
 * @throws {HttpError} As {@linkcode parseJsonObject}.
 */
export function payloadOf(document: Uint8Array, payload: JsonObject): JsonObject {
  return DOCUMENTS.get(payload) === document ? payload : parseJsonObject(document);
}

/**
 * Creates the error for a body that cannot be accepted.
 *
 * @param message The reason.
 * @returns The error, 400 `INVALID_BODY`.
 */
export function invalidBody(message: string): HttpError {
  return new HttpError(400, message, { code: "INVALID_BODY" });
}

/** Reads a value as an object; an empty one if it is not an object. */
export function objectOf(value: unknown): JsonObject {
  return typeof value === "object" && value !== null ? value as JsonObject : {};
}

/** Reads a value as a text; undefined if it is not one, or empty. The event keeps it, so it is cut. */
export function textOf(value: unknown): string | undefined {
  if (typeof value !== "string" || value === "") return undefined;
  return value.slice(0, MAX_TEXT_LENGTH).toWellFormed();
}

/** Reads a value as an integer; undefined if it is not one. */
export function integerOf(value: unknown): number | undefined {
  return Number.isSafeInteger(value) ? value as number : undefined;
}

/** Reads a value as an ordering key: a number, or a text that is not empty. */
export function keyOf(value: unknown): string | undefined {
  const isKey = typeof value === "number" || (typeof value === "string" && value !== "");
  return isKey ? String(value) : undefined;
}

/** Makes a repository; undefined unless its id is an integer, and its full name a text. */
export function repositoryOf(value: JsonObject): EventRepository | undefined {
  const [id, fullName] = [integerOf(value.id), textOf(value.fullName)];
  if (id === undefined || fullName === undefined) return undefined;
  const slash = fullName.lastIndexOf("/");
  const owner = textOf(value.owner) ?? fullName.slice(0, Math.max(0, slash));
  return { id, fullName, owner, name: textOf(value.name) ?? fullName.slice(slash + 1) };
}

/** Makes a chat; undefined unless its id is an integer. */
export function chatOf({ id: given, type }: JsonObject): EventChat | undefined {
  const id = integerOf(given);
  return id === undefined ? undefined : { id, type: textOf(type) };
}

/** Makes a sender; undefined unless its id is an integer. */
export function senderOf({ id: given, name, isBot }: JsonObject): EventSender | undefined {
  const id = integerOf(given);
  return id === undefined ? undefined : { id, name: textOf(name), isBot: isBot === true };
}
