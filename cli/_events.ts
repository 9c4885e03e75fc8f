import {
  type AnswerResult,
  type EventFilter,
  type EventRecord,
  type EventStore,
  NotKeptError,
  type StoredEvent,
  type UntakenAnswer,
} from "../events/mod.ts";
import { TOOL, withEventIds } from "./_change.ts";
import type { CliRun } from "./_commands.ts";
import {
  agoOf,
  isoOf,
  lineOf,
  readableJsonOf,
  STATE_WIDTH,
  withProgress,
  withValues,
} from "./_output.ts";
import { messageOf, UsageError } from "./_world.ts";

/** Writes a line for each event. */
export async function list(
  { store, filter, values: { limit, json }, world: { out, now } }: CliRun,
): Promise<boolean> {
  const heads = new Map<string, Head>();
  const write = async (event: StoredEvent) => {
    if (json) return out(JSON.stringify(withValues(event)));
    const answer = await answerOf(store, event);
    const note = answer
      ? `woken at ${isoOf(answer.at)}, not claimed yet`
      : togetherWith(heads, event);
    out(lineOf(event, note, dueAtOf(event, now())));
  };
  if (limit === undefined) { for await (const event of store.list(filter)) await write(event); }
  else for (const event of await lastOf(store, filter, limit)) await write(event);
  return true;
}

/** Writes events with their payloads. */
export async function show(
  { store, filter, values: { json = false }, world: { out, err } }: CliRun,
): Promise<boolean> {
  const missing = new Set(filter.ids);
  let isWhole = true;
  for await (const event of store.list(filter)) {
    missing.delete(event.id);
    const payload = event.state === "unreadable" ? {} : await payloadOf(store, event);
    if ("payloadError" in payload) isWhole = false;
    const answer = answerIn(await answerOf(store, event), json);
    const steps = await stepsOf(store, event);
    out(
      json
        ? JSON.stringify({ ...withValues(event), ...steps, ...answer, ...payload })
        : readableJsonOf({ ...event, ...steps }, { ...answer, ...payload }),
    );
  }
  for (const id of missing) err(`There is no event ${id}`);
  return isWhole && missing.size === 0;
}

/** Reads the steps of an event, with their results. */
async function stepsOf(store: EventStore, event: StoredEvent): Promise<object> {
  if (event.state === "unreadable" || !event.steps) return {};
  const steps = await store.steps(event.id);
  return { steps: steps.map(({ isBegun, ...step }) => isBegun ? { ...step, isBegun } : step) };
}

/** Answers a question. */
export async function answer(
  { store, words: [name, text], values: { json, by }, world: { out } }: CliRun,
): Promise<boolean> {
  const value = text === undefined ? undefined : JSON.parse(text);
  const result = await store.answer(name, value, { by, operator: TOOL });
  const why = whyNotTaken(result, by);
  out(json ? JSON.stringify(result) : `${result.outcome}: ${name}${why && ` (${why})`}`);
  return result.outcome === "taken";
}

/** Says why an answer was not taken; an empty text if it was. */
function whyNotTaken(result: AnswerResult, by: number | undefined): string {
  const { outcome, at } = result;
  if (outcome === "taken") return "";
  if (outcome === "unknown") return "there is no such question";
  if (outcome === "over") return "its event does not wait for it any more";
  if (outcome === "late") {
    const whose = result.by === undefined ? "" : ` by ${result.by}`;
    return `answered before${whose}${at === undefined ? "" : ` at ${isoOf(at)}`}`;
  }
  return by === undefined
    ? "only some senders may answer: give --by"
    : `sender ${by} may not answer`;
}

/** Forgets a step. */
export async function forgetStep(
  { store, words: [id, name], values: { json }, world: { out } }: CliRun,
): Promise<boolean> {
  const { ids } = await withEventIds(store, { ids: [id!] });
  const forgotten = await store.forgetStep(ids![0]!, name!, { by: TOOL });
  const text = forgotten
    ? `forgotten: ${name}`
    : `not forgotten: ${name} (${await whyNot(store, ids![0]!, name!)})`;
  out(json ? JSON.stringify({ forgotten }) : text);
  return forgotten;
}

/** Says that a step has happened. */
export async function setStep(
  { store, words: [id, name, result], values: { json }, world: { out } }: CliRun,
): Promise<boolean> {
  const { ids } = await withEventIds(store, { ids: [id!] });
  const value = result === undefined ? undefined : JSON.parse(result);
  const set = await store.setStep(ids![0]!, name!, value, { by: TOOL });
  const text = set ? `set: ${name}` : `not set: ${name} (${await whyNot(store, ids![0]!, name!)})`;
  out(json ? JSON.stringify({ set }) : text);
  return set;
}

/** Says why a step was not changed. */
async function whyNot(store: EventStore, id: string, name: string): Promise<string> {
  const event = await store.get(id);
  if (!event) return `there is no event ${id}`;
  const steps = await store.steps(id);
  if (steps.length === 0) return "the event has no steps";
  const step = steps.find((each) => each.name === name);
  if (!step) return `the event's steps are ${steps.map((each) => each.name).join(", ")}`;
  const isOver = event.state === "running" || event.state === "done";
  return isOver ? `the event is ${event.state}` : "it is known to have happened: forget it first";
}

/** Formats the value that a parked event was woken with. */
function answerIn(answer: UntakenAnswer | undefined, json: boolean): object {
  if (!answer) return {};
  const { at, value } = answer;
  return { answer: { at: json ? at : isoOf(at), value } };
}

/** Emits an event, and writes its id. */
export async function emit(
  { store, words: [source, type, text], values, world: { out, input } }: CliRun,
): Promise<boolean> {
  const { id, delay: delayMs, group, json } = values;
  const payload = payloadIn(text ?? await textOf(input()));
  const options = { id, delayMs, group };
  const result = await store.emit(source!, type!, payload, options).catch((error) => {
    const isMistake = error instanceof TypeError || error instanceof RangeError;
    throw isMistake ? new UsageError(error.message) : error;
  });
  const line = result.duplicate ? `known already: ${result.id}` : `emitted ${result.id}`;
  out(json ? JSON.stringify(result) : line);
  return true;
}

function payloadIn(text: string): object {
  try {
    return JSON.parse(text);
  } catch {
    throw new UsageError("The payload must be a JSON object");
  }
}

/** Writes the number of events in each state. */
export async function stats(
  { store, filter, values: { json }, world: { out, terminal, now } }: CliRun,
): Promise<boolean> {
  const result = await withProgress(
    terminal,
    "",
    (line) => store.stats(filter, { onProgress: line.show }),
  );
  const { oldestWaitingAt, dueLater, ...counts } = result;
  if (json) {
    out(JSON.stringify(result));
    return true;
  }
  for (const [state, count] of Object.entries(counts)) {
    const later = state === "queued" && dueLater > 0 ? ` (${dueLater} due later)` : "";
    out(`${state.padEnd(STATE_WIDTH)} ${count}${later}`);
  }
  if (oldestWaitingAt !== null) out(`oldest waiting since ${agoOf(oldestWaitingAt, now())}`);
  return true;
}

/** Wakes the event that waits for a name, and writes the outcome. */
export async function wake(
  { store, words: [name, text], values: { json }, world: { out } }: CliRun,
): Promise<boolean> {
  const value = text === undefined ? undefined : JSON.parse(text);
  const result = await store.wake(name!, value, { by: TOOL });
  const { outcome, eventId } = result;
  const texts: Readonly<Record<typeof outcome, string>> = {
    woken: `woken: ${eventId}`,
    kept: `kept for 7 days: no event waits for ${name} yet`,
    late: `not woken: ${name} has an earlier value that no event has taken yet`,
  };
  out(json ? JSON.stringify(result) : texts[outcome]);
  return outcome !== "late";
}

async function payloadOf(store: EventStore, record: EventRecord): Promise<object> {
  try {
    const body = await store.load({ record });
    return { payload: JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body)) };
  } catch (error) {
    if (error instanceof NotKeptError) return { payload: null, payloadNote: "not kept" };
    return { payload: null, payloadError: messageOf(error) };
  }
}

/** Reads the events that were received last, the oldest of them first. */
async function lastOf(
  store: EventStore,
  filter: EventFilter,
  limit: number,
): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for await (const event of store.list({ ...filter, order: "newest" })) {
    if (events.push(event) === limit) break;
  }
  return events.reverse();
}

/** Reads the standard input to its end. */
async function textOf(input: AsyncIterable<Uint8Array> | undefined): Promise<string> {
  if (!input) throw new UsageError("Give the payload as JSON, or pipe it in");
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for await (const part of input) parts.push(new Uint8Array(part));
  return await new Blob(parts).text();
}

/** Finds the answer that a parked event gets when it is claimed; undefined for none. */
async function answerOf(store: EventStore, event: StoredEvent): Promise<UntakenAnswer | undefined> {
  if (event.state !== "parked" || !event.waitingFor) return undefined;
  for await (const each of store.answers({ names: [event.waitingFor.name] })) {
    if (each.eventId === event.id) return each;
  }
  return undefined;
}

/** Says when a queued event is due; undefined if it is due, or waits for something else. */
function dueAtOf(event: StoredEvent, now: number): string | undefined {
  if (event.state !== "queued" || event.quiet) return undefined;
  const { dueAt } = event;
  return dueAt !== null && dueAt > now ? `due at ${isoOf(dueAt)}` : undefined;
}

/** First event of a batch, and the last position that belongs to it. */
interface Head {
  readonly id: string;
  readonly from: number;
  readonly last: number;
}

/**
 * Says which event of the same list a queued one is handled together with; undefined for none.
 *
 * @param heads The first events of batches, by the keys of their groups.
 */
function togetherWith(heads: Map<string, Head>, event: StoredEvent): string | undefined {
  if (event.state === "unreadable" || !event.group) return undefined;
  const { id, group: { key, position }, batch } = event;
  if (batch) heads.set(key, { id, from: position, last: batch.last });
  const head = heads.get(key);
  if (!head || position <= head.from || position > head.last) return undefined;
  return `together with ${head.id}`;
}
