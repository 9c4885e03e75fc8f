/**
 * Readers of headers and JSON payloads, for all platforms. Both were written outside, so nothing in them is
 * taken for granted: a header that is malformed is refused, and a payload's field that is missing or of
 * another type is read as undefined.
 *
 * @module
 */
import { HttpError } from "../../core/mod.ts";
import type { Delivery } from "../../events/store/mod.ts";
import { type JsonObject, parseJsonObject as parse } from "../../core/parse_json.ts";

/**
 * Delivery that a platform has read from a verified request.
 *
 * @category Steps of an intake
 */
export interface ParsedDelivery
  extends Pick<Delivery, "type" | "action" | "repository" | "chat" | "sender"> {
  /**
   * Sender's id of the delivery, the same when it is sent again: up to 128 letters, digits, `_`, `.`, `:`
   * and `-`. Without one, nobody can tell a delivery that is sent twice.
   */
  readonly deliveryId?: string | undefined;
  /**
   * Product that sent it, if there are several: `github`, `gitea`.
   *
   * @default {name} The platform's name.
   */
  readonly source?: string | undefined;
  /**
   * JSON document that is stored, and read again as the event's payload.
   *
   * @default {body} The request's body.
   */
  readonly body?: Uint8Array<ArrayBuffer> | undefined;
  /** The document as an object. A handler gets it parsed from the document, so the two must be the same. */
  readonly payload: JsonObject;
}

/** GitLab's full names have up to 255 characters, all groups included. */
const MAX_TEXT_LENGTH = 255;

/** Event types are short words: `pull_request_review_thread` has 26 characters. */
const EVENT_TYPE = /^[A-Za-z][\w.:-]{0,99}$/;

/** Delivery ids are UUIDs or numbers. They become part of a key, so their length is bounded. */
const DELIVERY_ID = /^[\w.:-]{1,128}$/;

/**
 * Reads the event type from the first header that is present.
 *
 * @param headers The request's headers.
 * @param names The headers in order of precedence, each with the product that sends it.
 * @param read Converts the type from a product's spelling.
 * @returns The event type, and the product that the header belongs to.
 * @throws {HttpError} 400 `MISSING_EVENT` if no header is present; 400 `INVALID_EVENT` if it is
 * malformed.
 */
export function eventTypeOf(
  headers: Headers,
  names: ReadonlyMap<string, string>,
  read: (value: string, source: string) => string = (value) => value,
): { type: string; source: string } {
  const [value, source] = firstOf(headers, names) ?? [];
  if (!value || !source) {
    throw new HttpError(400, "Missing event type", { code: "MISSING_EVENT" });
  }
  return { type: checkEventType(read(value, source)), source };
}

/**
 * Reads the delivery id from the first header that is present.
 *
 * @param headers The request's headers.
 * @param names The headers in order of precedence, each with the product that sends it.
 * @returns The delivery id; undefined if no header is present.
 * @throws {HttpError} 400 `INVALID_DELIVERY` if it is malformed.
 */
export function deliveryIdOf(
  headers: Headers,
  names: ReadonlyMap<string, string>,
): string | undefined {
  const [id] = firstOf(headers, names) ?? [];
  return id === undefined ? undefined : checkDeliveryId(id);
}

/**
 * Checks the type of an event.
 *
 * @param type The type.
 * @returns The type.
 * @throws {HttpError} 400 `INVALID_EVENT` if it is malformed.
 */
export function checkEventType(type: unknown): string {
  if (typeof type === "string" && EVENT_TYPE.test(type)) return type;
  throw new HttpError(400, "Invalid event type", { code: "INVALID_EVENT" });
}

/**
 * Checks a delivery id.
 *
 * @param id The delivery id.
 * @returns The delivery id.
 * @throws {HttpError} 400 `INVALID_DELIVERY` if it is malformed.
 */
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

function firstOf(
  headers: Headers,
  names: ReadonlyMap<string, string>,
): [value: string, source: string] | undefined {
  for (const [name, source] of names) {
    const value = headers.get(name);
    if (value !== null) return [value, source];
  }
  return undefined;
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
    return parse(body);
  } catch (error) {
    throw error instanceof SyntaxError ? invalidBody(error.message) : error;
  }
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
