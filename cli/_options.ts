import type { EventFilter, StoredEvent } from "../events/mod.ts";
import { hint, readArguments, refuseForeign } from "./_arguments.ts";
import { type CommandName, COMMANDS, type OptionName } from "./_commands.ts";
import { helpOf } from "./_help.ts";
import { UsageError } from "./_usage_error.ts";

/** What the command line asks for. */
export interface CliOptions {
  readonly command: CommandName;
  /** Which events are meant, the given ids among them. */
  readonly filter: EventFilter;
  readonly json: boolean;
  readonly limit: number;
  readonly kv: string | undefined;
  readonly namespace: string | undefined;
}

/** What the command line asks for, or the help text that it asks for. */
export type CliRequest = CliOptions | { readonly help: string };

const UNITS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

type Values = ReadonlyMap<OptionName, string>;

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
    throw new UsageError("Of unreadable events the type is not known");
  }
  return filter;
}

/** An event that was not looked at would be one that was not meant. */
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
