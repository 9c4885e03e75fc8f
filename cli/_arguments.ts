/**
 * Command lines. The parser, its messages and the help texts work from tables of options.
 *
 * @module
 */
import { parseArgs } from "node:util";
import { httpUrl, keepsSecrets } from "../core/hosts.ts";
import { nearestOf } from "../core/nearest.ts";
import { UsageError } from "./_world.ts";

/** Width of help texts, in columns. */
const WIDTH = 96;

/** Width of the column with the options' names. */
const NAME_WIDTH = 20;

/** Options of every command line. */
export const COMMON = {
  json: { about: "one JSON document per line" },
  help: { about: "this text" },
} as const;

/** Units of times, in milliseconds. */
export const UNITS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Option of a command. */
interface Option<T = unknown> {
  readonly about: string;
  /** Word for its value in help texts; undefined if it takes none. */
  readonly value?: string;
  /** Form of the value, for the message. */
  readonly must?: string;
  /** Reads the value; undefined if it has another form. By default it is any text. */
  readonly read?: (text: string) => T | undefined;
  /** Words that the value may be, for a suggestion. */
  readonly words?: readonly string[];
}

/** Options by their names, without the dashes. */
export type Options = Readonly<Record<string, Option>>;

/** Values of the options that are given: true for one without a value. */
export type Values<O extends Options> = {
  readonly [K in keyof O]?: O[K] extends { readonly read: (text: string) => infer T }
    ? Exclude<T, undefined>
    : O[K] extends { readonly value: string } ? string
    : boolean;
};

/** Command line, split into its parts. */
interface CommandLine {
  /** Words that are not options. */
  readonly words: readonly string[];
  /** Texts of the options; an empty one for an option without a value. */
  readonly given: ReadonlyMap<string, string>;
}

/** Makes an option whose value must have a form. */
export function formed<T>(
  value: string,
  about: string,
  must: string,
  read: (text: string) => T | undefined,
): { readonly value: string; about: string; must: string; read: (text: string) => T | undefined } {
  return { value, about, must, read };
}

/** Makes an option whose value is a text of a pattern. */
export function matching(value: string, about: string, [must, pattern]: readonly [string, RegExp]) {
  return formed(value, about, must, (text) => pattern.test(text) ? text : undefined);
}

/** Makes an option whose value is a whole number. */
export function numeric(value: string, about: string, min = -Infinity, max = Infinity) {
  const [from, to] = [
    min === -Infinity ? "" : ` from ${min}`,
    max === Infinity ? "" : ` to ${max}`,
  ];
  return formed(value, about, `a number${from}${to}`, (text) => {
    const number = /^-?\d{1,15}$/.test(text) ? Number(text) : NaN;
    return number >= min && number <= max ? number : undefined;
  });
}

/** Makes an option whose value is a time such as 15m, in milliseconds. */
export function timed(value: string, about: string, what = "an age") {
  return formed(value, about, `${what} such as 30s, 15m, 12h or 7d`, (text) => {
    const [, number, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
    return unit === undefined ? undefined : Number(number) * UNITS[unit]!;
  });
}

/** Makes an option whose value is one of some words. */
export function oneOf<T extends string>(value: string, about: string, words: readonly T[]) {
  const read = (text: string) => words.find((each) => each === text);
  return { ...formed(value, about, `one of ${words.join(", ")}`, read), words };
}

/** Makes an option whose value is the address of a platform's API, without a slash at its end. */
export function apiOption(about: string) {
  return formed("URL", about, "the address of an API, without user and query", (text) => {
    const url = httpUrl(text);
    if (url === undefined || url.username || url.search || url.hash) return undefined;
    if (keepsSecrets(url)) return url.href.replace(/\/+$/, "");
    throw new UsageError(`--api must begin with https:, since ${url.host} is not in this network`);
  });
}

/**
 * Splits a command line. Options may stand anywhere, each once.
 *
 * @throws {UsageError} If there is no such option, or its value is missing.
 */
export function splitArguments(args: readonly string[], options: Options): CommandLine {
  const types = Object.entries(options).map(([name, { value }]) =>
    [name, { type: value === undefined ? "boolean" : "string" }] as const
  );
  const { tokens } = parseArgs({
    args: args.map((arg) => arg === "-h" ? "--help" : arg),
    options: Object.fromEntries(types),
    ...{ allowPositionals: true, strict: false, tokens: true },
  });
  const given = new Map<string, string>();
  const words: string[] = [];
  for (const token of tokens) {
    if (token.kind === "positional") words.push(token.value);
    if (token.kind !== "option") continue;
    const name = nameOf(token.rawName, options);
    if (given.has(name)) throw new UsageError(`--${name} is given twice`);
    given.set(name, textOf(name, options[name]!, token.value, token.inlineValue ?? false));
  }
  return { words, given };
}

function nameOf(rawName: string, options: Options): string {
  const names = Object.keys(options).map((name) => `--${name}`);
  if (names.includes(rawName)) return rawName.slice(2);
  if ("secret-file" in options && /^--(secret|token)$/.test(rawName)) {
    throw new UsageError(
      `There is no ${rawName}, since the process list would show it: set the variable (--help names it), or ` +
        "name a file that holds the secret with --secret-file",
    );
  }
  throw new UsageError(`Unknown option ${rawName}${hint(rawName, names)}`);
}

function textOf(
  name: string,
  { value: wanted }: Option,
  value: string | undefined,
  isInline: boolean,
): string {
  if (wanted === undefined) {
    if (value !== undefined) throw new UsageError(`--${name} takes no value`);
    return "";
  }
  // A value that begins with a dash is the next option, unless it is joined by "=" or a number:
  // no option begins with a digit, and the ids of Telegram's groups are negative.
  if (!value || (!isInline && /^-(?!\d)/.test(value))) {
    throw new UsageError(`--${name} needs a value: --${name} ${wanted}`);
  }
  return value;
}

/**
 * Reads the values of a command's options.
 *
 * @throws {UsageError} If the command has no such option, or a value has another form.
 */
export function readValues<O extends Options>(
  command: string,
  options: O,
  given: CommandLine["given"],
): Values<O> {
  const values: Record<string, unknown> = {};
  for (const [name, text] of given) {
    if (!Object.hasOwn(options, name)) throw new UsageError(`${command} has no --${name}`);
    const { value, read, must, words = [] } = options[name]!;
    values[name] = value === undefined ? true : read === undefined ? text : read(text);
    if (values[name] !== undefined) continue;
    // A URL may hold a password.
    const got = text.includes("//") ? "" : `, got ${text}${hint(text, words)}`;
    throw new UsageError(`--${name} must be ${must}${got}`);
  }
  return values as Values<O>;
}

/** Makes a part of a help text: a title, and lines below it. */
export function section(title: string, lines: readonly string[]): string[] {
  return [title, ...lines.map((line) => `  ${line}`), ""];
}

/** Makes the lines of a help text that describe options. */
export function optionLines(options: Options): string[] {
  return Object.entries(options).flatMap(([name, { value, about }]) => {
    const usage = `--${name}${value === undefined ? "" : ` ${value}`}`;
    const [first, ...rest] = wrap(about, WIDTH - NAME_WIDTH);
    const indent = "".padEnd(NAME_WIDTH + 1);
    return [`${usage.padEnd(NAME_WIDTH)} ${first}`, ...rest.map((line) => indent + line)];
  });
}

/** Breaks a text into lines. */
export function wrap(text: string, width = WIDTH): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const line = lines.at(-1);
    if (line === undefined || line.length + word.length >= width) lines.push(word);
    else lines[lines.length - 1] = `${line} ${word}`;
  }
  return lines;
}

/** Suggests a known word for an unknown one. */
export function hint(word: string, words: readonly string[]): string {
  const nearest = nearestOf(word, words);
  return nearest === undefined ? "" : `, did you mean ${nearest}?`;
}
