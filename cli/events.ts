import type { EventStore, StoredEvent } from "../webhook/mod.ts";
import { type CliOptions, UsageError } from "./_options.ts";

/** Where a command writes. */
export interface CliOutput {
  /** Writes a line of the result. */
  readonly out: (line: string) => void;
  /** Shows how far long work has come, in the place of what it showed before. */
  readonly progress: (text: string) => void;
}

type Command = (store: EventStore, options: CliOptions, output: CliOutput) => Promise<boolean>;

/** How often long work shows how far it has come, in events. */
const PROGRESS_STEP = 100;

/** What a terminal would act on: an error's message may quote what a stranger has sent. */
const CONTROL = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu;

const COMMANDS: Readonly<Record<string, Command>> = { list, show, replay, cancel, purge, stats };

/**
 * Runs a command on the events of a store.
 *
 * @param store The store.
 * @param options What is asked for.
 * @param output Where it writes.
 * @returns Whether all that was asked for was done.
 * @throws {UsageError} If there is no such command, or it lacks something.
 */
export async function runEventsCommand(
  store: EventStore,
  options: CliOptions,
  output: CliOutput,
): Promise<boolean> {
  if (options.limit !== Infinity && options.command !== "list") {
    throw new UsageError("--limit is for events list");
  }
  const command = Object.hasOwn(COMMANDS, options.command) ? COMMANDS[options.command] : undefined;
  if (!command) throw new UsageError(`Unknown command: events ${options.command}`);
  return await command(store, options, output);
}

async function list(store: EventStore, options: CliOptions, { out }: CliOutput): Promise<boolean> {
  refuseIds(options);
  let count = 0;
  for await (const record of store.list(options.filter)) {
    if (count++ >= options.limit) break;
    out(options.json ? JSON.stringify(record) : lineOf(record));
  }
  return true;
}

async function show(store: EventStore, { ids }: CliOptions, { out }: CliOutput): Promise<boolean> {
  if (ids.length !== 1) throw new UsageError("Give the id of one event");
  const record = await store.get(ids[0]!);
  if (!record) {
    out(`There is no event ${ids[0]}`);
    return false;
  }
  const payload = record.payload
    ? JSON.parse(new TextDecoder().decode(await store.load({ record })))
    : null;
  out(JSON.stringify({ ...record, payload }, null, 2));
  return true;
}

function replay(store: EventStore, options: CliOptions, output: CliOutput): Promise<boolean> {
  const dead = { ...options, filter: { ...options.filter, state: "dead" } as const };
  return forEach(store, dead, output, "replayed", (id) => store.replay(id));
}

function cancel(store: EventStore, options: CliOptions, output: CliOutput): Promise<boolean> {
  return forEach(store, options, output, "cancelled", (id) => store.cancel(id));
}

async function purge(store: EventStore, options: CliOptions, output: CliOutput): Promise<boolean> {
  refuseIds(options);
  if (!options.filtered && !options.all) throw new UsageError("Give a filter, or --all");
  const { changed: purged } = await store.purge(options.filter, {
    onProgress: ({ changed }) => output.progress(`${changed} purged`),
  });
  output.out(options.json ? JSON.stringify({ purged }) : `${purged} purged`);
  return true;
}

async function stats(
  store: EventStore,
  { json }: CliOptions,
  { out }: CliOutput,
): Promise<boolean> {
  const { oldestWaitingAt, ...counts } = await store.stats();
  if (json) {
    out(JSON.stringify({ ...counts, oldestWaitingAt }));
    return true;
  }
  for (const [state, count] of Object.entries(counts)) out(`${state.padEnd(8)} ${count}`);
  if (oldestWaitingAt !== null) out(`oldest waiting since ${isoOf(oldestWaitingAt)}`);
  return true;
}

/** Does something with the events of the given ids, or with all that a filter lets through. */
async function forEach(
  store: EventStore,
  options: CliOptions,
  { out, progress }: CliOutput,
  done: string,
  action: (id: string) => Promise<boolean>,
): Promise<boolean> {
  const { ids, filtered, all, filter, json } = options;
  if (ids.length > 0 && (filtered || all)) throw new UsageError("Give ids or a filter, not both");
  if (ids.length === 0 && !filtered && !all) throw new UsageError("Give ids, a filter, or --all");
  const records = ids.length === 0 ? store.list(filter) : ids.map((id) => ({ id }));
  const left: string[] = [];
  let count = 0;
  for await (const { id } of records) {
    if (await action(id)) count++;
    else left.push(id);
    if (count % PROGRESS_STEP === 0 && count > 0) progress(`${count} ${done}`);
  }
  out(json ? JSON.stringify({ [done]: count, left }) : `${count} ${done}`);
  const notDone = ids.length === 0 ? [] : left;
  if (!json) { for (const id of notDone) out(`not ${done}: ${id}`); }
  return notDone.length === 0;
}

/** An id that was not looked at would be an event that was not meant. */
function refuseIds({ ids, command }: CliOptions): void {
  if (ids.length > 0) throw new UsageError(`events ${command} takes no ids`);
}

function lineOf(record: StoredEvent): string {
  if (record.state === "unreadable") return `${"-".padEnd(24)}  unreadable  ${record.id}`;
  const { id, state, type, attempt, receivedAt, errors } = record;
  const error = errors.at(-1)?.message ?? "";
  const columns = [
    isoOf(receivedAt),
    state.padEnd(7),
    String(attempt).padStart(3),
    type,
    id,
    error,
  ];
  return columns.join("  ").replaceAll(CONTROL, " ").trimEnd();
}

function isoOf(time: number): string {
  return new Date(time).toISOString();
}
