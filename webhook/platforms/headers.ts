import { met } from "../../core/check_options.ts";
import { HttpError } from "../../core/mod.ts";
import type { PlatformName } from "../../events/store/delivery.ts";

/** A header's name, and the product that sends it. */
export type SourceHeader = readonly [name: string, source: string];

/** Event types are short words: `pull_request_review_thread` has 26 characters. */
const EVENT_TYPE = /^[A-Za-z][\w.:-]{0,99}$/;

/** Delivery ids are UUIDs or numbers. They become part of a key, so their length is bounded. */
const DELIVERY_ID = /^[\w.:-]{1,128}$/;

/** Intakes have short names: they begin each event's id, up to the first colon. */
const INTAKE_NAME = /^[a-z][a-z0-9_-]{0,31}$/i;

/**
 * Checks an intake's name.
 *
 * @param name The name.
 * @param platform The intake's platform.
 * @throws {TypeError} If it is no letter followed by up to 31 letters, digits, `_` and `-`, or what the
 * other platform's intake is called by default.
 */
export function checkIntakeName(name: string, platform: PlatformName): void {
  const other = platform === "forge" ? "messenger" : "forge";
  if (name === other) {
    throw new TypeError(
      `Cannot create the intake: 'name' must not be ${met(name)}, which is the other platform's`,
    );
  }
  if (typeof name === "string" && INTAKE_NAME.test(name)) return;
  throw new TypeError(
    "Cannot create the intake: 'name' must be a letter, then up to 31 letters, digits, _ and -, " +
      `got ${met(name)}`,
  );
}

/**
 * Takes the event type from the first of the headers that is there.
 *
 * @param headers The request's headers.
 * @param names The headers, in the order of their precedence.
 * @param read Reads the type as a product writes it.
 * @returns The event type and the product whose header it was.
 * @throws {HttpError} 400 `MISSING_EVENT` if none is there; 400 `INVALID_EVENT` if it is malformed.
 */
export function eventTypeOf(
  headers: Headers,
  names: readonly SourceHeader[],
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
 * Takes the delivery id from the first of the headers that is there.
 *
 * @param headers The request's headers.
 * @param names The headers, in the order of their precedence.
 * @returns The delivery id; undefined where none is there.
 * @throws {HttpError} 400 `INVALID_DELIVERY` if it is malformed.
 */
export function deliveryIdOf(
  headers: Headers,
  names: readonly SourceHeader[],
): string | undefined {
  const [id] = firstOf(headers, names) ?? [];
  if (id === undefined) return undefined;
  if (!DELIVERY_ID.test(id)) {
    throw new HttpError(400, "Invalid delivery id", { code: "INVALID_DELIVERY" });
  }
  return id;
}

/**
 * Takes the media type from the headers.
 *
 * @param headers The request's headers.
 * @param accepted The media types that are accepted.
 * @returns The media type, in lower case and without parameters.
 * @throws {HttpError} 415 `UNSUPPORTED_MEDIA_TYPE` if it is missing, or not among the accepted.
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
  names: readonly SourceHeader[],
): [value: string, source: string] | undefined {
  for (const [name, source] of names) {
    const value = headers.get(name);
    if (value !== null) return [value, source];
  }
  return undefined;
}
