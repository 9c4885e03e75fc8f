import { type LogSink, reasonOf, writeLog } from "../core/mod.ts";
import type { ConsoleRecordKey, ConsoleRecords } from "../events/store/kv/console_records.ts";
import type { EventFilter, EventRecord, EventStore, StoredEvent } from "../events/store/mod.ts";
import type { StoreInspector } from "../events/store/kv/store_inspector.ts";
import { ActProgress } from "./_act_progress.ts";
import {
  actOf,
  askedAtOf,
  boundedQuery,
  boundedText,
  keyOfAct,
  keyOfStop,
  MAX_TEXT_LENGTH,
  newActId,
  recordOfAct,
  recordOfStop,
  stoppedBy,
} from "./_act_record.ts";
import { stepsOf } from "./_act_steps.ts";
import type { Act, ActKind, ActPage, DeliveryQuery } from "./_console_data.ts";
import { aboutOf } from "./_event_names.ts";
import { kindsFor } from "./_query.ts";

/** Most records, and the number of acts after which those beyond are deleted. */
const MAX_ACTS = 2_000;
const TRIM_EACH = 100;

/** Most acts of a page. */
const SHOWN = 50;

/** Parts that acts are done with. */
export interface ActParts {
  readonly store: EventStore;
  readonly inspector: StoreInspector;
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
  /** Controllers that stop the acts on many of this process, by the ids of the acts. */
  readonly #stops = new Map<string, AbortController>();
  readonly #ends = new Set<Promise<void>>();
  #begun = 0;

  constructor(parts: ActParts) {
    this.#parts = parts;
  }

  /** Acts on one event. */
  async one(kind: ActKind, eventId: string, by: string, id: string = newActId()): Promise<Act> {
    const begun = begin({ id, kind, by, eventId: boundedText(eventId) });
    const isKnown = await this.get(id) !== null;
    const act = isKnown ? undefined : await this.#runOne(begun, await this.#find(eventId));
    if (!act) return await this.#again(begun);
    const isFailed = act.state === "failed";
    const { changed, error } = act;
    const { batch } = act;
    const data = {
      ...{ kind, eventId: act.eventId, changed, by: act.by },
      ...batch !== undefined && { batch },
      ...isFailed && { error },
    };
    writeLog(this.#parts.log, isFailed ? "error" : "info", "console act", data);
    return act;
  }

  /** Begins to act on all events of a choice, unless the act with this id has begun already. */
  async all(
    kind: ActKind,
    query: DeliveryQuery,
    by: string,
    id: string = newActId(),
  ): Promise<Act> {
    const begun = begin({ id, kind, by, query: boundedQuery(query) });
    const progress = await this.#start(begun);
    if (!progress) return await this.#again(begun);
    const data = { kind, actId: id, query: begun.query, by: begun.by };
    writeLog(this.#parts.log, "info", "console act", data);
    this.#track(
      this.#run(progress, () => this.#changeAll(progress, query)).then((end) => this.#logEnd(end)),
    );
    return begun;
  }

  /** Reads an act; null if there is none. */
  async get(id: string): Promise<Act | null> {
    const key = keyOfAct(id);
    if (!key) return null;
    return this.#running.get(id)?.act ?? actOf(await this.#parts.records.read(key), key);
  }

  /** Lists acts, the newest first: the latest, or those before another one. */
  async list(cursor?: string): Promise<ActPage> {
    const acts: Act[] = [];
    let before = cursor === undefined ? undefined : keyOfAct(cursor);
    if (cursor !== undefined && !before) {
      throw new TypeError("Cannot list the acts: 'cursor' must be the cursor of another list");
    }
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

  /** Has an act on many stop: at once if it runs in this process, and otherwise at its next step. */
  async stopOne(id: string, by: string): Promise<void> {
    const act = await this.get(id);
    if (act?.state !== "running" || act.eventId !== undefined) return;
    await this.#parts.records.create(recordOfStop(keyOfAct(id)!, by));
    writeLog(this.#parts.log, "info", "console act stopped", { kind: act.kind, actId: id, by });
    this.#stops.get(id)?.abort();
  }

  /** Ends the acts that run, as interrupted. */
  async stop(): Promise<void> {
    this.#ending.abort();
    await Promise.all(this.#ends);
  }

  /** Acts on an event; undefined if the act with this id has begun already. */
  async #runOne(begun: Act, event: StoredEvent | undefined): Promise<Act | undefined> {
    const isMeant = event && kindsFor(event.state).includes(begun.kind) &&
      !hasChangedSince(event, askedAtOf(begun.id)!);
    if (!isMeant) return { ...begun, state: "finished" };
    const about = event.state === "unreadable" ? undefined : aboutOf(event as EventRecord);
    const named = about === undefined ? begun : { ...begun, about: boundedText(about) };
    const progress = await this.#start(named);
    return progress && await this.#run(progress, () => this.#changeOne(progress, event));
  }

  async #find(id: string): Promise<StoredEvent | undefined> {
    if (id.length > MAX_TEXT_LENGTH || !id.isWellFormed()) return undefined;
    const [event] = await Array.fromAsync(this.#parts.store.list({ ids: [id] }));
    return event;
  }

  /** Writes the first record of an act; undefined if it has one already. */
  async #start(act: Act): Promise<ActProgress | undefined> {
    const { records } = this.#parts;
    if (!await records.create(recordOfAct(act))) return undefined;
    const progress = new ActProgress(records, act);
    this.#running.set(act.id, progress);
    if (this.#begun++ % TRIM_EACH === 0) this.#track(this.#trim());
    return progress;
  }

  /** Reads the act that has begun under an id, which somebody has sent again: it is not theirs. */
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
      progress.note({ state: "failed", error: boundedText(reasonOf(error)) });
    }
    const { act } = progress;
    const isEmpty = act.eventId !== undefined && act.changed === 0 && act.state !== "failed";
    try {
      if (isEmpty) await this.#parts.records.delete(keyOfAct(act.id)!);
      else await progress.write();
    } catch (error) {
      // The events are changed all the same. The record, which was not ended, shows an interruption.
      writeLog(this.#parts.log, "error", "console act not recorded", { act, error });
    }
    this.#running.delete(act.id);
    return act;
  }

  #logEnd({ id, kind, by, state, changed, seen, error }: Act): void {
    const isMeant = state === "finished" || state === "stopped";
    const level = isMeant ? "info" : state === "failed" ? "error" : "warn";
    const data = {
      kind,
      actId: id,
      state,
      changed,
      seen,
      by,
      ...(error !== undefined && { error }),
    };
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
    const { store } = this.#parts;
    progress.note({ seen: 1, underway: 1 });
    const wasCancelled = "cancelRequestedAt" in event && event.cancelRequestedAt !== undefined;
    const changed = kind === "replay"
      ? await store.replay(id)
      : kind === "cancel"
      ? await store.cancel(id) && !wasCancelled
      : (await store.purge({ ids: [id], state })).changed > 0;
    const batch = changed && kind === "cancel" ? batchOf(event) : undefined;
    progress.note({ changed: changed ? 1 : 0, underway: 0, ...(batch !== undefined && { batch }) });
  }

  async #changeAll(progress: ActProgress, query: DeliveryQuery): Promise<void> {
    const { id } = progress.act;
    const stop = new AbortController();
    const signal = AbortSignal.any([this.#ending.signal, stop.signal]);
    this.#stops.set(id, stop);
    try {
      await this.#changeSteps(progress, query, signal);
      const by = stoppedBy(await this.#parts.records.read(keyOfStop(keyOfAct(id)!)));
      const isStopped = by !== undefined && signal.aborted && !this.#ending.signal.aborted;
      if (isStopped) progress.note({ state: "stopped", stoppedBy: by });
    } finally {
      this.#stops.delete(id);
    }
  }

  async #changeSteps(
    progress: ActProgress,
    query: DeliveryQuery,
    signal: AbortSignal,
  ): Promise<void> {
    const { records } = this.#parts;
    const { id } = progress.act;
    for await (const step of stepsOf({ ...this.#parts, signal }, progress.act, query)) {
      // Another instance may have been told.
      if (await records.read(keyOfStop(keyOfAct(id)!)) !== undefined) this.#stops.get(id)?.abort();
      if (signal.aborted) return;
      const { changed, seen, notKept = 0 } = progress.act;
      const all = notKept + step.notKept;
      progress.note({ seen: seen + step.seen, ...(all > 0 && { notKept: all }) });
      const { ids } = step.filter;
      if (ids.length === 0) continue;
      // First: if the process dies, the record says how many may be changed besides.
      await progress.write({ underway: ids.length });
      if (signal.aborted) return progress.note({ underway: 0 });
      const note = (more: number) =>
        progress.note({ changed: changed + more, underway: ids.length - more });
      note(await this.#changeSome(progress.act.kind, step.filter, note, signal));
      await progress.write({ underway: 0 });
    }
  }

  /** Changes events of one step, as far as they still match. */
  async #changeSome(
    kind: ActKind,
    filter: EventFilter,
    note: (changed: number) => void,
    signal: AbortSignal,
  ): Promise<number> {
    const { store } = this.#parts;
    const onProgress = ({ changed }: { changed: number }) => note(changed);
    const options = { signal, onProgress };
    if (kind === "replay") return (await store.replayAll(filter, options)).changed;
    if (kind === "cancel") return (await store.cancelAll(filter, options)).changed;
    return (await store.purge(filter, options)).changed;
  }

  /**
   * Deletes records beyond the largest number: first those of acts that changed nothing, then those on one
   * event, the oldest first. So nobody pushes out what was done to many by doing little things.
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

/** Reads the number of events that are cancelled with the first one of a batch; undefined if only that one is. */
function batchOf(event: StoredEvent): number | undefined {
  const events = "batch" in event ? event.batch?.events ?? 1 : 1;
  return events > 1 ? events : undefined;
}

function begin(act: Pick<Act, "id" | "kind" | "by" | "eventId" | "query">): Act {
  const by = boundedText(act.by);
  return { ...act, by, at: Date.now(), changed: 0, seen: 0, state: "running" };
}

/** Checks whether an event has come, or ended, after the question about it: it is another one, or ended anew. */
function hasChangedSince(event: StoredEvent, askedAt: number): boolean {
  const settledAt = event.state === "unreadable" ? null : event.settledAt;
  return event.receivedAt > askedAt || (settledAt ?? 0) > askedAt;
}
