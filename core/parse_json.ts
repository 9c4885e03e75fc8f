/**
 * A parsed JSON object.
 *
 * @category Platforms
 */
export type JsonObject = { readonly [key: string]: unknown };

/** Deeper than any platform's payload, and far from where recursion overflows the stack. */
const MAX_DEPTH = 64;

/** Drops a byte order mark as RFC 8259, section 8.1 allows. */
const decoder = new TextDecoder();

const strictDecoder = new TextDecoder("utf-8", { fatal: true });

/** The character that replaces invalid bytes. A valid text may contain it as well. */
const REPLACEMENT = "\ufffd";

/**
 * Parses the bytes of a JSON object.
 *
 * @param body The bytes, in UTF-8.
 * @returns The object.
 * @throws {SyntaxError} If the bytes are not UTF-8, not JSON, not an object, or nested deeper than 64
 * levels. The message quotes none of them.
 */
export function parseJsonObject(body: Uint8Array): JsonObject {
  const value = parse(decodeUtf8(body));
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new SyntaxError("Body must be a JSON object");
  }
  if (isDeeperThan(value, MAX_DEPTH)) throw new SyntaxError("Body is nested too deeply");
  return value as JsonObject;
}

/**
 * Decodes bytes as UTF-8.
 *
 * @param body The bytes.
 * @returns The text.
 * @throws {SyntaxError} If the bytes are not UTF-8.
 */
export function decodeUtf8(body: Uint8Array): string {
  // For 7.7 KB of ASCII the strict decoder takes 4.4 µs, and this 1.2.
  const text = decoder.decode(body);
  if (!text.includes(REPLACEMENT)) return text;
  try {
    return strictDecoder.decode(body);
  } catch {
    throw new SyntaxError("Body is not UTF-8");
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The parser's message quotes the body, and that belongs in no response and no log.
    throw new SyntaxError("Body is not JSON");
  }
}

function isDeeperThan(value: object, levels: number): boolean {
  if (levels === 0) return true;
  const isTooDeep = (inner: unknown): boolean =>
    typeof inner === "object" && inner !== null && isDeeperThan(inner, levels - 1);
  if (Array.isArray(value)) return value.some(isTooDeep);
  // `Object.values` makes an array for each object: for 7.7 KB 1.8 µs instead of 0.6.
  for (const key in value) if (isTooDeep((value as JsonObject)[key])) return true;
  return false;
}

/** Reads a field of a value that may be an object, and not an inherited one: `__proto__` must not decide who is allowed. */
export function fieldOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined;
}
