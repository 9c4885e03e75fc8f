import { Buffer } from "node:buffer";
import { nonJsonPartOf } from "../../core/json_value.ts";
import { textOf } from "../../core/text_of.ts";

/** Largest result of a step, in bytes of its JSON. In Base64 it takes 699,051: the commit of a KV takes 819,200. */
const MAX_RESULT_BYTES = 524_288;

/**
 * Writes the result of a step as JSON.
 *
 * @param value The result.
 * @returns The JSON; undefined for no result; or the flaw for which it cannot be kept.
 */
export function resultOf(
  value: unknown,
): { readonly json: string | undefined } | { readonly flaw: string } {
  if (value === undefined) return { json: undefined };
  try {
    const wrong = nonJsonPartOf(value, "result");
    if (wrong !== undefined) return { flaw: `its result must be JSON, and ${wrong}` };
    const json = JSON.stringify(value);
    const flaw = sizeFlawOf(json);
    return flaw === undefined ? { json } : { flaw };
  } catch (error) {
    // A member that throws when it is read, or too many values in each other.
    return { flaw: `its result must be JSON, and reading it throws ${textOf(error)}` };
  }
}

/** Says why the result of a step, as JSON, is too large to be stored; undefined if it is not. */
export function sizeFlawOf(json: string): string | undefined {
  const bytes = Buffer.byteLength(json);
  if (bytes <= MAX_RESULT_BYTES) return undefined;
  return `its result takes ${bytes} bytes as JSON, over ${MAX_RESULT_BYTES}. Return less, or where it is kept`;
}
