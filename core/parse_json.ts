import { HttpError } from "./mod.ts";

/** A parsed JSON object. */
export type JsonObject = { readonly [key: string]: unknown };

/** Deeper than any platform's payload, and far from where recursion overflows the stack. */
const MAX_DEPTH = 64;

/** Drops a byte order mark as RFC 8259, section 8.1 allows. */
const decoder = new TextDecoder();

const strictDecoder = new TextDecoder("utf-8", { fatal: true });

/** What stands for invalid bytes. It may stand in a text as well. */
const REPLACEMENT = "\ufffd";

/**
 * Parses the bytes of a JSON object.
 *
 * @param body The bytes, in UTF-8.
 * @returns The object.
 * @throws {HttpError} 400 `INVALID_BODY` if the bytes are not UTF-8, not JSON, not an object, or nested
 * deeper than 64 levels.
 */
export function parseJsonObject(body: Uint8Array): JsonObject {
  const value = parse(decodeUtf8(body));
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw invalidBody("Body must be a JSON object");
  }
  if (isDeeperThan(value, MAX_DEPTH)) throw invalidBody("Body is nested too deeply");
  return value as JsonObject;
}

/**
 * Decodes bytes as UTF-8.
 *
 * @param body The bytes.
 * @returns The text.
 * @throws {HttpError} 400 `INVALID_BODY` if the bytes are not UTF-8.
 */
export function decodeUtf8(body: Uint8Array): string {
  // Not by the strict decoder alone: for 7.7 KB of ASCII that takes 4.4 µs, and this 1.2.
  const text = decoder.decode(body);
  if (!text.includes(REPLACEMENT)) return text;
  try {
    return strictDecoder.decode(body);
  } catch {
    throw invalidBody("Body is not UTF-8");
  }
}

/**
 * Makes the error for a body that cannot be taken.
 *
 * @param message What is wrong with it.
 * @returns The error, 400 `INVALID_BODY`.
 */
export function invalidBody(message: string): HttpError {
  return new HttpError(400, message, { code: "INVALID_BODY" });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The parser's message quotes the body, which belongs in no response and no log.
    throw invalidBody("Body is not JSON");
  }
}

function isDeeperThan(value: object, levels: number): boolean {
  if (levels === 0) return true;
  const isTooDeep = (inner: unknown): boolean =>
    typeof inner === "object" && inner !== null && isDeeperThan(inner, levels - 1);
  if (Array.isArray(value)) return value.some(isTooDeep);
  // Without `Object.values`, which makes an array for each: for 7.7 KB 0.6 µs instead of 1.8.
  for (const key in value) if (isTooDeep((value as JsonObject)[key])) return true;
  return false;
}
