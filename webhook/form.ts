import { decodeUtf8 } from "../core/parse_json.ts";

/** Bytes that are read part by part. It returns false if they turn out to be malformed. */
export type Parts = Generator<Uint8Array<ArrayBuffer>, boolean>;

/** The media type of a form. */
export const FORM_TYPE = "application/x-www-form-urlencoded";

/**
 * The characters of a form. The media type is not signed: if any character were allowed, a signed JSON
 * document, which always has a brace, could be sent as a form, and a text in it be taken for the payload.
 */
const FORM = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_*.~!'()=:;,@/?$-";

const DIGITS = "0123456789abcdefABCDEF";

const [MALFORMED, ESCAPE, END] = [-1, -2, -3];

const encoder = new TextEncoder();

/** The meaning of each byte of a form. */
const MEANING = new Int16Array(256).fill(MALFORMED);
for (const byte of encoder.encode(FORM)) MEANING[byte] = byte;
for (const [char, meaning] of [["+", 32], ["%", ESCAPE], ["&", END]] as const) {
  MEANING[char.charCodeAt(0)] = meaning;
}

/** The value of each byte as a hexadecimal digit; more than a byte can hold if it is not one. */
const DIGIT = new Uint16Array(256).fill(256);
for (const digit of DIGITS) DIGIT[digit.charCodeAt(0)] = parseInt(digit, 16);

/**
 * Finds the only field with a name in a form. It does not use `URLSearchParams`, which accepts any text
 * as a form and replaces invalid UTF-8.
 *
 * @param body The form.
 * @param name The field's name.
 * @returns The field's value; undefined unless the field is there exactly once and the body is a form in
 * UTF-8.
 */
export function formField(body: Uint8Array, name: string): Uint8Array<ArrayBuffer> | undefined {
  const prefix = encoder.encode(`${name}=`);
  let [start, size, count] = [0, 0, 0];
  let [isFirst, isIn] = [true, false];
  for (let i = 0; i < body.length; i++) {
    const meaning = MEANING[body[i]!]!;
    if (meaning === MALFORMED) return undefined;
    if (isFirst && startsWith(body, prefix, i)) {
      [start, size, isIn] = [i + prefix.length, -prefix.length, true];
      count++;
    }
    isFirst = meaning === END;
    if (isFirst) isIn = false;
    else if (isIn) size += meaning === ESCAPE ? -1 : 1;
  }
  if (count !== 1 || size < 0) return undefined;
  const field = new Uint8Array(size);
  const { isRight, next } = decode(body, start, field);
  // An escape that is cut off by the field's end makes the field longer than its value.
  const isWhole = next === body.length || MEANING[body[next]!] === END;
  return isRight && isWhole && isUtf8(field) ? field : undefined;
}

/**
 * Decodes the first field of a form part by part, and holds only one part in memory.
 *
 * @param body The form.
 * @param name The field's name.
 * @param partBytes The size of a part.
 * @yields The next part of the field's value. The part after it reuses its memory.
 * @returns Whether the field has this name, and could be decoded to its end.
 */
export function* firstField(body: Uint8Array, name: string, partBytes: number): Parts {
  const prefix = encoder.encode(`${name}=`);
  if (!startsWith(body, prefix, 0)) return false;
  const part = new Uint8Array(Math.min(partBytes, body.length));
  for (let at = prefix.length;;) {
    const { isRight, size, next } = decode(body, at, part);
    if (!isRight) return false;
    yield part.subarray(0, size);
    if (size < part.length) return true;
    at = next;
  }
}

/** Decodes a field's value from an offset on, until the value or the target ends. */
function decode(body: Uint8Array, start: number, target: Uint8Array) {
  let [next, size] = [start, 0];
  for (; next < body.length && size < target.length; next++) {
    let byte = MEANING[body[next]!]!;
    if (byte === END) break;
    if (byte === ESCAPE) {
      byte = DIGIT[body[next + 1]!]! << 4 | DIGIT[body[next + 2]!]!;
      next += 2;
      // A digit past the body's end is missing, too.
      if (!(next < body.length && byte <= 255)) return { isRight: false, size, next };
    } else if (byte === MALFORMED) return { isRight: false, size, next };
    target[size++] = byte;
  }
  return { isRight: true, size, next };
}

function startsWith(body: Uint8Array, prefix: Uint8Array, at: number): boolean {
  for (let i = 0; i < prefix.length; i++) if (body[at + i] !== prefix[i]) return false;
  return true;
}

function isUtf8(bytes: Uint8Array): boolean {
  try {
    decodeUtf8(bytes);
    return true;
  } catch {
    return false;
  }
}
