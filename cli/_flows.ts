/** Commands on what flows keep beside events: states, answers that no event has taken, limits and schedules. */
import type { ListedLimit, ListedState, UntakenAnswer } from "../events/mod.ts";
import type { BoundedCount, Problem } from "../events/store/mod.ts";
import { readNote } from "../events/schedules/slots.ts";
import { oneLine } from "../core/log.ts";
import { change } from "./_change.ts";
import type { CliRun } from "./_commands.ts";
import { isoOf, readableJsonOf } from "./_output.ts";

/** Most problems that are listed. */
const MAX_PROBLEMS = 1_000;

/** Most characters of a value in a line. */
const MAX_VALUE = 100;

/** Lists states. Values may be personal, so only the states of given keys are shown with them. */
export async function showStates(run: CliRun): Promise<boolean> {
  const { words: keys, values: { json }, world: { out, err } } = run;
  const missing = new Set(keys);
  for await (const state of chosenStates(run)) {
    missing.delete(state.key);
    const [facts, { value }] = [factsOf(state), state];
    if (keys.length === 0) out(json ? JSON.stringify(facts) : lineOf(state));
    else out(json ? JSON.stringify({ ...facts, value }) : readableJsonOf(facts, { value }));
  }
  for (const key of missing) err(`There is no state ${key}`);
  return missing.size === 0;
}

/** Lists the answers that no event has taken. */
export async function showAnswers(run: CliRun): Promise<boolean> {
  const { words, values: { json }, world: { out, err } } = run;
  const missing = new Set(words);
  for await (const answer of chosenAnswers(run)) {
    missing.delete(answer.name);
    const { name, at, value, eventId, keptUntil } = answer;
    if (json) out(JSON.stringify({ name, at, value, eventId, keptUntil }));
    else {
      const fate = eventId === undefined ? `kept until ${isoOf(keptUntil!)}` : `for ${eventId}`;
      out(oneLine([isoOf(at), name, shortened(value), fate].join("  ")));
    }
  }
  for (const name of missing) err(`There is no answer for ${name}`);
  return missing.size === 0;
}

/** Lists the limits of services. */
export async function showLimits(run: CliRun): Promise<boolean> {
  const { words: names, values: { json }, store, world: { out, err } } = run;
  const missing = new Set(names);
  const name = names.length === 1 ? names[0] : undefined;
  for await (const limit of chosen(store.limits({ name }), ({ name }) => name, run)) {
    missing.delete(limit.name);
    out(json ? JSON.stringify(limit) : lineOfLimit(limit));
  }
  for (const name of missing) err(`There is no limit ${name}`);
  return missing.size === 0;
}

/** Opens a limit that was closed by mistake. */
export async function reopenLimit(
  { words: [name, key], values: { json }, store, world: { out } }: CliRun,
): Promise<boolean> {
  const reopened = await store.reopenLimit(name!, { key });
  const limit = key === undefined ? name : `${name} ${key}`;
  const text = reopened ? `reopened: ${limit}` : `not reopened: ${limit} (it is not closed)`;
  out(json ? JSON.stringify({ reopened }) : text);
  return reopened;
}

/** Lists the problems by which events have failed, those with the most events first. */
export async function showProblems(
  { store, words: ids, values: { json, limit = MAX_PROBLEMS }, world: { out, err } }: CliRun,
): Promise<boolean> {
  const lists = ids.length === 0
    ? [await store.inspect.problems({ limit })]
    : await Promise.all(ids.map((id) => store.inspect.problems({ id })));
  for (const problem of lists.flatMap(({ problems }) => problems)) {
    out(json ? JSON.stringify(problem) : lineOfProblem(problem));
  }
  const missing = ids.filter((_, i) => lists[i]!.problems.length === 0);
  for (const id of missing) err(`There is no problem ${id}`);
  return missing.length === 0;
}

function lineOfProblem({ id, dead, retrying, handler, source, error, lastAt }: Problem): string {
  const counts = `${countOf(dead)} dead, ${countOf(retrying)} retrying`;
  return oneLine([isoOf(lastAt), counts, id, `${source}/${handler}`, error].join("  ")).trimEnd();
}

function countOf({ count, isMore }: BoundedCount): string {
  return `${isMore ? "over " : ""}${count}`;
}

/** Lists the schedules, with the time up to which their slots are made. */
export async function showSchedules(
  { store, values: { json }, world: { out } }: CliRun,
): Promise<boolean> {
  for await (const { name, value } of store.scheduleNotes.list()) {
    const note = readNote(value);
    if (json) out(JSON.stringify({ name, ...(note ?? { unreadable: true }) }));
    else {
      const { at, plan = "", making, paused } = note ?? {};
      const made = at === undefined ? "unreadable" : `made up to ${isoOf(at)}`;
      const since = making ? `being made since ${isoOf(making.since)}` : "";
      const pause = paused ? `paused since ${isoOf(paused.at)}` : "";
      out(oneLine([name, made, plan, since, pause].filter((part) => part !== "").join("  ")));
    }
  }
  return true;
}

function chosenStates(run: CliRun): AsyncGenerator<ListedState> {
  const { store, words: keys, values: { intake, prefix } } = run;
  const start = keys.length === 1 ? keys[0]! : prefix;
  return chosen(store.states({ intake, prefix: start }), ({ key }) => key, run);
}

function chosenAnswers(run: CliRun): AsyncGenerator<UntakenAnswer> {
  const { store, words, values: { prefix } } = run;
  const names = words.length === 0 ? undefined : words;
  return chosen(store.answers({ names, prefix }), ({ name }) => name, run);
}

async function* chosen<T>(
  all: AsyncIterable<T>,
  nameOf: (each: T) => string,
  { words: keys, values: { prefix = "", limit = Infinity } }: CliRun,
): AsyncGenerator<T> {
  let left = limit;
  for await (const each of all) {
    const name = nameOf(each);
    if (!name.startsWith(prefix) || (keys.length > 0 && !keys.includes(name))) continue;
    if (left-- <= 0) return;
    yield each;
  }
}

/** Deletes states of conversations. */
export function deleteStates(run: CliRun): Promise<boolean> {
  return deleteAll(() => chosenStates(run), run, {
    what: "state",
    nameOf: ({ key }) => key,
    isLeft: () => false,
    whyLeft: "it was changed meanwhile",
  });
}

/** Deletes answers that no event waits for. */
export function deleteAnswers(run: CliRun): Promise<boolean> {
  return deleteAll(() => chosenAnswers(run), run, {
    what: "answer",
    nameOf: ({ name }) => name,
    isLeft: ({ eventId }) => eventId !== undefined,
    whyLeft: "an event takes it",
  });
}

/** Things that are to be deleted. */
interface Deletable<T> {
  readonly what: string;
  readonly nameOf: (each: T) => string;
  /** Checks whether one would be left now. */
  readonly isLeft: (each: T) => boolean;
  readonly whyLeft: string;
}

function deleteAll<T extends { delete(): Promise<boolean> }>(
  all: () => AsyncIterable<T>,
  command: CliRun,
  { what, nameOf, isLeft, whyLeft }: Deletable<T>,
): Promise<boolean> {
  let missing: Set<string>;
  return change({
    ...{ verb: "deleted", what, question: (count) => `Delete ${count} for good?` },
    run: async ({ signal, dryRun }) => {
      missing = new Set(command.words);
      const kept: string[] = [];
      let changed = 0;
      for await (const each of all()) {
        if (signal.aborted) break;
        missing.delete(nameOf(each));
        if (dryRun ? !isLeft(each) : await each.delete()) changed++;
        else kept.push(nameOf(each));
      }
      return { changed, left: [...kept, ...missing] };
    },
    whyLeft: (name) => missing.has(name) ? "there is none" : whyLeft,
  }, command);
}

function lineOf({ intake = "-", key, expiresAt, isUnreadable }: ListedState): string {
  const end = isUnreadable
    ? "unreadable"
    : expiresAt === undefined
    ? ""
    : `until ${isoOf(expiresAt)}`;
  return oneLine([intake, key, end].join("  ")).trimEnd();
}

function lineOfLimit(
  { name, key, limit, perMs, free, closedUntil, isUnreadable }: ListedLimit,
): string {
  const room = perMs === undefined ? "" : `${free} free of ${limit} in ${perMs / 1_000} s`;
  const end = closedUntil === undefined ? "" : `closed until ${isoOf(closedUntil)}`;
  const state = isUnreadable ? "unreadable" : room;
  return oneLine([name, key || "-", state, end].filter((part) => part !== "").join("  "));
}

function factsOf({ intake, key, version, expiresAt, isUnreadable }: ListedState) {
  return { intake, key, version, expiresAt, ...(isUnreadable && { isUnreadable }) };
}

function shortened(value: unknown): string {
  const text = value === undefined ? "-" : JSON.stringify(value);
  return text.length <= MAX_VALUE ? text : `${text.slice(0, MAX_VALUE)}...`;
}
