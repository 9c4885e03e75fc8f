/** What is written of a value that has no text. */
const NO_TEXT = "A value without a text was thrown";

/** How much of a value's text is kept. */
const MAX_LENGTH = 1_000;

/**
 * Makes a text of anything that can be thrown. `String` throws on some values, and of an object says no
 * more than `[object Object]`: what such a one holds is told by JSON.
 *
 * @param thrown What was thrown.
 * @returns Its text, of at most 1,000 characters.
 */
export function textOf(thrown: unknown): string {
  return (stringOf(thrown) ?? jsonOf(thrown) ?? NO_TEXT).slice(0, MAX_LENGTH);
}

/** A text that tells something; undefined where it would be `[object Object]`. */
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
 * Tells what a person can act on of an error.
 *
 * @param error The error.
 * @returns Its message, without a stack, and in one line.
 */
export function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : textOf(error);
  return message.replaceAll(/\s+/g, " ").slice(0, 500);
}

/**
 * Makes something that can be looked at of anything that can be thrown: a proxy may throw at every look.
 *
 * @param thrown What was thrown.
 * @returns The same, or an error in its place.
 */
export function lookable(thrown: unknown): unknown {
  try {
    return thrown instanceof Error ? thrown : Object(thrown) && thrown;
  } catch {
    return new Error(NO_TEXT);
  }
}
