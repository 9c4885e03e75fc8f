import { checkFunctions, checkKeys, checkObject } from "../../core/check_options.ts";
import { linesOf, untilAborted } from "./_lines.ts";
import type { BulkProgress } from "./event_operations.ts";
import type { EventStore } from "./event_store.ts";
import { entryOfLine, type PortableEntry } from "./portable_entry.ts";
import {
  checkedEvent,
  EVENT_START,
  eventOfLine,
  LINE_START,
  MAX_LINE_BYTES,
  type PortableEvent,
} from "./portable_event.ts";

/** The number of events that are stored at the same time. */
const CONCURRENCY = 32;

/** The bytes of their lines, at most, unless it is one alone. */
const MAX_BYTES = 8_388_608;

/** The bytes of an empty line: tab, carriage return and space. */
const BLANKS: readonly number[] = [9, 13, 32];

/** The number of failures that a result describes. */
const MAX_FAILURES = 100;

/**
 * Options of {@linkcode importEvents}.
 *
 * @category Moving events
 */
export interface ImportOptions {
  /** Called from time to time with the number of lines read, and of events imported. */
  readonly onProgress?: ((progress: BulkProgress) => void) | undefined;
  /** Ends the import between two commits. What was imported by then stays. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * A line that was not imported.
 *
 * @category Moving events
 */
export interface ImportFailure {
  /** The number of the line, from 1. */
  readonly line: number;
  /** The reason, as a sentence. It quotes nothing of the payload. */
  readonly reason: string;
}

/**
 * The number of entries of one kind that an import has read, by what became of them.
 *
 * @category Moving events
 */
export interface ImportedEntries {
  /** Entries that were stored. */
  readonly imported: number;
  /** Entries that are here already, or were restored before. They are left as they are. */
  readonly known: number;
  /** Entries whose time is over. */
  readonly expired: number;
}

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
  /** States, by what became of them. */
  readonly states: ImportedEntries;
  /** Values that came before any event waited for them, by what became of them. */
  readonly answers: ImportedEntries;
  /** Notes of schedules, by what became of them. */
  readonly schedules: ImportedEntries;
  /** Lines that were not imported, although they should have been. */
  readonly failed: number;
  /** The first 100 of these, in the order of the lines. */
  readonly failures: readonly ImportFailure[];
}

/**
 * Imports events and what came with them from the lines of an export, each in one commit. What the store knows
 * is left as it is, so an import that was interrupted is just run again, within seven days.
 *
 * @param store The store.
 * @param source The lines, in chunks of any length, such as a file's `readable`.
 * @param options A callback for the progress, and a signal that ends the import.
 * @returns The number of lines by what became of them. A line that is no event does not stop the others.
 * @throws {SyntaxError} If the first line shows that this is no export.
 * @throws {Error} If the KV fails. What was imported by then stays.
 * @category Moving events
 */
export async function importEvents(
  store: Pick<EventStore, "restore" | "restoreEntry">,
  source: AsyncIterable<Uint8Array | string>,
  options: ImportOptions = {},
): Promise<ImportResult> {
  checkObject("import events", options);
  checkKeys("import events", options, ["onProgress", "signal"]);
  checkFunctions("import events", { onProgress: options.onProgress });
  return await new Import(store, options).run(source);
}

/** One import. */
class Import {
  readonly #store: Pick<EventStore, "restore" | "restoreEntry">;
  readonly #options: ImportOptions;
  readonly #counts = { restored: 0, known: 0, expired: 0 };
  readonly #entries = { state: newCounts(), answer: newCounts(), schedule: newCounts() };
  /** True while entries may be being stored, which events that follow them may need. */
  #hasEntries = false;
  readonly #failures: ImportFailure[] = [];
  /** The events that are being stored, with the bytes of their lines. */
  readonly #running = new Map<Promise<void>, number>();
  /** The last event of each ordering key that is being stored: the next one waits for it. */
  readonly #last = new Map<string, Promise<void>>();
  #failed = 0;
  #lines = 0;
  /** The failure of the KV, which ends the import. */
  #end: { readonly error: unknown } | undefined;

  constructor(store: Pick<EventStore, "restore" | "restoreEntry">, options: ImportOptions) {
    this.#store = store;
    this.#options = options;
  }

  async run(source: AsyncIterable<Uint8Array | string>): Promise<ImportResult> {
    try {
      const { signal } = this.#options;
      for await (const { number, bytes } of linesOf(untilAborted(source, signal), MAX_LINE_BYTES)) {
        await this.#read(number, bytes);
        if (this.#isEnded) break;
      }
    } finally {
      await Promise.all(this.#running.keys());
    }
    if (this.#end) throw this.#end.error;
    const { restored, known, expired } = this.#counts;
    const failures = this.#failures.toSorted((a, b) => a.line - b.line);
    const { state: states, answer: answers, schedule: schedules } = this.#entries;
    const entries = { states, answers, schedules };
    return { imported: restored, known, expired, ...entries, failed: this.#failed, failures };
  }

  get #isEnded(): boolean {
    return this.#end !== undefined || (this.#options.signal?.aborted ?? false);
  }

  async #read(line: number, bytes: Uint8Array | null): Promise<void> {
    if (bytes?.every((byte) => BLANKS.includes(byte))) return;
    const isFirst = this.#lines++ === 0;
    let [event, entry]: [PortableEvent?, PortableEntry?] = [];
    try {
      const text = textOfLine(bytes);
      entry = text.startsWith(EVENT_START) ? undefined : await entryOfLine(text);
      if (!entry) event = checkedEvent(await eventOfLine(text));
    } catch (error) {
      const isOther = error instanceof SyntaxError && !looksExported(bytes);
      if (isFirst && isOther) throw noExport(line, error);
      return this.#note(line, error);
    }
    const size = bytes!.byteLength;
    while (this.#running.size > 0 && this.#isFull(size)) {
      await Promise.race(this.#running.keys());
    }
    if (entry) return this.#startEntry(line, entry, size);
    if (this.#hasEntries) await Promise.all(this.#running.keys());
    this.#hasEntries = false;
    this.#start(line, event!, size);
  }

  /** Begins to store an entry. */
  #startEntry(line: number, entry: PortableEntry, size: number): void {
    this.#hasEntries = true;
    const counts = this.#entries[entry.kind];
    const stored = this.#store.restoreEntry(entry)
      .then((outcome) => void counts[outcome === "restored" ? "imported" : outcome]++)
      .catch((error) => this.#noteOrEnd(line, error))
      .finally(() => this.#running.delete(stored));
    this.#running.set(stored, size);
  }

  #isFull(size: number): boolean {
    if (this.#running.size >= CONCURRENCY) return true;
    return this.#running.values().reduce((sum, each) => sum + each, size) > MAX_BYTES;
  }

  /** Begins to store an event, after those of its ordering key that came before it. */
  #start(line: number, event: PortableEvent, size: number): void {
    const { group, orderingKey, intake } = event.record;
    const key = group ? JSON.stringify([intake, orderingKey]) : undefined;
    const before = key === undefined ? undefined : this.#last.get(key);
    const stored = Promise.resolve(before).then(() => this.#restore(line, event)).finally(() => {
      this.#running.delete(stored);
      if (key !== undefined && this.#last.get(key) === stored) this.#last.delete(key);
    });
    this.#running.set(stored, size);
    if (key !== undefined) this.#last.set(key, stored);
  }

  async #restore(line: number, event: PortableEvent): Promise<void> {
    // One whose predecessor was not stored would be ahead of it in their group.
    if (this.#isEnded) return;
    try {
      this.#counts[await this.#store.restore(event)]++;
      this.#report();
    } catch (error) {
      this.#noteOrEnd(line, error);
    }
  }

  /** Notes what is too large for the KV. A failure of the KV itself may be a TypeError, and ends the import. */
  #noteOrEnd(line: number, error: unknown): void {
    if (error instanceof RangeError) this.#note(line, error);
    else this.#end ??= { error };
  }

  #note(line: number, error: unknown): void {
    this.#failed++;
    if (this.#failures.length < MAX_FAILURES) this.#failures.push({ line, reason: textOf(error) });
    this.#report();
  }

  #report(): void {
    this.#options.onProgress?.({ seen: this.#lines, changed: this.#counts.restored });
  }
}

const decoder = new TextDecoder("utf-8", { fatal: true });

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
    `Cannot import events: this is no export of events, whose lines begin with ${EVENT_START}. ` +
      `Line ${line}: ${textOf(cause)}`,
    { cause },
  );
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
