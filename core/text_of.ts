/** Text for a value that has none. */
const NO_TEXT = "A value without a text was thrown";

/** Longest text that is kept. */
const MAX_LENGTH = 1_000;

/**
 * Makes a text of any thrown value. `String` throws on some values and gives no more than
 * `[object Object]` for an object, which is shown as JSON instead.
 *
 * @param thrown The thrown value.
 * @returns The text, of at most 1,000 characters.
 */
export function textOf(thrown: unknown): string {
  return (stringOf(thrown) ?? jsonOf(thrown) ?? NO_TEXT).slice(0, MAX_LENGTH);
}

/** Makes a text with `String`; undefined if that throws. */
function stringOf(thrown: unknown): string | undefined {
  try {
    const text = String(thrown);
    const isBare = !(thrown instanceof Error) && text.includes("[object ");
    return isBare ? jsonOf(thrown) ?? text : text;
  } catch {
    return undefined;
  }
}

function jsonOf(value: unknown): string | undefined {
  try {
    const json = JSON.stringify(value, (_, each) => typeof each === "bigint" ? `${each}` : each);
    return json === "{}" ? undefined : json;
  } catch {
    return undefined; // Circular, or with a getter that throws.
  }
}

/**
 * Shortens an error to its message, in one line and without a stack.
 *
 * @param error The error.
 * @returns The message, of at most 500 characters.
 */
export function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : textOf(error);
  return message.replaceAll(/\s+/g, " ").slice(0, 500);
}

/**
 * Makes sure that a thrown value can be inspected: a proxy may throw whenever it is read.
 *
 * @param thrown The thrown value.
 * @returns The same value, or an error in its place.
 */
export function lookable(thrown: unknown): unknown {
  try {
    return thrown instanceof Error ? thrown : Object(thrown) && thrown;
  } catch {
    return new Error(NO_TEXT);
  }
}
