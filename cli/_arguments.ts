import { parseArgs } from "node:util";
import {
  type CommandName,
  COMMANDS,
  COMMON_OPTIONS,
  type OptionName,
  OPTIONS,
} from "./_commands.ts";
import { nearest } from "./_nearest.ts";
import { UsageError } from "./_usage_error.ts";

/** The command line, cut into its parts. */
export interface Arguments {
  readonly command: CommandName | undefined;
  readonly ids: readonly string[];
  /** The values of options; a text where one takes a value, else an empty one. */
  readonly values: ReadonlyMap<OptionName, string>;
}

/** Cuts a command line into its parts: `events COMMAND [ID...] [--OPTION ...]`. */
export function readArguments(args: readonly string[]): Arguments {
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

/** Refuses the options that a command does not have. */
export function refuseForeign(command: CommandName, names: Iterable<OptionName>): void {
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
  // What begins with a dash is the next option, unless it is joined by "=".
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
  if (topic === undefined) return "Give a command: events list, for instance, or send";
  if (Object.hasOwn(COMMANDS, topic)) {
    return `Unknown command: ${topic}, did you mean events ${topic}?`;
  }
  return `Unknown command: ${topic}${hint(topic, ["events", "send"])}`;
}

/** What an unknown word may have been meant to be. */
export function hint(word: string, words: readonly string[]): string {
  const meant = nearest(word, words);
  return meant === undefined ? "" : `, did you mean ${meant}?`;
}
