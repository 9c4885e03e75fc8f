/**
 * Texts that things are found by, such as ids, as an SQL database can hold them: Postgres refuses NUL, and what
 * `node:sqlite` reads of a text ends there.
 *
 * @module
 */

/** Escapes for NUL and the escape itself: the order of the bytes stays, and so does what is different. */
const [NUL, ESCAPE] = ["\u0001\u0001", "\u0001\u0002"] as const;

// deno-lint-ignore no-control-regex
const UNSAFE = /[\u0000\u0001]/;

/** Encodes a text that things are found by, such as an id. Nearly all stay as they are. */
export function keyText(text: string): string {
  if (!UNSAFE.test(text)) return text;
  return text.replaceAll("\u0001", ESCAPE).replaceAll("\u0000", NUL);
}

/** Decodes what {@linkcode keyText} has encoded. */
export function textOfKey(key: string): string {
  if (!UNSAFE.test(key)) return key;
  return key.replaceAll(NUL, "\u0000").replaceAll(ESCAPE, "\u0001");
}
