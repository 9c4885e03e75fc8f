import { parseArgs } from "node:util";
import type { EventFilter, EventState } from "../webhook/mod.ts";

/** A command line that cannot be understood. The message says why. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** What the command line asks for. */
export interface CliOptions {
  readonly command: string;
  readonly ids: readonly string[];
  readonly filter: EventFilter;
  /** Whether a filter was given. */
  readonly filtered: boolean;
  readonly all: boolean;
  readonly json: boolean;
  readonly limit: number;
  readonly kv: string | undefined;
  readonly namespace: string | undefined;
  readonly help: boolean;
}

const STATES: readonly EventState[] = ["queued", "running", "done", "dead"];

const UNITS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

const OPTIONS = {
  all: { type: "boolean" },
  help: { type: "boolean", short: "h" },
  json: { type: "boolean" },
  kv: { type: "string" },
  limit: { type: "string" },
  namespace: { type: "string" },
  "newer-than": { type: "string" },
  "older-than": { type: "string" },
  state: { type: "string" },
  type: { type: "string" },
} as const;

/** Reads a command line: `events COMMAND [ID...] [--OPTION ...]`. */
export function readOptions(args: readonly string[], now: number): CliOptions {
  const { values, positionals } = parse(args);
  const [topic, command = "", ...ids] = positionals;
  const help = values.help === true || topic === undefined;
  if (!help && topic !== "events") throw new UsageError(`Unknown topic: ${topic}`);
  const { state, type, "older-than": olderThan, "newer-than": newerThan } = values;
  const filter: EventFilter = {
    ...(state === undefined ? {} : { state: stateOf(state) }),
    ...(type === undefined ? {} : { type }),
    ...(olderThan === undefined ? {} : { receivedBefore: now - durationOf(olderThan) }),
    ...(newerThan === undefined ? {} : { receivedAfter: now - durationOf(newerThan) }),
  };
  return {
    command,
    ids,
    filter,
    filtered: Object.keys(filter).length > 0,
    all: values.all === true,
    json: values.json === true,
    limit: values.limit === undefined ? Infinity : countOf(values.limit),
    kv: values.kv,
    namespace: values.namespace,
    help,
  };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

function stateOf(text: string): EventState {
  const state = STATES.find((each) => each === text);
  if (state === undefined) throw new UsageError(`--state must be one of ${STATES.join(", ")}`);
  return state;
}

function durationOf(text: string): number {
  const [, number, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  if (unit === undefined) {
    throw new UsageError(`Not a duration such as 30s, 15m, 12h or 7d: ${text}`);
  }
  return Number(number) * UNITS[unit]!;
}

function countOf(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new UsageError(`--limit must be a number: ${text}`);
  return Number(text);
}
