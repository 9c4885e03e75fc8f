import { parseArgs } from "node:util";
import type { EventFilter, StoredEvent } from "../events/mod.ts";
import {
  type CommandName,
  COMMANDS,
  COMMON_OPTIONS,
  helpOf,
  type OptionName,
  OPTIONS,
} from "./_commands.ts";
import { UsageError } from "./_world.ts";

const UNITS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Most letters that may be wrong in a word for a suggestion. */
const MAX_DISTANCE = 2;

/** Options of a command line. */
export interface CliOptions {
  readonly command: CommandName;
  /** Filter for the events, with the given ids. */
  readonly filter: EventFilter;
  readonly json: boolean;
  readonly limit: number;
  readonly kv: string | undefined;
  readonly namespace: string | undefined;
}

/** Options of a command line, or the help text that it asks for. */
export type CliRequest = CliOptions | { readonly help: string };

type Values = ReadonlyMap<OptionName, string>;

/** Command line, split into its parts. */
interface Arguments {
  readonly command: CommandName | undefined;
  readonly ids: readonly string[];
  /** Values of the options; an empty text for an option without one. */
  readonly values: ReadonlyMap<OptionName, string>;
}

/** Reads a command line. */
export function readOptions(args: readonly string[], now: number): CliRequest {
  const { command, ids, values } = readArguments(args);
  if (command === undefined || values.has("help")) return { help: helpOf(command) };
  refuseForeign(command, values.keys());
  const filter = readFilter(command, values, now);
  checkSelection(command, ids, filter, values.has("all"));
  return {
    command,
    filter: { ...filter, ...(ids.length > 0 && { ids }) },
    json: values.has("json"),
    limit: readLimit(values.get("limit")),
    kv: values.get("kv"),
    namespace: values.get("namespace"),
  };
}

function readFilter(command: CommandName, values: Values, now: number): EventFilter {
  const state = values.get("state");
  const type = values.get("type");
  const olderThan = readAge("older-than", values);
  const newerThan = readAge("newer-than", values);
  if (olderThan !== undefined && newerThan !== undefined && olderThan >= newerThan) {
    throw new UsageError("No event is both older than --older-than and newer than --newer-than");
  }
  const filter: EventFilter = {
    ...(state !== undefined && { state: readState(command, state) }),
    ...(type !== undefined && { type }),
    ...(olderThan !== undefined && { receivedBefore: now - olderThan }),
    ...(newerThan !== undefined && { receivedAfter: now - newerThan }),
  };
  if (filter.state === "unreadable" && type !== undefined) {
    throw new UsageError("The type of unreadable events is not known");
  }
  return filter;
}

/** Checks that the command line chooses events explicitly: a command must not change others by accident. */
function checkSelection(
  command: CommandName,
  ids: readonly string[],
  filter: EventFilter,
  all: boolean,
): void {
  const { ids: takes } = COMMANDS[command];
  const isFiltered = Object.keys(filter).length > 0;
  if (takes === "none" && ids.length > 0) {
    throw new UsageError(`events ${command} takes no ids (events show does)`);
  }
  if (takes === "needed" && ids.length === 0) throw new UsageError("Give the ids of events");
  if (takes !== "some") return;
  if (ids.length === 0 && !isFiltered && !all) throw new UsageError("Give ids, a filter, or --all");
  if (all && (ids.length > 0 || isFiltered)) {
    throw new UsageError("--all goes with neither ids nor a filter");
  }
}

function readState(command: CommandName, text: string): StoredEvent["state"] {
  const states: readonly StoredEvent["state"][] = COMMANDS[command].states;
  const state = states.find((each) => each === text);
  if (state !== undefined) return state;
  const known = states.length === 1 ? states[0] : `one of ${states.join(", ")}`;
  throw new UsageError(
    `--state of events ${command} must be ${known}, got ${text}${hint(text, states)}`,
  );
}

function readAge(name: "older-than" | "newer-than", values: Values): number | undefined {
  const text = values.get(name);
  if (text === undefined) return undefined;
  const [, number, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  if (unit !== undefined) return Number(number) * UNITS[unit]!;
  throw new UsageError(`--${name} must be an age such as 30s, 15m, 12h or 7d, got ${text}`);
}

function readLimit(text: string | undefined): number {
  if (text === undefined) return Infinity;
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new UsageError(`--limit must be a number from 1, got ${text}`);
}

/** Splits a command line into its parts: `events COMMAND [ID...] [--OPTION ...]`. */
function readArguments(args: readonly string[]): Arguments {
  const options = Object.fromEntries(
    Object.entries(OPTIONS).map(([name, { value }]) => [
      name,
      { type: value === undefined ? "boolean" as const : "string" as const },
    ]),
  );
  const { tokens } = parseArgs({
    args: args.map((arg) => arg === "-h" ? "--help" : arg),
    options,
    allowPositionals: true,
    strict: false,
    tokens: true,
  });
  const values = new Map<OptionName, string>();
  const positionals: string[] = [];
  for (const token of tokens) {
    if (token.kind === "positional") positionals.push(token.value);
    if (token.kind !== "option") continue;
    const name = nameOf(token.rawName);
    if (values.has(name)) throw new UsageError(`--${name} is given twice`);
    values.set(name, valueOf(name, token.value, token.inlineValue ?? false));
  }
  const [topic, command, ...ids] = positionals;
  const isHelp = values.has("help");
  if (topic === undefined && isHelp) return { command: undefined, ids, values };
  if (topic !== "events") throw new UsageError(topicMessage(topic));
  if (command === undefined && isHelp) return { command, ids, values };
  return { command: commandOf(command), ids, values };
}

/** Refuses options that a command does not have. */
function refuseForeign(command: CommandName, names: Iterable<OptionName>): void {
  const own: readonly OptionName[] = [...COMMANDS[command].options, ...COMMON_OPTIONS];
  for (const name of names) {
    if (!own.includes(name)) throw new UsageError(`events ${command} has no --${name}`);
  }
}

function nameOf(rawName: string): OptionName {
  const names = Object.keys(OPTIONS) as OptionName[];
  const name = names.find((each) => `--${each}` === rawName);
  if (name !== undefined) return name;
  throw new UsageError(
    `Unknown option ${rawName}${hint(rawName, names.map((each) => `--${each}`))}`,
  );
}

function valueOf(name: OptionName, value: string | undefined, isInline: boolean): string {
  const wanted = OPTIONS[name].value;
  if (wanted === undefined) {
    if (value !== undefined) throw new UsageError(`--${name} takes no value`);
    return "";
  }
  // A value that begins with a dash is the next option, unless it is joined by "=".
  if (!value || (!isInline && value.startsWith("-"))) {
    throw new UsageError(`--${name} needs a value: --${name} ${wanted}`);
  }
  return value;
}

function commandOf(text: string | undefined): CommandName {
  const names = Object.keys(COMMANDS) as CommandName[];
  if (text === undefined) throw new UsageError(`Give a command: ${names.join(", ")}`);
  const name = names.find((each) => each === text);
  if (name !== undefined) return name;
  throw new UsageError(`Unknown command: events ${text}${hint(text, names)}`);
}

function topicMessage(topic: string | undefined): string {
  if (topic === undefined) return "Give a command, such as events list, or send";
  if (Object.hasOwn(COMMANDS, topic)) {
    return `Unknown command: ${topic}, did you mean events ${topic}?`;
  }
  return `Unknown command: ${topic}${hint(topic, ["events", "send"])}`;
}

/** Suggests a known word for an unknown one. */
function hint(word: string, words: readonly string[]): string {
  const meant = nearest(word, words);
  return meant === undefined ? "" : `, did you mean ${meant}?`;
}

/** Finds the most similar word; undefined if none is similar. */
function nearest(word: string, words: readonly string[]): string | undefined {
  const [first] = words
    .map((each) => ({ each, distance: each.startsWith(word) ? 0 : distanceOf(word, each) }))
    .filter(({ distance, each }) => distance <= Math.min(MAX_DISTANCE, each.length - 2))
    .sort((a, b) => a.distance - b.distance);
  return first?.each;
}

/** Counts the letters to insert, delete or replace (Levenshtein distance). */
function distanceOf(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row.at(-1)!;
}
