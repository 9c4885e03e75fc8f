/**
 * Readers of headers and JSON payloads, for all platforms. Both were written outside, so nothing in them is
 * taken for granted: a header that is malformed is refused, and a payload's field that is missing or of
 * another type is read as undefined.
 *
 * @module
 */
import { HttpError } from "../../core/mod.ts";
import { type JsonObject, parseJsonObject as parse } from "../../core/parse_json.ts";
import type { Parts } from "./form.ts";

/** Places in a platform's requests that hold what they are verified by. */
export interface Credentials {
  /** Header with the HMAC-SHA256 of the body; undefined if the platform does not sign so. */
  readonly signature?: string | undefined;
  /** Headers with a secret token. The first one that is present counts. */
  readonly tokens: readonly string[];
  /** Name of such a token in the log: that of its option, in the singular. */
  readonly tokenName: "secret" | "token";
  /**
   * Reads the document in a body, which may be signed in the body's place.
   *
   * @param headers The request's headers.
   * @param body The request's body.
   * @param partBytes The size of the parts that the document is read in.
   * @returns The parts; undefined if the body has no such document.
   */
  readonly signedDocumentOf?:
    | ((headers: Headers, body: Uint8Array<ArrayBuffer>, partBytes: number) => Parts | undefined)
    | undefined;
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
  const type = read(value, source);
  if (!EVENT_TYPE.test(type)) {
    throw new HttpError(400, "Invalid event type", { code: "INVALID_EVENT" });
  }
  return { type, source };
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
  if (id === undefined) return undefined;
  if (!DELIVERY_ID.test(id)) {
    throw new HttpError(400, "Invalid delivery id", { code: "INVALID_DELIVERY" });
  }
  return id;
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
