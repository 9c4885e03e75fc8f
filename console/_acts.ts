import { type LogSink, reasonOf, writeLog } from "../core/mod.ts";
import { isCount, isOneOf, isText, shape } from "../core/shape.ts";
import type {
  BulkOptions,
  BulkResult,
  EventFilter,
  EventStore,
  StoredEvent,
} from "../events/store/mod.ts";
import type { ConsoleRecordKey, ConsoleRecords } from "../events/store/own_cells.ts";
import { type ActedEvents, ActLists } from "./_act_lists.ts";
import { ActProgress } from "./_act_progress.ts";
import { type Act, actOf, isResumable, keyOf } from "./_act_record.ts";
import { stepsOf } from "./_act_steps.ts";
import { aboutOf, eventsIn, recordOf } from "./_format.ts";
import {
  type ActKind,
  type ActQuery,
  askedAtOf,
  type DeedKind,
  KINDS,
  kindsFor,
} from "./_query.ts";
import { findEvent } from "./_search.ts";

/** Most records, and the number of acts after which those beyond are deleted. */
const MAX_ACTS = 2_000;
const TRIM_EACH = 100;

/** Most acts of a page. */
const SHOWN = 50;

/** Time for which the wish to stop an act is kept. */
const STOP_KEPT_MS = 86_400_000;

/** Question that an act answers: its id, its kind, who answers, and an event or a choice of events. */
type Question = Pick<Act, "id" | "by" | "eventId" | "about" | "query" | "of"> & {
  readonly kind: ActKind;
};

/** Thing that is done to an event, a schedule or a state, and who does it. */
export type Deed = Pick<Act, "id" | "by" | "as" | "eventId" | "about"> & {
  readonly kind: DeedKind;
};

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
 * step in memory. Each event is changed only if it still matches. To resume it is to ask the same question again: what
 * it has changed does not match any more.
 */
export class Acts {
  readonly #parts: ActParts;
  readonly #lists: ActLists;
  readonly #ending = new AbortController();
  readonly #running = new Map<string, ActProgress>();
  readonly #ends = new Set<Promise<void>>();
  #begun = 0;

  constructor(parts: ActParts) {
    this.#parts = parts;
    this.#lists = new ActLists(parts.store);
  }

  /**
   * Acts on one event, unless it has come or ended after the question. If an act with the id has begun before, it is
   * returned.
   */
  async one(question: Question & { readonly eventId: string }): Promise<Act> {
    const begun = begin(question);
    const act = await this.get(begun.id) ? undefined : await this.#runOne(begun);
    if (!act) return await this.#again(begun);
    this.#logOne(act);
    return act;
  }

  /**
   * Does something to one thing. If an act with the id has begun before, it is returned.
   *
   * @param deed The thing.
   * @param change Does it; false if there is nothing to be done any more.
   */
  async deed(deed: Deed, change: () => Promise<boolean>): Promise<Act> {
    const begun = begin(deed);
    const progress = await this.#start(begun);
    if (!progress) return await this.#again(begun);
    const act = await this.#run(progress, async () => {
      progress.note({ seen: 1, underway: 1 });
      progress.note({ changed: await change() ? 1 : 0, underway: 0 });
    });
    this.#logOne(act);
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
    this.#goThrough(progress, question);
    return begun;
  }

  /**
   * Resumes an act on many that has ended before its last event: the same question is asked again. Of several who do
   * at the same time, one does. An act that has not ended, or is finished, stays as it is.
   */
  async resume(id: string, by: string): Promise<void> {
    const { records, log } = this.#parts;
    const key = keyOf("act", id);
    const own = this.#running.get(id);
    if (!key || own?.act.state === "running") return;
    // Its end may not be written yet.
    await own?.ended;
    const { value, version } = await records.readVersion(key);
    const stored = actOf(value, key);
    if (!stored?.query || !isResumable(stored)) return;
    const { act: { stoppedBy: _by, error: _error, ...act }, lists } = await this.#lists.settled(
      stored,
    );
    const { changed, kind, query, resumed = 0 } = act;
    if (!isOnEvents(kind)) return;
    const none = { underway: 0, notKept: 0, seen: changed };
    const again = { ...act, ...none, resumed: resumed + 1, resumedBy: by };
    const progress = new ActProgress(records, { ...again, state: "running" }, version);
    if (!await progress.begin(lists)) return;
    writeLog(log, "info", "console act resumed", { kind, actId: id, by });
    this.#running.set(id, progress);
    this.#goThrough(progress, { ...again, kind, query: query! });
  }

  /** Reads an act, with its progress; null if there is none. */
  async get(id: string): Promise<Act | null> {
    const act = await this.#read(id);
    return act && await this.#asItIs(act);
  }

  /** Finds how far an act has come that did not end its last step. */
  async #asItIs(act: Act): Promise<Act> {
    return act.state === "running" ? act : (await this.#lists.settled(act)).act;
  }

  /**
   * Reads a part of the events that an act on many has changed, and how they stand now; null if there is no such act.
   *
   * @param id The id of the act.
   * @param part The number of the part, from 1.
   */
  async changed(id: string, part: number): Promise<ActedEvents | null> {
    const act = await this.#read(id);
    return act && await this.#lists.part(act, act.state !== "running", part);
  }

  /** Reads an act as it is recorded. */
  async #read(id: string): Promise<Act | null> {
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
        if (act) acts.push(await this.#asItIs(this.#running.get(act.id)?.act ?? act));
        before = key;
        isMore = true;
      }
    }
    return { acts, cursor: undefined };
  }

  /** Stops an act on many: at once if it runs in this process, and otherwise at its next step. */
  async end(id: string, by: string): Promise<void> {
    const act = await this.#read(id);
    if (act?.state !== "running" || !act.query) return;
    const value = { v: 1, by, resumed: act.resumed ?? 0 };
    await this.#parts.records.write([{ ...keyOf("stop", id)!, value, forMs: STOP_KEPT_MS }]);
    writeLog(this.#parts.log, "info", "console act stopped", { kind: act.kind, actId: id, by });
    this.#running.get(id)?.stop.abort();
  }

  /** Ends the acts that run, as interrupted. */
  async stop(): Promise<void> {
    this.#ending.abort();
    await Promise.all(this.#ends);
  }

  /** Acts on an event; undefined if the act with this id has begun already. */
  async #runOne(begun: Act & Question): Promise<Act | undefined> {
    const { kind } = begun;
    const event = await findEvent(this.#parts.store, begun.eventId!);
    const isMeant = event && kindsFor(event.state).includes(kind) &&
      !hasChangedSince(event, askedAtOf(begun.id)!);
    // It may have been changed by this act, sent at the same time.
    if (!isMeant) return await this.get(begun.id) ? undefined : { ...begun, state: "finished" };
    const record = recordOf(event);
    const progress = await this.#start(record ? { ...begun, about: aboutOf(record) } : begun);
    return progress && await this.#run(progress, () => this.#changeOne(progress, kind, event));
  }

  /** Writes the first record of an act; undefined if it has one already. */
  async #start(act: Act): Promise<ActProgress | undefined> {
    const progress = new ActProgress(this.#parts.records, act, null);
    if (!await progress.begin()) return undefined;
    this.#running.set(act.id, progress);
    if (this.#begun++ % TRIM_EACH === 0) this.#track(this.#trim());
    return progress;
  }

  /** Runs an act on many. */
  #goThrough(progress: ActProgress, question: Question & { readonly query: ActQuery }): void {
    const run = this.#run(progress, () => this.#changeAll(progress, question));
    progress.ended = run;
    this.#track(run.then((end) => this.#logEnd(end)));
  }

  /** Reads the act that has begun under an id. Somebody has sent its form again, and the log names them. */
  async #again({ id, kind, eventId, query, about, by }: Act): Promise<Act> {
    const act = await this.get(id);
    if (!act) throw new Error("The record of the act cannot be read: another version wrote it");
    const asked = eventId !== undefined ? { eventId } : query ? { query } : { about };
    const data = { kind, actId: id, ...asked, by, begunBy: act.by };
    writeLog(this.#parts.log, "info", "console act sent again", data);
    return act;
  }

  /** Runs an act, and records its end. */
  async #run(progress: ActProgress, change: () => Promise<void>): Promise<Act> {
    try {
      await progress.during(change);
      const isCut = progress.act.query !== undefined && this.#ending.signal.aborted;
      if (progress.act.state === "running") {
        progress.note({ state: isCut || progress.isLost ? "interrupted" : "finished" });
      }
    } catch (error) {
      if (progress.isLost) progress.note({ state: "interrupted" });
      else progress.note({ state: "failed", error: reasonOf(error) });
    }
    const { act } = progress;
    const isEmpty = !act.query && act.changed === 0 && act.state !== "failed";
    try {
      if (progress.isLost) return act;
      if (isEmpty) await this.#parts.records.delete(keyOf("act", act.id)!);
      else await progress.write();
    } catch (error) {
      // The events are changed. Their record has no end, so it shows an interruption.
      writeLog(this.#parts.log, "error", "console act not recorded", { act, error });
    } finally {
      this.#running.delete(act.id);
    }
    return act;
  }

  #logOne({ kind, eventId, about, changed, by, as, batch, error }: Act): void {
    const data = {
      ...(eventId === undefined ? { kind, about, changed, by } : { kind, eventId, changed, by }),
      ...(as !== undefined && { as }),
      ...(batch > 0 && { batch }),
      ...(error !== undefined && { error }),
    };
    writeLog(this.#parts.log, error === undefined ? "info" : "error", "console act", data);
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

  async #changeOne(progress: ActProgress, kind: ActKind, event: StoredEvent): Promise<void> {
    const { by } = progress.act;
    const { id, state } = event;
    progress.note({ seen: 1, underway: 1 });
    const wasCancelled = "cancelRequestedAt" in event && event.cancelRequestedAt !== undefined;
    // A cancellation is for the event in any open state: it may have been leased meanwhile.
    const filter = { ids: [id], ...(kind !== "cancel" && { state }) };
    const found = await this.#change(kind, filter, { by });
    const changed = kind === "cancel" && wasCancelled ? 0 : found.changed;
    const events = changed > 0 && kind === "cancel" ? eventsIn(event) : 1;
    progress.note({ changed, underway: 0, batch: events > 1 ? events : 0 });
  }

  async #changeAll(
    progress: ActProgress,
    question: Question & { readonly query: ActQuery },
  ): Promise<void> {
    const { id, kind, by } = question;
    const { records } = this.#parts;
    const signal = AbortSignal.any([this.#ending.signal, progress.stop.signal]);
    const { of = Infinity, resumed = 0 } = progress.act;
    const stoppedBy = async () => byOf(await records.read(keyOf("stop", id)!), resumed);
    for await (const step of stepsOf(this.#parts.store, question, signal)) {
      // Another instance may have been told.
      if (await stoppedBy() !== undefined) progress.stop.abort();
      if (signal.aborted) break;
      const { changed, seen, notKept } = progress.act;
      progress.note({ seen: seen + step.seen, notKept: notKept + step.notKept });
      const ids = step.filter.ids.slice(0, Math.max(0, of - changed));
      if (ids.length === 0) continue;
      const before = progress.act;
      // First: if the process dies, the record says which ones may be changed besides.
      await this.#list(progress, ids);
      if (signal.aborted) {
        progress.note({ underway: 0, lists: before.lists ?? 0 });
        break;
      }
      const note = (more: number) =>
        progress.note({ changed: changed + more, underway: ids.length - more });
      const { changed: made, left } = await this.#change(kind, { ...step.filter, ids }, {
        ...{ signal, by },
        onProgress: ({ changed }) => note(changed),
      });
      note(made);
      const lists = left.length > 0 ? this.#lists.of(before, ids, left) : [];
      await progress.write({ underway: 0 }, lists);
    }
    const isStopped = progress.stop.signal.aborted && !this.#ending.signal.aborted;
    const stopper = isStopped && await stoppedBy();
    if (stopper) progress.note({ state: "stopped", stoppedBy: stopper });
  }

  /** Lists the events of a step in the record of their act. */
  async #list(progress: ActProgress, ids: readonly string[]): Promise<void> {
    const { lists = 0 } = progress.act;
    // Once a list is left out, all are: those that are kept have no hole.
    const made = progress.act.isCut ? [] : this.#lists.of(progress.act, ids);
    const noted = { underway: ids.length, lists: lists + made.length };
    await progress.write({ ...noted, ...(made.length === 0 && { isCut: true }) }, made);
  }

  /** Changes the events of a filter, as far as they match it. */
  async #change(
    kind: ActKind,
    filter: EventFilter,
    { by, ...options }: BulkOptions & { readonly by: string },
  ): Promise<BulkResult> {
    const { store } = this.#parts;
    if (kind === "replay") return await store.replayAll(filter, { by, ...options });
    if (kind === "cancel") return await store.cancelAll(filter, { by, ...options });
    return await store.purge(filter, options);
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
      ranked[isIdle ? 0 : act?.query ? 2 : 1]!.push(key);
      count++;
    }
    for (const key of ranked.flat().slice(0, Math.max(0, count - MAX_ACTS))) {
      if (this.#ending.signal.aborted) return;
      await records.delete(key);
    }
  }
}

/** Tells whether an act is on events, and not a deed. */
const isOnEvents = (kind: Act["kind"]): kind is ActKind =>
  (KINDS as readonly string[]).includes(kind);

function begin<TQuestion extends Question | Deed>(question: TQuestion): Act & TQuestion {
  const none = { changed: 0, batch: 0, underway: 0, notKept: 0, seen: 0 };
  const begun = { ...question, at: Date.now(), ...none, state: "running" } as const;
  return begun as Act & TQuestion;
}

/** Checks whether an event has come, or ended, after the question about it: it is another one, or ended anew. */
function hasChangedSince(event: StoredEvent, askedAt: number): boolean {
  return event.receivedAt > askedAt || (recordOf(event)?.settledAt ?? 0) > askedAt;
}

const isStopShape = shape({ v: isOneOf([1]), by: isText, resumed: isCount });

/** Reads who wishes to stop an act, as it was resumed last; undefined if nobody does. */
function byOf(value: unknown, resumed: number): string | undefined {
  if (!isStopShape(value)) return undefined;
  const stop = value as { readonly by: string; readonly resumed: number };
  return stop.resumed === resumed ? stop.by : undefined;
}
