import process from "node:process";
import { type LogSink, writeLog } from "../../core/mod.ts";
import { CLOCK_SLACK_MS, sleep, withDeadline } from "../../core/timeouts.ts";
import { ClosedError } from "../store/engine.ts";
import type {
  EventRecord,
  EventStore,
  HandledEvents,
  HungHandler,
  ProcessNote,
} from "../store/mod.ts";
import { hasHandlerFor } from "../store/processes.ts";
import { unhandledSince } from "../store/settlement.ts";
import { GrowingDelays } from "./_growing_delays.ts";
import { type DescribedHandler, type EventHandler, HANDLES } from "./event.ts";

/**
 * Times between two notes of this process: the first one after it has run an event, and the longest one while it runs none.
 * Each is twice as long as the one before, so that an idle process hardly writes.
 */
const [NOTE_MS, IDLE_NOTE_MS] = [60_000, 900_000] as const;

/** Longest wait for the first note and the last: an app must start and stop while the store fails. */
const [BEGIN_MS, END_MS] = [2_000, 500] as const;

/** Longest wait for the notes of the other processes, and for a note of this one: some calls are never answered. */
const CALL_MS = 5_000;

/**
 * Time for which the notes of the other processes are remembered. Reading them for each event made one that is ignored
 * cost 2.5 times as much. So a new process waits for as long before it takes events.
 */
const CACHED_MS = 1_000;

/**
 * Time for which an event is left to others that have not looked at it, once it is due again. A worker that knows when
 * that is looks then by its clock, and at that once a second.
 */
const LEFT_MS = CLOCK_SLACK_MS + 1_000;

/** Length of the note's list of events above which it says nothing about them: a cell takes up to 65,536 bytes. */
const MAX_HANDLES_LENGTH = 30_000;

/** Largest number of noted events whose handlers run past their time limits, and of those that do not heed their signals. */
const MAX_NOTED = 20;

/** Name of this process. */
const NAME = nameOfProcess();

/** Options of {@linkcode Versions}. */
interface VersionsOptions {
  readonly store: EventStore;
  readonly handler: EventHandler;
  /** Id of this process: the owner of its leases. */
  readonly owner: string;
  readonly version: string | undefined;
  /** Time limit of its handlers. */
  readonly timeoutMs: number;
  /** Number of events that it handles at a time. */
  readonly concurrency: number;
  /** Time for which an event without a handler is put off. */
  readonly waitForHandlerMs: number;
  readonly log: LogSink;
}

/**
 * The versions of the code that handle the events of a store at the same time, while instances are replaced.
 *
 * Each process notes in the store which events it has handlers for. A process without a handler for an event reads
 * these notes. If another process has one, the event is put off, without an attempt, for a limited time; otherwise
 * it ends as it would without others. What was put off once is put off until that time is over, whatever runs by
 * then: the other process may just be started anew.
 *
 * A process that has put an event off leaves it to the others for two seconds when it is due again. So of the processes
 * that know when that is, each looks at it once before any does so twice, and one of them has its handler. An idle one
 * gets to know at its next poll, within 15 s in a KV: until then the others may put the event off a few times more. In
 * a SQLite file it notices within 250 ms that others write.
 */
export class Versions {
  readonly #options: VersionsOptions;
  readonly #startedAt = Date.now();
  /** The events that this process has put off. */
  readonly #putOff = new GrowingDelays();
  #notedAt = -Infinity;
  /** Time from then to the next note, and the number of notes since an event was run last. */
  #everyMs: number = NOTE_MS;
  #idleNotes = 0;
  #noting: Promise<void> | undefined;
  #isEnded = false;
  /** Events whose handlers run past their time limits. */
  #overdue: readonly string[] = [];
  /** Handlers that were told to end and have not. */
  #hung: readonly HungHandler[] = [];
  #others: Promise<readonly Note[]> | undefined;
  /** Time at which these were asked for, by the monotonic clock. */
  #askedAt = -Infinity;

  constructor(options: VersionsOptions) {
    this.#options = options;
  }

  /**
   * Notes this process, before it takes any event. If processes of another version are awake, it waits until they know
   * of it: they would ignore what only this one handles.
   */
  async begin(): Promise<void> {
    this.keep();
    await withDeadline(this.#noting!, BEGIN_MS).catch(() => {});
    const others = await withDeadline(this.#read(), BEGIN_MS).catch(() => []);
    const own = identityOf(this.#own);
    if (others.every((note) => !("isUnreadable" in note) && identityOf(note) === own)) return;
    await sleep(CACHED_MS);
  }

  /** Has the events noted whose handlers run past their time limits, by the next look at the clock. */
  noteOverdue(ids: readonly string[]): void {
    if (ids.length === 0 && this.#overdue.length === 0) return;
    this.#overdue = ids.slice(0, MAX_NOTED);
    this.#notedAt = -Infinity;
  }

  /** Has the handlers noted that were told to end and have not, if they are others than before. */
  noteHung(hung: readonly HungHandler[]): void {
    const noted = hung.slice(0, MAX_NOTED);
    const isSame = noted.length === this.#hung.length &&
      noted.every(({ id }, i) => id === this.#hung[i]!.id);
    if (isSame) return;
    this.#hung = noted;
    this.#notedAt = -Infinity;
  }

  /** Has this process noted as often as one that is not idle: it runs an event. */
  stir(): void {
    this.#idleNotes = 0;
    this.#everyMs = NOTE_MS;
  }

  /** Notes this process again, if that is due. */
  keep(): void {
    const now = performance.now();
    if (this.#isEnded || this.#noting || now - this.#notedAt < this.#everyMs) return;
    this.#notedAt = now;
    this.#everyMs = Math.min(NOTE_MS * 2 ** this.#idleNotes++, IDLE_NOTE_MS);
    this.#noting = this.#note().finally(() => this.#noting = undefined);
  }

  /** Deletes the note of this process. */
  async end(): Promise<void> {
    this.#isEnded = true;
    const { store, owner } = this.#options;
    const ending = (async () => {
      await this.#noting;
      await store.forgetProcess(owner);
    })();
    // If it fails, the note is forgotten after a while.
    await withDeadline(ending, END_MS).catch(() => {});
  }

  /**
   * Tells whether an event is left to others, because this process has no handler for it.
   *
   * @param id The event's id.
   * @param dueAt The time since which it has been due.
   */
  isLeft(id: string, dueAt: number): boolean {
    return this.#putOff.has(id) && Date.now() - dueAt < LEFT_MS;
  }

  /**
   * Finds the time for which an event without a handler is to be put off.
   *
   * @param record The event's record.
   * @returns The time in milliseconds; undefined if no other process has a handler, or it has waited for long enough.
   */
  async delayFor(record: EventRecord): Promise<number | undefined> {
    const { waitForHandlerMs } = this.#options;
    const now = Date.now();
    const since = unhandledSince(record, now);
    const leftMs = (since ?? now) + waitForHandlerMs - now;
    if (leftMs <= 0 || (since === undefined && !await this.#isHandledElsewhere(record))) {
      this.#putOff.forget(record.id);
      return undefined;
    }
    return Math.min(leftMs, this.#putOff.next(record.id));
  }

  async #isHandledElsewhere(record: EventRecord): Promise<boolean> {
    try {
      return (await this.#read()).some((note) => mayHandle(note, this.#own, record));
    } catch (error) {
      if (error instanceof ClosedError) throw error;
      writeLog(this.#options.log, "warn", "other processes not known, event put off", {
        eventId: record.id,
        error,
      });
      return true;
    }
  }

  /** Reads the notes of the other processes, unless that was done a short time ago. */
  #read(): Promise<readonly Note[]> {
    const now = performance.now();
    if (this.#others && now - this.#askedAt < CACHED_MS) return this.#others;
    this.#askedAt = now;
    const { store, owner } = this.#options;
    const reading = withDeadline(store.processes(), CALL_MS)
      .then((all) => all.filter(({ id }) => id !== owner));
    reading.catch(() => {
      if (this.#others === reading) this.#others = undefined;
    });
    return this.#others = reading;
  }

  get #own(): Pick<ProcessNote, "version" | "handles"> {
    const { handler, version } = this.#options;
    const describe = (handler as DescribedHandler)[HANDLES];
    return { version, handles: describe ? describe() : null };
  }

  async #note(): Promise<void> {
    const { store, owner: id, log, timeoutMs, concurrency: places } = this.#options;
    const { version, handles } = this.#own;
    const [overdue, hung, everyMs] = [this.#overdue, this.#hung, this.#everyMs];
    const isShort = JSON.stringify(handles).length <= MAX_HANDLES_LENGTH;
    const times = { startedAt: this.#startedAt, seenAt: Date.now() };
    const noted: readonly HandledEvents[] | null = isShort ? handles : null;
    try {
      const note: ProcessNote = {
        ...{ id, name: NAME },
        ...(version !== undefined && { version }),
        places,
        ...(overdue.length > 0 && { overdue }),
        ...(hung.length > 0 && { hung }),
        ...times,
        everyMs,
        timeoutMs,
        handles: noted,
      };
      await withDeadline(store.noteProcess(note), CALL_MS);
    } catch (error) {
      // It is written again a minute later, and the one before is kept for longer.
      this.#everyMs = NOTE_MS;
      if (!this.#isEnded && !(error instanceof ClosedError)) {
        writeLog(log, "warn", "process not noted", { error });
      }
    }
  }
}

/** Makes a text that processes with the same handlers share; without a list of handlers, processes of the same version. */
function identityOf({ handles, version }: Pick<ProcessNote, "version" | "handles">): string {
  return JSON.stringify(handles ?? { version });
}

type Note = Awaited<ReturnType<EventStore["processes"]>>[number];

/** Checks whether a process may have a handler for an event. Without a list it may, unless it has this version. */
function mayHandle(
  note: Note,
  own: Pick<ProcessNote, "version" | "handles">,
  record: EventRecord,
): boolean {
  if ("isUnreadable" in note) return true;
  if (note.handles !== null) return hasHandlerFor(note.handles, record);
  return own.handles !== null || note.version !== own.version;
}

/** Names this process by its number, and by its machine if it may read that. */
function nameOfProcess(): string {
  const number = String(process.pid);
  try {
    const { state } = Deno.permissions.querySync({ name: "sys", kind: "hostname" });
    return state === "granted" ? `${Deno.hostname()}:${number}` : number;
  } catch {
    return number;
  }
}
