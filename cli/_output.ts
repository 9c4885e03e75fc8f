import { oneLine, printable as printableLine } from "../core/log.ts";
import { UNITS } from "./_arguments.ts";
import { type CliWorld, messageOf, UsageError } from "./_world.ts";
import type { EventRecord, StoredEvent } from "../events/mod.ts";
import { waitsForLimit } from "../events/store/settlement.ts";

/** Fields of a record that are times. */
const TIMES = [
  ...["at", "until", "receivedAt", "dueAt", "settledAt"],
  ...["startedAt", "endedAt", "cancelRequestedAt", "since", "expiresAt"],
];

/** Width of the longest name of a state. */
export const STATE_WIDTH = "unreadable".length;

/** Time between two updates of the line: nobody sees more. */
const PERIOD_MS = 100;

/** Control sequence that clears the line. */
const CLEAR = "\r\x1b[K";

/**
 * Makes a text safe for a terminal. Everything that the tool writes passes through here. Characters are
 * escaped as in JSON, so that JSON keeps its meaning.
 */
export function printable(text: string): string {
  return text.split("\n").map(printableLine).join("\n");
}

/** Formats a record as JSON for people: on several lines, with its times as dates. */
export function readableJsonOf(record: object, payload: object): string {
  const dated = JSON.stringify(
    record,
    (key, value) => typeof value === "number" && TIMES.includes(key) ? isoOf(value) : value,
  );
  return JSON.stringify({ ...withValues(JSON.parse(dated)), ...payload }, null, 2);
}

/** Parses the values that an event was woken with: its record holds them as JSON. */
export function withValues(record: object): object {
  const { woken, ...rest } = record as { readonly woken?: unknown };
  if (!Array.isArray(woken)) return record;
  return { ...rest, woken: woken.map(withValue) };
}

/** Parses the value of a wait. A damaged one is shown as it is. */
function withValue(ended: { readonly value?: string }): object {
  if (ended.value === undefined) return ended;
  try {
    return { ...ended, value: JSON.parse(ended.value) };
  } catch {
    return ended;
  }
}

/**
 * Formats an event as one line.
 *
 * @param event The event.
 * @param note The note to show before anything that the record says.
 * @param other The note to show if there is nothing else to say.
 */
export function lineOf(event: StoredEvent, note?: string, other?: string): string {
  const columns = event.state === "unreadable"
    ? [isoOf(event.receivedAt), event.state, "  -", "-", event.id, UNREADABLE]
    : columnsOf(event, note, other);
  return oneLine(columns.join("  ")).trimEnd();
}

/** Formats a time as a date, with the time since then. */
export function agoOf(time: number, now: number): string {
  const ms = Math.max(0, now - time);
  const [unit, length] = Object.entries(UNITS).findLast(([, length]) => ms >= length) ??
    ["s", 1_000];
  return `${isoOf(time)} (${Math.floor(ms / length)}${unit} ago)`;
}

/** Checks whether an event was cancelled, and its handler still runs. */
export function isBeingCancelled(event: StoredEvent): boolean {
  return event.state === "running" && event.cancelRequestedAt !== undefined;
}

function columnsOf(record: EventRecord, note?: string, other = ""): string[] {
  const { id, state, type, attempt, receivedAt, attempts: ended, outcome } = record;
  const reasons: Readonly<Record<string, string>> = { cancelled: "Cancelled", ignored: "Ignored" };
  // An event that is done or was cancelled has not ended by its last error.
  const isOver = state === "done" || outcome === "cancelled";
  const lastError = ended.findLast(({ error }) => error !== undefined)?.error;
  const reason = reasons[outcome ?? ""] ?? (groupNoteOf(record) || other);
  const error = isBeingCancelled(record)
    ? "cancel requested"
    : note ?? waitOf(record) ?? limitOf(record) ?? putOffOf(record) ??
      (isOver ? undefined : lastError) ?? reason;
  const attempts = String(attempt).padStart(3);
  const about = record.description === undefined ? [] : [record.description];
  return [isoOf(receivedAt), state.padEnd(STATE_WIDTH), attempts, type, id, ...about, error];
}

/** Says what other events of its group have to do with an event; an empty text for nothing. */
function groupNoteOf(record: EventRecord): string {
  const { times = 0, by } = record.interrupted ?? {};
  const often = times === 1 ? "once" : `${times} times, last`;
  const interrupted = times === 0 ? "" : `interrupted ${often} by ${by}`;
  return [batchOf(record), interrupted].filter((note) => note !== "").join(", ");
}

/** Says what an event of a batch waits for, or was handled with. */
function batchOf({ state, group, quiet, batch, handledWith, dueAt }: EventRecord): string {
  if (handledWith !== undefined) return `handled with ${handledWith}`;
  if (batch && batch.events > 1) return `together with ${batch.events - 1} more`;
  const isWaiting = state === "queued" && quiet && group && !batch && dueAt !== null;
  return isWaiting ? "waits until it is quiet" : "";
}

/** Says why an open event was put off; undefined if an attempt has ended since. */
function putOffOf({ putOff, attempts, settledAt }: EventRecord): string | undefined {
  if (!putOff || settledAt !== null || (attempts.at(-1)?.endedAt ?? 0) >= putOff.at) {
    return undefined;
  }
  return `put off: ${putOff.reason}`;
}

/** Says that an event waits for the runs of a handler, or for room under a limit; undefined for any other. */
function limitOf(record: EventRecord): string | undefined {
  const { limitedBy, dueAt } = record;
  if (!waitsForLimit(record)) return undefined;
  if (limitedBy === undefined) return "waits for a handler that has as many runs as it may";
  return `waits for room under the limit ${limitedBy} until ${isoOf(dueAt!)}`;
}

/** Says what a parked event waits for; undefined for any other. */
function waitOf({ waitingFor }: EventRecord): string | undefined {
  return waitingFor && `waits for ${waitingFor.name} until ${isoOf(waitingFor.until)}`;
}

const UNREADABLE = "of another version, or damaged";

/** Formats a time as a date. */
export function isoOf(time: number): string {
  return new Date(time).toISOString();
}

/** Line on a terminal that shows the progress of long work. */
class ProgressLine {
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
  readonly show = ({ seen, changed }: Readonly<Record<"seen" | "changed", number>>): void => {
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

/** Works with a line that shows its progress. An error says how much was done before. */
export async function withProgress<T>(
  terminal: CliWorld["terminal"],
  done: string,
  work: (line: ProgressLine) => Promise<T>,
): Promise<T> {
  const line = new ProgressLine(terminal, done);
  try {
    return await work(line);
  } catch (error) {
    if (done === "" || error instanceof UsageError) throw error;
    const reason = error instanceof Deno.errors.BrokenPipe ? "nobody reads on" : messageOf(error);
    throw new Error(`${line.changed} ${done}, then: ${reason}`, { cause: error });
  } finally {
    line.clear();
  }
}
