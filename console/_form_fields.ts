import { html } from "@hono/hono/html";
import type { Html } from "./_format.ts";
import { ParameterError } from "./_http.ts";

/** Makes a field that {@linkcode fieldsOf} reads: browsers would send a line break as two characters. */
export function hidden([name, value]: readonly [string, unknown]): Html | undefined {
  if (value === undefined) return undefined;
  const text = String(value).replace(/[%\p{Cc}]/gu, encodeURIComponent);
  return html`<input type="hidden" name="${name}" value="${text}">`;
}

/** Reads the fields of the form that asks for an act. */
export function fieldsOf(form: URLSearchParams): URLSearchParams {
  try {
    return new URLSearchParams([...form].map(([name, value]) => [name, decodeURIComponent(value)]));
  } catch (error) {
    if (error instanceof URIError) throw new ParameterError("a field was not in the question");
    throw error;
  }
}
