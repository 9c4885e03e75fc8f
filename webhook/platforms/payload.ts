/**
 * Reading of JSON payloads. A payload was written outside, so nothing in it is taken for granted: a field
 * that is missing or of another type is read as undefined.
 *
 * @module
 */
import { HttpError } from "../../core/mod.ts";
import { type JsonObject, parseJsonObject as parse } from "../../core/parse_json.ts";

/** GitLab's full names have up to 255 characters, all groups included. */
const MAX_TEXT_LENGTH = 255;

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
