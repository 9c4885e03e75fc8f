import { decodeUtf8 } from "./parse_json.ts";

/** The media type of a form. */
export const FORM_TYPE = "application/x-www-form-urlencoded";

/**
 * What a form consists of. The media type is not signed: without this a signed JSON document, which
 * always has a brace, could be sent as a form, and a text in it be taken for the payload.
 */
const FORM = /^[\w*.~!'()+%&=:;,@/?$-]*$/;

const encoder = new TextEncoder();

/**
 * Finds the one field of a name in a form. Not with `URLSearchParams`, which takes any text for a form
 * and replaces invalid UTF-8.
 *
 * @param body The form.
 * @param name The field's name.
 * @returns What the field holds; undefined if it is not there once, or the body is no form.
 */
export function formField(body: Uint8Array, name: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    const form = decodeUtf8(body);
    if (!FORM.test(form)) return undefined;
    const fields = form.split("&").filter((field) => field.startsWith(`${name}=`));
    const value = fields[0]?.slice(name.length + 1).replaceAll("+", " ");
    return fields.length === 1 ? encoder.encode(decodeURIComponent(value!)) : undefined;
  } catch {
    return undefined;
  }
}
