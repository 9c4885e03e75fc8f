import { parseArgs } from "node:util";
import { type CatchUpArguments, readCatchUp } from "./_catch_up_options.ts";
import type { EmitOptions, EventFilter, StoredEvent } from "../events/mod.ts";
import {
  type CommandName,
  COMMANDS,
  COMMON_OPTIONS,
  FILTERS,
  helpOf,
  type OptionName,
  OPTIONS,
} from "./_commands.ts";
import { type FlowCommand, type FlowOptions, isFlow } from "./_flows.ts";
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
  /** Set if it is only said what would be done. */
  readonly dryRun: boolean;
  /** Set if the user is asked before anything is done. */
  readonly asks: boolean;
  /** Name and value of `events wake`. */
  readonly wake?: { readonly name: string; readonly value: unknown } | undefined;
  readonly kv: string | undefined;
  readonly namespace: string | undefined;
  /** Choice of states or answers; undefined for a command on something else. */
  readonly flow?: FlowOptions | undefined;
  /** Event to be emitted, of the command for that. */
  readonly emission?: CliEmission;
  /** Options of `events catch-up`; undefined for another command. */
  readonly catchUp?: CatchUpArguments;
  /** File of an export; undefined for the standard output or input. */
  readonly file?: string;
  /** True if a KV file that is missing is made. */
  readonly create?: boolean;
  /** True if `events doctor` deletes what cannot be decoded. */
  readonly discard: boolean;
  /** Time for which the app remembers done events, in milliseconds; undefined for the default. */
  readonly retentionMs?: number;
}

/** Event that a command line describes. */
export interface CliEmission {
  readonly source: string;
  readonly type: string;
  /** Payload; undefined if it is read from the standard input. */
  readonly json: string | undefined;
  readonly options: EmitOptions;
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
  const common = {
    json: values.has("json"),
    limit: readLimit(values.get("limit")),
    dryRun: values.has("dry-run"),
    asks: asksBefore(command, values),
    kv: values.get("kv"),
    namespace: values.get("namespace"),
    discard: values.has("discard-unreadable"),
    ...moveOptionsOf(values),
  };
  if (command === "emit") {
    return { command, filter: {}, ...common, emission: readEmission(ids, values) };
  }
  if (command === "wake") return { command, filter: {}, ...common, wake: readWake(ids) };
  if (isFlow(command)) {
    return { command, filter: {}, ...common, flow: readFlow(command, ids, values, common) };
  }
  const filter = readFilter(command, values, now);
  checkSelection(command, ids, filter, values.has("all"));
  return {
    command,
    filter: { ...filter, ...(ids.length > 0 && { ids }) },
    ...common,
    ...(command === "catch-up" && { catchUp: readCatchUp(values, ageOf) }),
  };
}

/** Options that choose what a command changes. */
const CHOICES: readonly OptionName[] = [...FILTERS, "all"];

/** Tells whether a command asks: what is deleted cannot be brought back, and a choice may be more than meant. */
function asksBefore(command: CommandName, values: Values): boolean {
  if (values.has("yes") || values.has("dry-run")) return false;
  if (command === "purge" || command.startsWith("delete-")) return true;
  if (command === "doctor") return values.has("discard-unreadable");
  const isChange = command === "replay" || command === "cancel";
  return isChange && CHOICES.some((name) => values.has(name));
}

function moveOptionsOf(values: Values): Pick<CliOptions, "file" | "create" | "retentionMs"> {
  const file = values.get("file");
  const create = values.has("create");
  const retentionMs = readAge("retention", values);
  if (create && (!values.has("kv") || !values.has("namespace"))) {
    throw new UsageError("--create needs --kv and --namespace");
  }
  return {
    ...(file !== undefined && { file }),
    ...(create && { create }),
    ...(retentionMs !== undefined && { retentionMs }),
  };
}

function readEmission(given: readonly string[], values: Values): CliEmission {
  const [source, type, json, ...others] = given;
  if (source === undefined || type === undefined || others.length > 0) {
    throw new UsageError(
      "Give the source and the type of the event, then its payload as one argument",
    );
  }
  const [id, delay, group] = (["id", "delay", "group"] as const).map((name) => values.get(name));
  const options: EmitOptions = {
    ...(id !== undefined && { id }),
    ...(delay !== undefined && { delayMs: ageOf("delay", delay) }),
    ...(group !== undefined && { group }),
  };
  return { source, type, json, options };
}

/** Reads which states or answers are meant. What is deleted has to be chosen. */
function readFlow(
  command: FlowCommand,
  keys: readonly string[],
  values: Values,
  { json, limit, dryRun, asks }: Pick<CliOptions, "json" | "limit" | "dryRun" | "asks">,
): FlowOptions {
  const [intake, prefix] = [values.get("intake"), values.get("prefix")];
  const isChosen = keys.length > 0 || intake !== undefined || prefix !== undefined;
  if (COMMANDS[command].ids === "none" && keys.length > 0) {
    throw new UsageError(`events ${command} takes no names`);
  }
  if (values.has("all") && isChosen) throw new UsageError("--all goes with no other choice");
  if (command.startsWith("delete-") && !isChosen && !values.has("all")) {
    throw new UsageError(
      command === "delete-states"
        ? "Give keys, --intake, --prefix, or --all"
        : "Give names, --prefix, or --all",
    );
  }
  return { keys, intake, prefix: prefix ?? "", limit, json, dryRun, asks };
}

/** Reads the name that is woken, and its value. */
function readWake([name, text, ...others]: readonly string[]): CliOptions["wake"] {
  if (name === undefined) throw new UsageError("Give the name that the event waits for");
  if (others.length > 0) throw new UsageError("events wake takes a name and one JSON document");
  if (text === undefined) return { name, value: undefined };
  try {
    return { name, value: JSON.parse(text) };
  } catch {
    throw new UsageError(`The value must be JSON, such as true, 42 or '"a text"', got ${text}`);
  }
}

function readFilter(command: CommandName, values: Values, now: number): EventFilter {
  const state = values.get("state");
  const outcome = values.get("outcome");
  const type = values.get("type");
  const olderThan = readAge("older-than", values);
  const newerThan = readAge("newer-than", values);
  const settledBefore = readAge("settled-before", values);
  if (olderThan !== undefined && newerThan !== undefined && olderThan >= newerThan) {
    throw new UsageError("No event is both older than --older-than and newer than --newer-than");
  }
  const filter: EventFilter = {
    ...(state !== undefined && { state: readState(command, state) }),
    ...(outcome !== undefined && { outcome: readOutcome(command, outcome, state) }),
    ...(type !== undefined && { type }),
    ...readKind(values),
    ...(olderThan !== undefined && { receivedBefore: now - olderThan }),
    ...(newerThan !== undefined && { receivedAfter: now - newerThan }),
    ...(settledBefore !== undefined && { settledBefore: now - settledBefore }),
  };
  const name = (["outcome", "type", ...KINDS] as const).find((each) => values.has(each));
  if (filter.state === "unreadable" && name !== undefined) {
    throw new UsageError(`The ${name.replace("-", " ")} of unreadable events is not known`);
  }
  if (filter.state === "unreadable" && settledBefore !== undefined) {
    throw new UsageError("The time at which unreadable events were settled is not known");
  }
  return filter;
}

/** Options that choose events by where they come from. */
const KINDS = ["source", "repository", "chat", "ordering-key"] as const;

/** Reads the conditions on where an event comes from. */
function readKind(values: Values): EventFilter {
  const [source, repository, chat, orderingKey] = KINDS.map((name) => values.get(name));
  if (chat !== undefined && !/^-?\d{1,15}$/.test(chat)) {
    throw new UsageError(`--chat must be the id of a chat, got ${chat}`);
  }
  return {
    ...(source !== undefined && { source }),
    ...(repository !== undefined && { repository }),
    ...(chat !== undefined && { chat: Number(chat) }),
    ...(orderingKey !== undefined && { orderingKey }),
  };
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

/** States of the events that end in each way. */
const ENDS = { handled: "done", ignored: "done", failed: "dead", cancelled: "dead" } as const;

function readOutcome(
  command: CommandName,
  text: string,
  state: string | undefined,
): EventFilter["outcome"] {
  const outcomes = Object.keys(ENDS) as (keyof typeof ENDS)[];
  const outcome = outcomes.find((each) => each === text);
  if (outcome === undefined) {
    throw new UsageError(
      `--outcome must be one of ${outcomes.join(", ")}, got ${text}${hint(text, outcomes)}`,
    );
  }
  const end = ENDS[outcome];
  const states: readonly string[] = COMMANDS[command].states;
  if (!states.includes(end)) throw new UsageError(`events ${command} takes no ${end} events`);
  if (command === "replay" && end === "done" && state === undefined) {
    throw new UsageError(`Events that are ${outcome} are done: give --state done as well`);
  }
  if (state === undefined || state === "unreadable" || state === end) return outcome;
  throw new UsageError(`No event is both ${state} and ${outcome}`);
}

function readAge(
  name: "older-than" | "newer-than" | "settled-before" | "retention",
  values: Values,
): number | undefined {
  const text = values.get(name);
  return text === undefined ? undefined : ageOf(name, text);
}

/** Reads the age that an option gives, in milliseconds. */
export function ageOf(name: string, text: string): number {
  const [, number, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  if (unit !== undefined) return Number(number) * UNITS[unit]!;
  throw new UsageError(
    `--${name} must be ${
      name === "delay" ? "a time" : "an age"
    } such as 30s, 15m, 12h or 7d, got ${text}`,
  );
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
  if (topic === undefined) return "Give a command, such as events list, send or connect";
  if (Object.hasOwn(COMMANDS, topic)) {
    return `Unknown command: ${topic}, did you mean events ${topic}?`;
  }
  return `Unknown command: ${topic}${hint(topic, ["events", "send", "connect"])}`;
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
