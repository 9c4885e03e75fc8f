import { type LogSink, reasonOf, writeLog } from "../core/mod.ts";
import { isCount, isOneOf, isText, isTime, orNone, shape } from "../core/shape.ts";
import { STORED_STATES } from "../events/store/event_record.ts";
import type { EventFilter, EventStore, StoredEvent } from "../events/store/mod.ts";
import type {
  ConsoleRecordKey,
  ConsoleRecords,
  NewConsoleRecord,
} from "../events/store/own_cells.ts";
import { stepsOf } from "./_act_steps.ts";
import { aboutOf, eventsIn, recordOf } from "./_format.ts";
import { type ActKind, type ActQuery, askedAtOf, KINDS, kindsFor } from "./_query.ts";
import { findEvent } from "./_search.ts";

/** Most records, and the number of acts after which those beyond are deleted. */
const MAX_ACTS = 2_000;
const TRIM_EACH = 100;

/** Most acts of a page. */
const SHOWN = 50;

/** Time for which a record is kept, and the wish to stop an act. */
const KEPT_MS = 90 * 86_400_000;
const STOP_KEPT_MS = 86_400_000;

/** Longest time between two signs of life of an act that runs. */
const ALIVE_MS = 1_000;

/** Time without a sign of life after which an act counts as interrupted. */
const INTERRUPTED_MS = 10_000;

const ACT_STATES = ["running", "finished", "failed", "interrupted", "stopped"] as const;

/** Kept record of an act: who did what, when, and to how many. */
export interface Act {
  /** Id, which begins with the time of the question that was asked before. */
  readonly id: string;
  /** Kind. */
  readonly kind: ActKind;
  /** Time at which it began, milliseconds since the epoch. */
  readonly at: number;
  /** Session and address of who did it, for people: `operator 3f2a from 203.0.113.7`. */
  readonly by: string;
  /** Event that it was done to; undefined for all that match. */
  readonly eventId?: string | undefined;
  /** Type of that event, and the repository or chat that it belongs to, for people. */
  readonly about?: string | undefined;
  /** Choice of events, of an act on many. */
  readonly query?: ActQuery | undefined;
  /** Number of events changed so far. */
  readonly changed: number;
  /** Number of events in the batch that was cancelled with its first event; 0 without a batch. */
  readonly batch: number;
  /**
   * Number of further events that are being changed. Of an act that failed or was interrupted, they may be
   * changed or not.
   */
  readonly underway: number;
  /** Number of events that cannot be replayed, since they are done and their payloads are not kept. */
  readonly notKept: number;
  /** Number of events read so far: those that the question was about. */
  readonly seen: number;
  /** State: an act whose process has died is `interrupted`. */
  readonly state: typeof ACT_STATES[number];
  /** Session and address of who stopped it. */
  readonly stoppedBy?: string | undefined;
  /** Error, if it failed. */
  readonly error?: string | undefined;
}

/** Question that an act answers: its id, its kind, who answers, and an event or a choice of events. */
type Question = Pick<Act, "id" | "kind" | "by" | "eventId" | "query">;

/** Page of acts, the newest first. */
export interface ActPage {
  /** Acts, at most 50. */
  readonly acts: readonly Act[];
  /** Cursor for the next page: the id of the last act. Undefined if there is none. */
  readonly cursor: string | undefined;
}

/** Parts that acts are done with. */
export interface ActParts {
  readonly store: EventStore;
  readonly records: ConsoleRecords;
  readonly log: LogSink;
}

/**
 * Acts of operators. Each has a record from before its first change on: so an act of a process that died is
 * known, and who did it. An act on one event that changed nothing is only in the log.
 *
 * An act on many goes through the events that it was asked about, the oldest first, in steps. It holds one
 * step in memory. Each event is changed only if it still matches.
 */
export class Acts {
  readonly #parts: ActParts;
  readonly #ending = new AbortController();
  readonly #running = new Map<string, ActProgress>();
  readonly #ends = new Set<Promise<void>>();
  #begun = 0;

  constructor(parts: ActParts) {
    this.#parts = parts;
  }

  /**
   * Acts on one event, unless it has come or ended after the question. If an act with the id has begun before, it is
   * returned.
   */
  async one(question: Question & { readonly eventId: string }): Promise<Act> {
    const begun = begin(question);
    const act = await this.get(begun.id) ? undefined : await this.#runOne(begun);
    if (!act) return await this.#again(begun);
    const { kind, eventId, changed, by, batch, error } = act;
    const data = {
      ...{ kind, eventId, changed, by },
      ...(batch > 0 && { batch }),
      ...(error !== undefined && { error }),
    };
    writeLog(this.#parts.log, error === undefined ? "info" : "error", "console act", data);
    return act;
  }

  /**
   * Begins to act on all events of a choice, paced. Those that came after the question, or were settled after it, are
   * left alone. If an act with the id has begun before, it is returned.
   */
  async all(question: Question & { readonly query: ActQuery }): Promise<Act> {
    const begun = begin(question);
    const progress = await this.#start(begun);
    if (!progress) return await this.#again(begun);
    const { id: actId, kind, query, by } = begun;
    writeLog(this.#parts.log, "info", "console act", { kind, actId, query, by });
    const run = this.#run(progress, () => this.#changeAll(progress, question));
    this.#track(run.then((end) => this.#logEnd(end)));
    return begun;
  }

  /** Reads an act, with its progress; null if there is none. */
  async get(id: string): Promise<Act | null> {
    const key = keyOf("act", id);
    if (!key) return null;
    return this.#running.get(id)?.act ?? actOf(await this.#parts.records.read(key), key);
  }

  /** Lists acts, the newest first: the latest, or those before another one. */
  async list(cursor?: string): Promise<ActPage> {
    const acts: Act[] = [];
    let before = cursor === undefined ? undefined : keyOf("act", cursor);
    for (let isMore = true; isMore;) {
      isMore = false;
      for await (const { value, ...key } of this.#parts.records.last("act", SHOWN + 1, before)) {
        const act = actOf(value, key);
        if (act && acts.length === SHOWN) return { acts, cursor: acts.at(-1)!.id };
        if (act) acts.push(this.#running.get(act.id)?.act ?? act);
        before = key;
        isMore = true;
      }
    }
    return { acts, cursor: undefined };
  }

  /** Stops an act on many: at once if it runs in this process, and otherwise at its next step. */
  async end(id: string, by: string): Promise<void> {
    const act = await this.get(id);
    if (act?.state !== "running" || act.eventId !== undefined) return;
    const value = { v: 1, by };
    await this.#parts.records.create({ ...keyOf("stop", id)!, value, forMs: STOP_KEPT_MS });
    writeLog(this.#parts.log, "info", "console act stopped", { kind: act.kind, actId: id, by });
    this.#running.get(id)?.stop.abort();
  }

  /** Ends the acts that run, as interrupted. */
  async stop(): Promise<void> {
    this.#ending.abort();
    await Promise.all(this.#ends);
  }

  /** Acts on an event; undefined if the act with this id has begun already. */
  async #runOne(begun: Act): Promise<Act | undefined> {
    const event = await findEvent(this.#parts.store, begun.eventId!);
    const isMeant = event && kindsFor(event.state).includes(begun.kind) &&
      !hasChangedSince(event, askedAtOf(begun.id)!);
    // It may have been changed by this act, sent at the same time.
    if (!isMeant) return await this.get(begun.id) ? undefined : { ...begun, state: "finished" };
    const record = recordOf(event);
    const progress = await this.#start(record ? { ...begun, about: aboutOf(record) } : begun);
    return progress && await this.#run(progress, () => this.#changeOne(progress, event));
  }

  /** Writes the first record of an act; undefined if it has one already. */
  async #start(act: Act): Promise<ActProgress | undefined> {
    const { records } = this.#parts;
    if (!await records.create(actRecord(act))) return undefined;
    const progress = new ActProgress(records, act);
    this.#running.set(act.id, progress);
    if (this.#begun++ % TRIM_EACH === 0) this.#track(this.#trim());
    return progress;
  }

  /** Reads the act that has begun under an id. Somebody has sent its form again, and the log names them. */
  async #again({ id, kind, eventId, query, by }: Act): Promise<Act> {
    const act = await this.get(id);
    if (!act) throw new Error("The record of the act cannot be read: another version wrote it");
    const asked = eventId === undefined ? { query } : { eventId };
    const data = { kind, actId: id, ...asked, by, begunBy: act.by };
    writeLog(this.#parts.log, "info", "console act sent again", data);
    return act;
  }

  /** Runs an act, and records its end. */
  async #run(progress: ActProgress, change: () => Promise<void>): Promise<Act> {
    try {
      await progress.during(change);
      const isCut = progress.act.eventId === undefined && this.#ending.signal.aborted;
      if (progress.act.state === "running") {
        progress.note({ state: isCut ? "interrupted" : "finished" });
      }
    } catch (error) {
      progress.note({ state: "failed", error: reasonOf(error) });
    }
    const { act } = progress;
    const isEmpty = act.eventId !== undefined && act.changed === 0 && act.state !== "failed";
    try {
      if (isEmpty) await this.#parts.records.delete(keyOf("act", act.id)!);
      else await progress.write();
    } catch (error) {
      // The events are changed. Their record has no end, so it shows an interruption.
      writeLog(this.#parts.log, "error", "console act not recorded", { act, error });
    }
    this.#running.delete(act.id);
    return act;
  }

  #logEnd({ id: actId, kind, by, state, changed, seen, error }: Act): void {
    const isMeant = state === "finished" || state === "stopped";
    const level = isMeant ? "info" : state === "failed" ? "error" : "warn";
    const data = { kind, actId, state, changed, seen, by, ...(error !== undefined && { error }) };
    writeLog(this.#parts.log, level, "console act ended", data);
  }

  #track(task: Promise<unknown>): void {
    const end = task
      .catch((error) => writeLog(this.#parts.log, "warn", "console acts not trimmed", { error }))
      .then(() => void this.#ends.delete(end));
    this.#ends.add(end);
  }

  async #changeOne(progress: ActProgress, event: StoredEvent): Promise<void> {
    const { kind } = progress.act;
    const { id, state } = event;
    progress.note({ seen: 1, underway: 1 });
    const wasCancelled = "cancelRequestedAt" in event && event.cancelRequestedAt !== undefined;
    // A cancellation is for the event in any open state: it may have been leased meanwhile.
    const filter = { ids: [id], ...(kind !== "cancel" && { state }) };
    const found = await this.#change(kind, filter);
    const changed = kind === "cancel" && wasCancelled ? 0 : found;
    const events = changed > 0 && kind === "cancel" ? eventsIn(event) : 1;
    progress.note({ changed, underway: 0, batch: events > 1 ? events : 0 });
  }

  async #changeAll(
    progress: ActProgress,
    question: Question & { readonly query: ActQuery },
  ): Promise<void> {
    const { id, kind } = question;
    const { records } = this.#parts;
    const signal = AbortSignal.any([this.#ending.signal, progress.stop.signal]);
    const stoppedBy = async () => byOf(await records.read(keyOf("stop", id)!));
    for await (const step of stepsOf(this.#parts.store, question, signal)) {
      // Another instance may have been told.
      if (await stoppedBy() !== undefined) progress.stop.abort();
      if (signal.aborted) break;
      const { changed, seen, notKept } = progress.act;
      progress.note({ seen: seen + step.seen, notKept: notKept + step.notKept });
      const { ids } = step.filter;
      if (ids.length === 0) continue;
      // First: if the process dies, the record says how many may be changed besides.
      await progress.write({ underway: ids.length });
      if (signal.aborted) {
        progress.note({ underway: 0 });
        break;
      }
      const note = (more: number) =>
        progress.note({ changed: changed + more, underway: ids.length - more });
      note(
        await this.#change(kind, step.filter, {
          signal,
          onProgress: ({ changed }) => note(changed),
        }),
      );
      await progress.write({ underway: 0 });
    }
    const by = progress.stop.signal.aborted && !this.#ending.signal.aborted && await stoppedBy();
    if (by) progress.note({ state: "stopped", stoppedBy: by });
  }

  /** Changes the events of a filter, as far as they match it. */
  async #change(
    kind: ActKind,
    filter: EventFilter,
    options: Parameters<EventStore["purge"]>[1] = {},
  ): Promise<number> {
    const { store } = this.#parts;
    if (kind === "replay") return (await store.replayAll(filter, options)).changed;
    if (kind === "cancel") return (await store.cancelAll(filter, options)).changed;
    return (await store.purge(filter, options)).changed;
  }

  /**
   * Deletes records beyond the largest number: first acts that changed nothing, then acts on one event, the oldest
   * first. So many small acts do not push out the large ones.
   */
  async #trim(): Promise<void> {
    const { records } = this.#parts;
    const ranked: ConsoleRecordKey[][] = [[], [], []];
    let count = 0;
    for await (const { value, ...key } of records.between("act", 0, Number.MAX_SAFE_INTEGER)) {
      if (this.#ending.signal.aborted) return;
      const act = actOf(value, key);
      const isIdle = act?.changed === 0 && act.state === "finished";
      ranked[isIdle ? 0 : act && act.eventId === undefined ? 2 : 1]!.push(key);
      count++;
    }
    for (const key of ranked.flat().slice(0, Math.max(0, count - MAX_ACTS))) {
      if (this.#ending.signal.aborted) return;
      await records.delete(key);
    }
  }
}

/** Progress of an act that runs, and its record. Writings of the record come one after the other. */
class ActProgress {
  /** Stops an act on many. */
  readonly stop = new AbortController();
  readonly #records: ConsoleRecords;
  #act: Act;
  #written: Promise<void> = Promise.resolve();
  #isWriting = false;

  constructor(records: ConsoleRecords, act: Act) {
    this.#records = records;
    this.#act = act;
  }

  /** The act, as it is now. */
  get act(): Act {
    return this.#act;
  }

  /** Notes progress, which the next writing records. */
  note(progress: Partial<Act>): void {
    this.#act = { ...this.#act, ...progress };
  }

  /** Notes progress, and records it. */
  async write(progress: Partial<Act> = {}): Promise<void> {
    this.note(progress);
    const writing = this.#written.then(async () => {
      this.#isWriting = true;
      await this.#records.write([actRecord(this.#act)]);
    }).finally(() => this.#isWriting = false);
    this.#written = writing.catch(() => {});
    await writing;
  }

  /** Runs something, and gives signs of life meanwhile. */
  async during(run: () => Promise<void>): Promise<void> {
    const timer = setInterval(() => {
      // One that fails changes nothing: what the act itself writes fails as well then, or follows.
      if (!this.#isWriting) this.write().catch(() => {});
    }, ALIVE_MS);
    try {
      await run();
    } finally {
      clearInterval(timer);
      await this.#written;
    }
  }
}

function begin(question: Question): Act {
  const none = { changed: 0, batch: 0, underway: 0, notKept: 0, seen: 0 };
  return { ...question, at: Date.now(), ...none, state: "running" };
}

/** Checks whether an event has come, or ended, after the question about it: it is another one, or ended anew. */
function hasChangedSince(event: StoredEvent, askedAt: number): boolean {
  return event.receivedAt > askedAt || (recordOf(event)?.settledAt ?? 0) > askedAt;
}

const isQuery = shape({
  state: isOneOf(STORED_STATES),
  ...{ type: orNone(isText), source: orNone(isText), place: orNone(isText), group: orNone(isText) },
  ...{ q: orNone(isText), name: orNone(isText), from: orNone(isTime), before: orNone(isTime) },
});

const isActShape = shape({
  v: isOneOf([1]),
  id: isText,
  kind: isOneOf(KINDS),
  ...{ at: isTime, aliveAt: isTime, by: isText },
  ...{ eventId: orNone(isText), about: orNone(isText), query: orNone(isQuery) },
  ...{ changed: isCount, batch: isCount, underway: isCount, notKept: isCount, seen: isCount },
  state: isOneOf(ACT_STATES),
  ...{ stoppedBy: orNone(isText), error: orNone(isText) },
});

const isStopShape = shape({ v: isOneOf([1]), by: isText });

/** Finds the place of an act, or of the wish to stop it, by the id of the act; undefined if it is none. */
function keyOf(kind: "act" | "stop", id: string): ConsoleRecordKey | undefined {
  const number = askedAtOf(id);
  return number === undefined ? undefined : { kind, number, id };
}

/** Makes the record of an act that is alive. */
function actRecord(act: Act): NewConsoleRecord {
  const value = { v: 1, ...act, aliveAt: Date.now() };
  return { ...keyOf("act", act.id)!, value, forMs: KEPT_MS };
}

/** Reads a record; null if it is of another version, or damaged. */
function actOf(value: unknown, { id, number }: ConsoleRecordKey): Act | null {
  if (!isActShape(value)) return null;
  const { v: _, aliveAt, ...act } = value as Act & { readonly v: 1; readonly aliveAt: number };
  if (act.id !== id || askedAtOf(id) !== number) return null;
  const isSilent = Date.now() - aliveAt > INTERRUPTED_MS;
  return act.state === "running" && isSilent ? { ...act, state: "interrupted" } : act;
}

/** Reads who wishes to stop an act; undefined if nobody does. */
function byOf(value: unknown): string | undefined {
  return isStopShape(value) ? (value as { readonly by: string }).by : undefined;
}
