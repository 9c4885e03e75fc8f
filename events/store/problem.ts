/**
 * The problem that an error belongs to: errors with the same message, but for ids, numbers and what is quoted, of the
 * same handler and source.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { isText } from "../../core/shape.ts";

/** The number of characters of an error's first line that count, before and after it is normalized. */
const [MAX_LINE, MAX_PATTERN] = [1_000, 300] as const;

/** The length of a problem's id: 64 bits. */
const ID_LENGTH = 16;

/** Stands for everything that differs between errors of the same cause. */
const ANY = "#";

/** Digits that stay, such as those of a status, are characters for private use until all others are gone. */
const KEPT_DIGIT = 0xe000;

/** The first port that a system gives out by itself: one below is that of a service, and tells which. */
const FIRST_OWN_PORT = 32_768;

/** Origin of an error. */
export interface ErrorOrigin {
  /** The intake, or the source of the app. */
  readonly source: string;
  /** The handler, or the type of the event if it is not known. */
  readonly handler: string;
}

/** Checks whether a value can be the id of a problem. */
export function isProblemId(value: unknown): value is string {
  return isText(value) && /^[0-9a-z]{1,40}$/.test(value);
}

/**
 * Finds the problem that an error belongs to.
 *
 * @param origin The source and the handler.
 * @param error The text of the error: its name and its message.
 * @returns The id, 16 hexadecimal digits: the same in each process.
 */
export function problemIdOf({ source, handler }: ErrorOrigin, error: string): string {
  const text = JSON.stringify([source, handler, patternOf(error)]);
  return createHash("sha256").update(text).digest("hex").slice(0, ID_LENGTH);
}

const MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*";
const DAY = "(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*";
const UNIT =
  "(?:ms|s|secs?|seconds?|milliseconds?|mins?|minutes?|h|hours?|d|days?|[kmg]?i?b|bytes?|chars?|characters?|%)";

/** Parts that are replaced, in this order, and by what. */
const RULES: readonly (readonly [RegExp, string | ((...parts: string[]) => string)])[] = [
  // A status and a code of an error tell the cause.
  [
    /\b(status|code|http(?:\/\d(?:\.\d)?)?|sqlstate|errno)((?: code)?[\s:=(#"'-]{0,3})(\d{1,5})\b/gi,
    keepCode,
  ],
  [/\b([1-5]\d\d)(?=:? \(?(?:[A-Z][a-z]+|I'm)\b)/g, (digits) => kept(digits)],
  [/\b[a-z][a-z\d+.-]*:\/\/[^\s"'`<>()[\]{}]+/gi, hostOf],
  [/[\w.+%-]+@[\w-]+(?:\.[\w-]+)+/g, ANY],
  [/\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z| ?[+-]\d\d:?\d\d)?)?(?!\w)/g, ANY],
  [
    new RegExp(
      `\\b(?:${DAY},? )?(?:${MONTH} \\d{1,2}|\\d{1,2} ${MONTH}),?(?: \\d{4})?(?:,? \\d\\d?:\\d\\d(?::\\d\\d)?)?` +
        "(?: ?(?:GMT|UTC)(?:[+-]\\d{4})?)?(?: \\([A-Z][a-z]+(?: [A-Z][a-z]+)+\\))?",
      "gi",
    ),
    ANY,
  ],
  [/(?:::ffff:)?\b\d{1,3}(?:\.\d{1,3}){3}\b(?::(\d+))?/g, (_, port) => `<ip>${portOf(port)}`],
  [/\[?(?<![\w:])::1\]?:(\d+)(?![\w:])/g, (_, port) => `<ip>${portOf(port)}`],
  [
    /(?<![\w:])\[?(?:[\da-f]{0,4}:){2,7}[\da-f]{0,4}\]?(?::(\d+))?(?![\w:])/gi,
    (_, port) => `<ip>${portOf(port)}`,
  ],
  [/\b(localhost):(\d+)\b/g, (_, host, port) => `${host}${portOf(port)}`],
  // The name of a property or a column tells the cause, and nearly all else that is quoted does not.
  [
    /\b(reading|setting|property|properties|column|relation|table|constraint|index|field|option|parameter|argument|variable|method|function|module|command|flag) (["'`])([A-Za-z_$][\w$.-]{0,63})\2/gi,
    (_, what, _quote, name) => `${what} ${kept(name)}`,
  ],
  [/"(?:[^"\\]|\\.)*(?:"|$)/g, quoted],
  [/`[^`]*(?:`|$)/g, quoted],
  [/[“«„][^”»“]*(?:[”»“]|$)/g, ANY],
  [/(?<!\w)'(?:[^'\\]|\\.)*?'(?!\w)/g, quoted],
  [/\{[^{}]*\}/g, ANY],
  [/\{[^{}]*\}/g, ANY],
  [/\[(?![A-Za-z ]+\]|[A-Z][A-Z\d]*_[A-Z\d_]+\])[^[\]]*(?:\]|$)/g, ANY],
  [/\{.*$/g, ANY],
  [/(?<![\w/<])[@#][\w-]+/g, ANY],
  [/(?<![\w<])(?:[A-Za-z]:)?[\w.~@%+-]*(?:[/\\][\w.~@%+#?&=-]*[\w])+(?::\d+)*/g, ANY],
  // An id, a hash or a name with a number in it, but for a code as ERR_HTTP2_STREAM_ERROR.
  [/(?<![\w])[\w-]*\d[\w-]*/g, (word) => /^[A-Z\d]+(?:_[A-Z\d]+)+$/.test(word) ? kept(word) : ANY],
  [new RegExp(`[-+]?#(?:[.,:]#)*(?: ?${UNIT}(?![\\w]))?`, "gi"), ANY],
  // A part of an id by chance has no digit.
  [/\b[\da-f]{3,}(?=:#)|(?<=#:)[\da-f]{3,}\b/g, ANY],
  [/#(?:[\s,;:+-]+(?:and |or )?#)+/g, ANY],
  [/\s+/g, " "],
];

/**
 * Normalizes the text of an error: what differs between errors of the same cause is `#`. The name of the error, the
 * host of an address, and a status stay.
 *
 * @param error The text of the error. Only its first line counts.
 * @returns The pattern, of up to 300 characters.
 */
export function patternOf(error: string): string {
  const [line = ""] = error.trimStart().slice(0, MAX_LINE).split(/[\r\n]/, 1);
  const [, name = "", rest = ""] =
    /^((?:Uncaught )?(?:[A-Za-z_$][\w$]*(?:Error|Exception)\b)?)(.*)$/s.exec(line) ?? [];
  const pattern = RULES.reduce(
    (text, [what, by]) => text.replace(what, by as string),
    rest.replaceAll(/[\ue000-\uf8ff]/g, ""),
  );
  return `${name}${shown(pattern)}`.trim().slice(0, MAX_PATTERN);
}

/** Keeps the digits of a text through all rules. */
function kept(text: string): string {
  return text.replaceAll(
    /[\w$.-]/g,
    (each) => String.fromCharCode(KEPT_DIGIT + each.charCodeAt(0)),
  );
}

function shown(text: string): string {
  return text.replaceAll(
    /[\ue000-\ue0ff]/g,
    (each) => String.fromCharCode(each.charCodeAt(0) - KEPT_DIGIT),
  );
}

function keepCode(_: string, what: string, between: string, code: string): string {
  return `${kept(what)}${between.replaceAll(/["'#]/g, " ")}${kept(code)}`;
}

/** Names the host of a URL: which one cannot be reached tells the cause, but for a part with a number. */
function hostOf(url: string): string {
  const [, host = ""] = /^[^/]*\/\/(?:[^/@]*@)?([^/:?#]*)/.exec(url) ?? [];
  return `<${host.replaceAll(/[\w-]*\d[\w-]*/g, ANY).replaceAll(/(?:#\.)+/g, "#.")}>`;
}

/** Shows the port of a service. One that a system has given out differs each time. */
function portOf(port: string | undefined): string {
  if (port === undefined) return "";
  return Number(port) < FIRST_OWN_PORT ? `:${kept(port)}` : `:${ANY}`;
}

/** Leaves only the host of what is quoted. */
function quoted(text: string): string {
  return /^.<[a-z#][\w.#-]*>.?$/i.test(text) ? text.slice(1).replace(/["'`]$/, "") : ANY;
}
