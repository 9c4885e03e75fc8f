import { checkFunction, checkOptions, checkSignal } from "../../core/check_options.ts";
import { reasonOf } from "../../core/text_of.ts";
import type { BulkOptions, EventStore } from "./event_store.ts";
import {
  inOrder,
  itemOfLine,
  LINE_START,
  type PortableEntry,
  type PortableEvent,
} from "./portable_event.ts";

/** The bytes of an empty line: tab, carriage return and space. */
const BLANKS: readonly number[] = [9, 13, 32];

/** The number of failures that a result describes. */
const MAX_FAILURES = 100;

/** The largest line: a record and the largest payload, each byte of which may take two. */
const MAX_LINE_BYTES = 134_217_728;

const LINE_FEED = 10;

const encoder = new TextEncoder();

const decoder = new TextDecoder("utf-8", { fatal: true });

/**
 * The result of an import: the number of lines by what became of them.
 *
 * @category Moving events
 */
export interface ImportResult {
  /** Events that were stored. */
  readonly imported: number;
  /** Events whose id the store knew already. These are left as they are. */
  readonly known: number;
  /** Events that were done for longer than the retention. */
  readonly expired: number;
  /** States that were stored, that are here or were restored before, and whose time is over. */
  readonly states: Pick<ImportResult, "imported" | "known" | "expired">;
  /** Values that came before any event waited for them, by what became of them. */
  readonly answers: Pick<ImportResult, "imported" | "known" | "expired">;
  /** Questions, by what became of them. */
  readonly questions: Pick<ImportResult, "imported" | "known" | "expired">;
  /** Notes of schedules, by what became of them. */
  readonly schedules: Pick<ImportResult, "imported" | "known" | "expired">;
  /** Lines that were not imported, although they should have been. */
  readonly failed: number;
  /**
   * The first 100 of these, in the order of the lines, with their numbers from 1. A reason is a sentence, and quotes
   * nothing of the payload.
   */
  readonly failures: readonly { readonly line: number; readonly reason: string }[];
}

/**
 * Imports events and what came with them from the lines of an export, each in one commit. What the store knows
 * is left as it is: run an import that was interrupted again, within seven days. So a second one brings back neither a
 * state that a handler has deleted nor an answer that an event has taken.
 *
 * - A queued event waits for the rest of its delay, at the end of its ordering group, in the order of the lines. A running
 *   one is queued and due at once, without its attempt; if it was cancelled, it is dead.
 * - A parked event waits for the rest of its time, and is queued if its name is taken or was woken here already. Its answer
 *   comes with it.
 * - A done event stays known for the rest of the retention, and is not imported after that. A payload that was kept can be
 *   replayed as long as the apps here keep payloads.
 * - A state keeps its value for the rest of its time. A question, and an answer that no event has taken, wait for their
 *   event, or wake the one that waits. A schedule goes on where it was.
 * - An event counts its duration from its first receipt. Batches are made anew, by the times at which events come due.
 * - A line of a newer format is refused. Fields that this version does not know stay.
 *
 * Into a file 2,000 events of 7 KB a second were imported, of one ordering key 900; into `denokv` on the same machine 1,000
 * of 1 KB, of one ordering key 20 (2026-11, Deno 2.9.6). Payloads of 22 MB took up to 0.7 GB of memory.
 *
 * @param store The store.
 * @param source The lines, in chunks of any length, such as a file's `readable`.
 * @param options A callback for the progress, and a signal that ends the import.
 * @returns The number of lines by what became of them. A line that cannot be imported does not stop the others.
 * @throws {SyntaxError} If the first line shows that this is something else than an export.
 * @throws {Error} If the store fails. What was imported by then stays.
 * @category Moving events
 */
export async function importEvents(
  store: Pick<EventStore, "restore" | "restoreEntry">,
  source: AsyncIterable<Uint8Array | string>,
  options: Omit<BulkOptions, "dryRun"> = {},
): Promise<ImportResult> {
  checkOptions("import events", options, { onProgress: checkFunction, signal: checkSignal });
  return await new Import(store, options).run(source);
}

type RestoringStore = Pick<EventStore, "restore" | "restoreEntry">;

/** A line that was read. */
interface Item {
  readonly line: number;
  readonly size: number;
  readonly content: PortableEvent | PortableEntry;
}

/** One import. */
class Import {
  readonly #store: RestoringStore;
  readonly #options: Omit<BulkOptions, "dryRun">;
  readonly #counts = {
    event: newCounts(),
    state: newCounts(),
    answer: newCounts(),
    question: newCounts(),
    schedule: newCounts(),
  };
  readonly #failures: { line: number; reason: string }[] = [];
  /** The entries that are being stored: events that follow them may need them. */
  #entries: Promise<unknown> = Promise.resolve();
  /** The last event of each ordering key that is being stored: the next one waits for it. */
  readonly #last = new Map<string, Promise<void>>();
  #failed = 0;
  #lines = 0;
  /** The failure of the store, which ends the import. */
  #end: { readonly error: unknown } | undefined;

  constructor(store: RestoringStore, options: Omit<BulkOptions, "dryRun">) {
    this.#store = store;
    this.#options = options;
  }

  async run(source: AsyncIterable<Uint8Array | string>): Promise<ImportResult> {
    const lines = linesOf(untilAborted(source, this.#options.signal), MAX_LINE_BYTES);
    const stored = inOrder(this.#read(lines), ({ size }) => size, (item) => this.#start(item));
    for await (const _ of stored) if (this.#isEnded) break;
    if (this.#end) throw this.#end.error;
    const { event, state: states, answer: answers, question: questions } = this.#counts;
    const { schedule: schedules } = this.#counts;
    const failures = this.#failures.toSorted((a, b) => a.line - b.line);
    return { ...event, states, answers, questions, schedules, failed: this.#failed, failures };
  }

  get #isEnded(): boolean {
    return this.#end !== undefined || (this.#options.signal?.aborted ?? false);
  }

  async *#read(lines: AsyncIterable<Line>): AsyncGenerator<Item> {
    for await (const { number: line, bytes } of lines) {
      if (bytes?.every((byte) => BLANKS.includes(byte))) continue;
      const isFirst = this.#lines++ === 0;
      try {
        yield { line, size: bytes?.byteLength ?? 0, content: await itemOfLine(textOfLine(bytes)) };
      } catch (error) {
        const isOther = error instanceof SyntaxError && !looksExported(bytes);
        if (isFirst && isOther) throw noExport(line, error);
        this.#note(line, error);
      }
      if (this.#isEnded) return;
    }
  }

  /** Begins to store an event, after entries and events of its ordering key that came before it, or an entry. */
  async #start(item: Item): Promise<void> {
    const { content } = item;
    if ("kind" in content) {
      const stored = this.#restore(item);
      this.#entries = Promise.all([this.#entries, stored]);
      return await stored;
    }
    const { group, orderingKey, intake } = content.record;
    const key = group && JSON.stringify([intake, orderingKey]);
    const before = [this.#entries, key === null ? undefined : this.#last.get(key)];
    const stored = Promise.all(before).then(() => this.#restore(item));
    if (key !== null) this.#last.set(key, stored);
    await stored;
    if (key !== null && this.#last.get(key) === stored) this.#last.delete(key);
  }

  async #restore({ line, content }: Item): Promise<void> {
    // One whose predecessor was not stored would be ahead of it in their group.
    if (this.#isEnded) return;
    try {
      const isEntry = "kind" in content;
      const outcome = isEntry
        ? await this.#store.restoreEntry(content)
        : await this.#store.restore(content);
      this
        .#counts[isEntry ? content.kind : "event"][outcome === "restored" ? "imported" : outcome]++;
      this.#report();
    } catch (error) {
      // What is too large for the store. A failure of the store itself may be a TypeError, and ends the import.
      if (error instanceof RangeError) this.#note(line, error);
      else this.#end ??= { error };
    }
  }

  #note(line: number, error: unknown): void {
    this.#failed++;
    if (this.#failures.length < MAX_FAILURES) {
      this.#failures.push({ line, reason: reasonOf(error) });
    }
    this.#report();
  }

  #report(): void {
    this.#options.onProgress?.({ seen: this.#lines, changed: this.#counts.event.imported });
  }
}

function newCounts(): { imported: number; known: number; expired: number } {
  return { imported: 0, known: 0, expired: 0 };
}

function textOfLine(bytes: Uint8Array | null): string {
  if (!bytes) {
    throw new SyntaxError(`Cannot read the event: the line has over ${MAX_LINE_BYTES} bytes`);
  }
  try {
    return decoder.decode(bytes);
  } catch {
    throw new SyntaxError("Cannot read the event: the line is not UTF-8");
  }
}

/** Checks whether a line that cannot be read is a damaged one of an export, and not of any other file. */
function looksExported(bytes: Uint8Array | null): boolean {
  if (!bytes) return false;
  return new TextDecoder().decode(bytes.subarray(0, LINE_START.length)) === LINE_START;
}

function noExport(line: number, cause: unknown): Error {
  return new SyntaxError(
    `Cannot import events: this is no export of events, whose lines begin with ${LINE_START}event". ` +
      `Line ${line}: ${reasonOf(cause)}`,
    { cause },
  );
}

/** A line of a stream, of which no more than one line and one chunk are in memory. */
export interface Line {
  /** Its number, from 1. */
  readonly number: number;
  /** Its bytes without the line break; null if it is too long, and was passed over. */
  readonly bytes: Uint8Array | null;
}

/**
 * Splits a stream into lines, whatever its chunks are.
 *
 * @param chunks The stream.
 * @param maxBytes The largest line.
 */
export async function* linesOf(
  chunks: AsyncIterable<Uint8Array | string>,
  maxBytes: number,
): AsyncGenerator<Line> {
  let number = 1;
  let [parts, size]: [Uint8Array[], number] = [[], 0];
  const add = (part: Uint8Array) => {
    size += part.byteLength;
    if (size > maxBytes) parts = [];
    else if (part.byteLength > 0) parts.push(part);
  };
  for await (const chunk of chunks) {
    let rest = typeof chunk === "string" ? encoder.encode(chunk) : chunk;
    for (let end; (end = rest.indexOf(LINE_FEED)) >= 0; rest = rest.subarray(end + 1)) {
      add(rest.subarray(0, end));
      yield { number: number++, bytes: size > maxBytes ? null : joined(parts, size) };
      [parts, size] = [[], 0];
    }
    // A copy: the stream may use its buffer again.
    add(rest.slice());
  }
  if (size > 0) yield { number, bytes: size > maxBytes ? null : joined(parts, size) };
}

/**
 * Reads a source until a signal, also while it waits for more.
 *
 * @param source The source.
 * @param signal The signal.
 */
async function* untilAborted<T>(
  source: AsyncIterable<T>,
  signal: AbortSignal | undefined,
): AsyncGenerator<T> {
  if (!signal) return yield* source;
  const iterator = source[Symbol.asyncIterator]();
  let isEnded = false;
  try {
    while (!signal.aborted) {
      const next = await orAborted(iterator.next(), signal);
      isEnded = next?.done ?? false;
      if (!next || next.done) return;
      yield next.value;
    }
  } finally {
    // Not awaited after a signal: it ends no sooner than what is waited for.
    const returned = isEnded ? undefined : iterator.return?.();
    if (signal.aborted) returned?.catch(() => {});
    else await returned;
  }
}

/** Waits for a value; undefined if the signal comes first. */
function orAborted<T>(value: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const end = () => resolve(undefined);
    signal.addEventListener("abort", end, { once: true });
    value.then(resolve, reject).finally(() => signal.removeEventListener("abort", end));
  });
}

function joined(parts: readonly Uint8Array[], size: number): Uint8Array {
  if (parts.length === 1) return parts[0]!;
  const line = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    line.set(part, at);
    at += part.byteLength;
  }
  return line;
}
