import {
  type BulkOptions,
  type BulkProgress,
  type BulkResult,
  type EventFilter,
  type EventRecord,
  type EventStore,
  NotKeptError,
  type StoredEvent,
  type UntakenAnswer,
} from "../events/mod.ts";
import type { StoreInspector } from "../events/store/kv/store_inspector.ts";
import type { CommandName } from "./_commands.ts";
import type { CliEmission, CliOptions } from "./_options.ts";
import { EventNotes } from "./_notes.ts";
import {
  agoOf,
  isBeingCancelled,
  isoOf,
  lineOf,
  readableJsonOf,
  STATE_WIDTH,
  withValues,
} from "./_output.ts";
import { type CliWorld, confirmed, InterruptedError, UsageError } from "./_world.ts";

/** Commands that change events. */
export const WAYS = {
  replay: {
    done: "replayed",
    question: (count, { state }) =>
      state === "done"
        ? `Replay ${count}, whose work is done again?`
        : `Replay ${count}, to be handled again?`,
    whyDone: "its payload is not kept",
    run: (store, filter, options) => store.replayAll(filter, options),
  },
  cancel: {
    done: "cancelled",
    question: (count) => `Cancel ${count}?`,
    isUnderWay: isBeingCancelled,
    run: (store, filter, options) => store.cancelAll(filter, options),
  },
  purge: {
    done: "purged",
    question: (count) => `Delete ${count} for good?`,
    run: (store, filter, options) => store.purge(filter, options),
  },
} as const satisfies Partial<Record<CommandName, Way>>;

/** Time between two updates of the line: nobody sees more. */
const PERIOD_MS = 100;

/** Control sequence that clears the line. */
const CLEAR = "\r\x1b[K";

/** Change that a command makes. */
interface Way {
  readonly done: string;
  /** Makes the question that is asked before. */
  readonly question: (count: string, filter: EventFilter) => string;
  /** Reason why an event is left that is done, and was meant as such. */
  readonly whyDone?: string;
  /** Tells whether an event needs no change, since an earlier command has begun it. */
  readonly isUnderWay?: (event: StoredEvent) => boolean;
  readonly run: (
    store: EventStore,
    filter: EventFilter,
    options: BulkOptions,
  ) => Promise<BulkResult>;
}

/** Writes a line for each event. */
export async function list(
  store: EventStore,
  { filter, limit, json }: CliOptions,
  { out, now }: CliWorld,
): Promise<boolean> {
  const notes = new EventNotes(store, now());
  const lineWith = async (event: StoredEvent) =>
    lineOf(event, await notes.of(event), notes.dueAtOf(event));
  const write = async (event: StoredEvent) =>
    out(json ? JSON.stringify(withValues(event)) : await lineWith(event));
  if (limit === Infinity) { for await (const event of store.list(filter)) await write(event); }
  else for (const event of await lastOf(store, filter, limit)) await write(event);
  return true;
}

/** Writes events with their payloads. */
export async function show(
  store: EventStore,
  { filter, json }: CliOptions,
  { out, err, now }: CliWorld,
): Promise<boolean> {
  const missing = new Set(filter.ids);
  const notes = new EventNotes(store, now());
  let isWhole = true;
  for await (const event of store.list(filter)) {
    missing.delete(event.id);
    const payload = event.state === "unreadable" ? {} : await payloadOf(store, event);
    if ("payloadError" in payload) isWhole = false;
    const answer = answerIn(await notes.answerOf(event), json);
    out(
      json
        ? JSON.stringify({ ...withValues(event), ...answer, ...payload })
        : readableJsonOf(event, { ...answer, ...payload }),
    );
  }
  for (const id of missing) err(`There is no event ${id}`);
  return isWhole && missing.size === 0;
}

/** Makes the part of a document that tells how a parked event was woken. */
function answerIn(answer: UntakenAnswer | undefined, json: boolean): object {
  if (!answer) return {};
  const { at, value } = answer;
  return { answer: { at: json ? at : isoOf(at), value } };
}

/** Stores an event of the app's own, and writes its id. */
export async function emit(
  store: EventStore,
  { source, type, json, options }: CliEmission,
  asJson: boolean,
  { out, input }: CliWorld,
): Promise<boolean> {
  const payload = payloadIn(json ?? await textOf(input()));
  const result = await store.emit(source, type, payload, options).catch((error) => {
    const isMistake = error instanceof TypeError || error instanceof RangeError;
    throw isMistake ? new UsageError(error.message) : error;
  });
  const { id, duplicate } = result;
  out(asJson ? JSON.stringify(result) : duplicate ? `known already: ${id}` : `emitted ${id}`);
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
  store: EventStore,
  { filter, json }: CliOptions,
  { out, terminal, now }: CliWorld,
): Promise<boolean> {
  const line = new ProgressLine(terminal, "");
  const result = await store.stats(filter, { onProgress: line.show }).finally(() => line.clear());
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

/** Wakes the event that waits for a name, and writes what has become of the value. */
export async function wake(
  store: EventStore,
  { name, value }: { readonly name: string; readonly value: unknown },
  { json }: CliOptions,
  { out }: CliWorld,
): Promise<boolean> {
  const result = await store.wake(name, value);
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
    const payloadError = error instanceof Error ? error.message : String(error);
    return { payload: null, payloadError };
  }
}

/** Reads the events that were received last, in their order. */
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

/** Changes events, and writes their number and the given ids that are left. */
export async function change(
  way: Way,
  store: EventStore,
  { filter, json, dryRun, asks }: CliOptions,
  world: CliWorld,
): Promise<boolean> {
  const { whyDone, isUnderWay = () => false } = way;
  const { out, onInterrupt } = world;
  const ending = new AbortController();
  const forget = onInterrupt(() => ending.abort());
  const { signal } = ending;
  const runWith = (isDry: boolean) => runOnce(way, store, filter, world, { signal, dryRun: isDry });
  let result: BulkResult;
  try {
    result = await runWith(dryRun || asks);
    if (asks && signal.aborted) result = { changed: 0, left: [] };
    if (asks && result.changed > 0) {
      const count = `${result.changed} event${result.changed === 1 ? "" : "s"}`;
      if (!await confirmed(way.question(count, filter), world, signal)) return false;
      result = await runWith(false);
    }
  } finally {
    forget();
  }
  const { changed, left: unchanged } = result;
  const interrupted = signal.aborted && { interrupted: true };
  const done = dryRun ? `would be ${way.done}` : way.done;
  const underWay = await idsOf(store, { ...filter, ids: unchanged }, isUnderWay);
  const left = unchanged.filter((id) => !underWay.includes(id));
  const being = underWay.length > 0 && { beingCancelled: underWay };
  const dry = dryRun && { dryRun };
  if (json) out(JSON.stringify({ [way.done]: changed, left, ...being, ...dry, ...interrupted }));
  else {
    out(`${changed} ${done}${interrupted ? ", interrupted" : ""}`);
    for (const id of underWay) out(`being ${way.done}: ${id} (its handler still runs)`);
    for (const id of left) {
      out(`not ${way.done}: ${id} (${await whyLeft(store, filter, id, whyDone)})`);
    }
  }
  if (interrupted) throw new InterruptedError();
  return left.length === 0;
}

/** Changes events once, or counts them. */
async function runOnce(
  { done, run }: Way,
  store: EventStore,
  filter: EventFilter,
  { terminal }: CliWorld,
  options: BulkOptions,
): Promise<BulkResult> {
  const line = new ProgressLine(terminal, options.dryRun ? "" : done);
  try {
    return await run(store, filter, { ...options, onProgress: line.show });
  } catch (error) {
    if (options.dryRun) throw error;
    throw new Error(`${line.changed} ${done}, then: ${messageOf(error)}`, { cause: error });
  } finally {
    line.clear();
  }
}

async function idsOf(
  store: EventStore,
  filter: EventFilter & { readonly ids: readonly string[] },
  isMeant: (event: StoredEvent) => boolean,
): Promise<string[]> {
  const ids: string[] = [];
  if (filter.ids.length === 0) return ids;
  for await (const event of store.list(filter)) if (isMeant(event)) ids.push(event.id);
  return ids;
}

async function whyLeft(
  store: EventStore,
  filter: EventFilter,
  id: string,
  whyDone = "it is done",
): Promise<string> {
  for await (const { state } of store.list({ ...filter, ids: [id] })) {
    return state === "done" && filter.state === "done" ? whyDone : `it is ${state}`;
  }
  for await (const _ of store.list({ ids: [id] })) return "the filter leaves it out";
  return "there is no such event";
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Line on a terminal that shows the progress of long work. */
export class ProgressLine {
  readonly #terminal: ((text: string) => void) | undefined;
  readonly #done: string;
  #shownAt = performance.now();
  #shown = false;
  #changed = 0;

  /**
   * Begins a line.
   *
   * @param terminal A function that writes to the terminal; undefined if there is none.
   * @param done The change to the events, such as `purged`; an empty text if they are only read.
   */
  constructor(terminal: ((text: string) => void) | undefined, done: string) {
    this.#terminal = terminal;
    this.#done = done;
  }

  /** Number of events that have been changed. */
  get changed(): number {
    return this.#changed;
  }

  /** Shows the progress, unless the last update is too recent. */
  readonly show = ({ seen, changed }: BulkProgress): void => {
    this.#changed = changed;
    const now = performance.now();
    if (!this.#terminal || now - this.#shownAt < PERIOD_MS) return;
    this.#shownAt = now;
    this.#shown = true;
    const done = this.#done === "" ? "" : `, ${changed} ${this.#done}`;
    this.#terminal(`${CLEAR}${seen} read${done}`);
  };

  /** Clears the line. */
  clear(): void {
    if (this.#shown) this.#terminal?.(CLEAR);
  }
}

/**
 * Finds the events of delivery ids. An event's id begins with the name of its intake, which the platforms'
 * pages do not show.
 *
 * @returns The filter, with the ids of events instead of delivery ids.
 * @throws {UsageError} If an id is that of several events.
 */
export async function withEventIds(
  store: EventStore,
  inspector: Pick<StoreInspector, "withDeliveryId">,
  filter: EventFilter,
): Promise<EventFilter> {
  const { ids } = filter;
  if (!ids) return filter;
  const known = new Set<string>();
  for await (const { id } of store.list({ ids })) known.add(id);
  const meant = ids.map(async (id) =>
    known.has(id) ? id : eventIdOf(id, await inspector.withDeliveryId(id))
  );
  return { ...filter, ids: await Promise.all(meant) };
}

/** Finds the id of the event. An id without an event is kept, and is reported later. */
function eventIdOf(id: string, found: readonly string[]): string {
  if (found.length > 1) {
    throw new UsageError(`${id} is the delivery id of several events: ${found.join(", ")}`);
  }
  return found[0] ?? id;
}
