/**
 * Texts as Postgres can hold them. The type `text` refuses NUL, and half of a surrogate pair has no UTF-8: a value with
 * either would fail the statement that it shares with others. Those that things are found by: `../sql/key_texts.ts`.
 *
 * @module
 */

/** Makes a text that people look at, and nothing is found by. */
export function shownText(text: string | undefined): string | null {
  return text === undefined ? null : text.replaceAll("\u0000", "\ufffd").toWellFormed();
}
