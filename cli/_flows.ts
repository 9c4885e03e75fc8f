/** Commands on what flows keep beside events: states, answers that no event has taken, and schedules. */
import type { EventStore, ListedState, UntakenAnswer } from "../events/mod.ts";
import { readNote } from "../events/schedules/slots.ts";
import { openSlotNotes } from "../events/store/kv/notes.ts";
import type { CommandName } from "./_commands.ts";
import { oneLine } from "../core/log.ts";
import { isoOf } from "./_output.ts";
import { type CliWorld, confirmed, InterruptedError } from "./_world.ts";

/** Most characters of a value in a line. */
const MAX_VALUE = 100;

/** Choice of states or answers. */
export interface FlowOptions {
  /** Keys of states, or names of answers; none for all. */
  readonly keys: readonly string[];
  /** Intake of states; undefined for all. */
  readonly intake: string | undefined;
  /** Beginning of their keys or names. */
  readonly prefix: string;
  /** Most lines. */
  readonly limit: number;
  readonly json: boolean;
  /** Set if it is only said what would be done. */
  readonly dryRun: boolean;
  /** Set if the user is asked before anything is done. */
  readonly asks: boolean;
}

/** Store that a command works on, and the namespace of its schedules. */
export interface FlowStore {
  readonly store: EventStore;
  readonly namespace: string;
}

/** Runs a command; returns false if something that was named is not there. */
type Run = (from: FlowStore, options: FlowOptions, world: CliWorld) => Promise<boolean>;

/** Commands on what flows keep. */
export const FLOWS = {
  states: showStates,
  "delete-states": async ({ store }, options, world) =>
    await deleteAll(() => chosenStates(store, options), STATES, options, world),
  answers: showAnswers,
  "delete-answers": async ({ store }, options, world) =>
    await deleteAll(() => chosenAnswers(store, options), ANSWERS, options, world),
  schedules: showSchedules,
} as const satisfies Partial<Record<CommandName, Run>>;

/** Name of one of them. */
export type FlowCommand = keyof typeof FLOWS;

/** Checks whether a command is on what flows keep. */
export function isFlow(command: CommandName): command is FlowCommand {
  return Object.hasOwn(FLOWS, command);
}

/** Lists states without their values, which may be personal, or shows those of the given keys with them. */
async function showStates(
  { store }: FlowStore,
  options: FlowOptions,
  { out, err }: CliWorld,
): Promise<boolean> {
  const missing = new Set(options.keys);
  for await (const state of chosenStates(store, options)) {
    missing.delete(state.key);
    if (options.keys.length === 0) out(options.json ? jsonOf(factsOf(state)) : lineOf(state));
    else out(options.json ? jsonOf(wholeOf(state)) : jsonOf(datedOf(wholeOf(state)), 2));
  }
  for (const key of missing) err(`There is no state ${key}`);
  return missing.size === 0;
}

async function showAnswers(
  { store }: FlowStore,
  options: FlowOptions,
  { out, err }: CliWorld,
): Promise<boolean> {
  const missing = new Set(options.keys);
  for await (const answer of chosenAnswers(store, options)) {
    missing.delete(answer.name);
    const { name, at, value, eventId, keptUntil } = answer;
    if (options.json) out(jsonOf({ name, at, value, eventId, keptUntil }));
    else {
      const fate = eventId === undefined ? `kept until ${isoOf(keptUntil!)}` : `for ${eventId}`;
      out(oneLine([isoOf(at), name, shortened(value), fate].join("  ")));
    }
  }
  for (const name of missing) err(`There is no answer for ${name}`);
  return missing.size === 0;
}

/** Writes up to which time the slots of each schedule are made. */
async function showSchedules(
  { store, namespace }: FlowStore,
  { json }: FlowOptions,
  { out }: CliWorld,
): Promise<boolean> {
  for await (const { name, value } of openSlotNotes(store.kv, namespace).list()) {
    const note = readNote(value);
    if (json) out(JSON.stringify({ name, ...(note ?? { unreadable: true }) }));
    else {
      const { at, plan = "", making } = note ?? {};
      const made = at === undefined ? "unreadable" : `made up to ${isoOf(at)}`;
      const since = making ? `being made since ${isoOf(making.since)}` : "";
      out(oneLine([name, made, plan, since].join("  ")).trimEnd());
    }
  }
  return true;
}

function chosenStates(store: EventStore, options: FlowOptions): AsyncGenerator<ListedState> {
  const { intake, prefix, keys } = options;
  const start = keys.length === 1 ? keys[0]! : prefix;
  return chosen(store.states({ intake, prefix: start }), ({ key }) => key, options);
}

function chosenAnswers(store: EventStore, options: FlowOptions): AsyncGenerator<UntakenAnswer> {
  const { prefix, keys } = options;
  const names = keys.length === 0 ? undefined : keys;
  return chosen(store.answers({ names, prefix }), ({ name }) => name, options);
}

async function* chosen<T>(
  all: AsyncIterable<T>,
  nameOf: (each: T) => string,
  { keys, prefix, limit }: FlowOptions,
): AsyncGenerator<T> {
  let left = limit;
  for await (const each of all) {
    const name = nameOf(each);
    if (!name.startsWith(prefix) || (keys.length > 0 && !keys.includes(name))) continue;
    if (left-- <= 0) return;
    yield each;
  }
}

/** Something that is to be deleted, its name, and the reason for which it may be left. */
interface Deletable<T> {
  readonly what: string;
  readonly nameOf: (each: T) => string;
  /** Tells whether it would be left now. */
  readonly isLeft: (each: T) => boolean;
  readonly whyLeft: string;
}

const STATES: Deletable<ListedState> = {
  what: "state",
  nameOf: ({ key }) => key,
  isLeft: () => false,
  whyLeft: "it was changed meanwhile",
};

const ANSWERS: Deletable<UntakenAnswer> = {
  what: "answer",
  nameOf: ({ name }) => name,
  isLeft: ({ eventId }) => eventId !== undefined,
  whyLeft: "an event takes it",
};

/** Deletes what is chosen, and writes its number and what is left of it. */
async function deleteAll<T extends { delete(): Promise<boolean> }>(
  all: () => AsyncIterable<T>,
  { what, nameOf, isLeft, whyLeft }: Deletable<T>,
  { keys, json, dryRun, asks }: FlowOptions,
  world: CliWorld,
): Promise<boolean> {
  const { out, err, onInterrupt } = world;
  const ending = new AbortController();
  const { signal } = ending;
  const forget = onInterrupt(() => ending.abort());
  const run = async (isDry: boolean) => {
    const missing = new Set(keys);
    const kept: string[] = [];
    let deleted = 0;
    for await (const each of all()) {
      if (signal.aborted) break;
      missing.delete(nameOf(each));
      if (isDry ? !isLeft(each) : await each.delete()) deleted++;
      else kept.push(nameOf(each));
    }
    return { deleted, kept, missing };
  };
  let result: Awaited<ReturnType<typeof run>>;
  try {
    result = await run(dryRun || asks);
    if (asks && signal.aborted) result = { deleted: 0, kept: [], missing: new Set() };
    if (asks && result.deleted > 0) {
      const count = `${result.deleted} ${what}${result.deleted === 1 ? "" : "s"}`;
      if (!await confirmed(`Delete ${count} for good?`, world, signal)) return false;
      result = await run(false);
    }
  } finally {
    forget();
  }
  const { deleted, kept, missing } = result;
  const left = [...kept, ...missing];
  const done = dryRun ? "would be deleted" : "deleted";
  out(json ? JSON.stringify({ deleted, left, ...dryRun && { dryRun } }) : `${deleted} ${done}`);
  if (!json) {
    for (const name of kept) err(`not deleted: ${name} (${whyLeft})`);
    for (const name of missing) err(`not deleted: ${name} (there is none)`);
  }
  if (signal.aborted) throw new InterruptedError();
  return left.length === 0;
}

function lineOf({ intake = "-", key, expiresAt, isUnreadable }: ListedState): string {
  const end = isUnreadable
    ? "unreadable"
    : expiresAt === undefined
    ? ""
    : `until ${isoOf(expiresAt)}`;
  return oneLine([intake, key, end].join("  ")).trimEnd();
}

function factsOf({ intake, key, versionstamp, expiresAt, isUnreadable }: ListedState) {
  return { intake, key, versionstamp, expiresAt, ...(isUnreadable && { isUnreadable }) };
}

function wholeOf(state: ListedState) {
  return { ...factsOf(state), value: state.value };
}

function datedOf<T extends { readonly expiresAt: number | undefined }>(facts: T): object {
  const { expiresAt } = facts;
  return expiresAt === undefined ? facts : { ...facts, expiresAt: isoOf(expiresAt) };
}

/** Writes a value as JSON: a state holds whatever structured cloning takes, so some of it as nearly as possible. */
function jsonOf(value: object, indent?: number): string {
  try {
    return JSON.stringify(value, (_key, each) => plainOf(each), indent);
  } catch {
    return Deno.inspect(value, { depth: Infinity, iterableLimit: Infinity });
  }
}

function plainOf(value: unknown): unknown {
  if (typeof value === "bigint") return `${value}n`;
  if (value instanceof Map) return [...value];
  if (value instanceof Set || ArrayBuffer.isView(value)) return [...value as Iterable<unknown>];
  if (value instanceof RegExp || value instanceof Error) return String(value);
  return value;
}

function shortened(value: unknown): string {
  const text = value === undefined ? "-" : JSON.stringify(value);
  return text.length <= MAX_VALUE ? text : `${text.slice(0, MAX_VALUE)}...`;
}
