/**
 * Alarm of an app: it tells `onAlert` what is wrong, once, and that it is over. The instances of an app look by
 * themselves, and agree by notes in the store which of them tells.
 *
 * @module
 */
import { type LogSink, writeLog } from "../core/mod.ts";
import { isCount, isOneOf, isText, isTime, orNone, shape } from "../core/shape.ts";
import { withDeadline } from "../core/timeouts.ts";
import type { EventStore } from "../events/store/mod.ts";
import type { AlertNotes } from "../events/store/own_cells.ts";
import type { Telemetry } from "../telemetry/mod.ts";
import type { Alert } from "./alert.ts";
import { type Health, type Wrong, wrongIn } from "./health.ts";
import { Watch } from "./watch.ts";

/** Time from one look to the next, in milliseconds. */
const LOOK_MS = 15_000;

/**
 * Time for which something must not be wrong any more until it is over: an instance hears up to a minute late what
 * another one has counted.
 */
const OVER_MS = 90_000;

/** Longest time for telling, and the time for which an instance sees another one tell until it does so instead. */
const [TELL_MS, TAKEN_OVER_MS] = [30_000, 60_000] as const;

/**
 * Time after which a telling has failed, whatever an instance has seen itself: none may live for a minute. The clocks of two
 * instances differ by less.
 */
const ABANDONED_MS = 3_600_000;

/** Longest time from one try to the next. */
const MAX_PAUSE_MS = 900_000;

/** Kinds of things that may be wrong. */
const KINDS = ["oldest_due", "places_held", "failure_rate", "dead", "refused", "problem"] as const;

/** Most problems that are told by themselves in an hour: of those beyond only the number is told. */
const MAX_PROBLEMS = 50;

/** Most problems that are noted, and most of these that a look asks about: the others' turn comes at the next ones. */
const [MAX_NOTED, MAX_ASKED] = [1_000, 100] as const;

/** Time for which a problem counts among these, in milliseconds. */
const HOUR_MS = 3_600_000;

/** Kinds of which nothing is known until the counts were read. */
const COUNTED: ReadonlySet<string> = new Set(["failure_rate", "dead", "refused"]);

/** Key of those beyond, and the beginning of the keys of the others. */
const [MORE_PROBLEMS, PROBLEM] = ["problems", "problem:"] as const;

/** Something that is wrong, or was until a short time ago. */
interface Noted extends Omit<Wrong, "isOld" | "key" | "event"> {
  readonly v: 1;
  /** State: its beginning is to be told, it was told, or its end is to be told. */
  readonly state: "begins" | "begun" | "ends";
  /** Time at which an instance has begun to tell it, by its clock; undefined if none does. */
  readonly toldAt?: number | undefined;
  /** Number of tries that have failed, and the time of the next one. */
  readonly tries: number;
  readonly retryAt?: number | undefined;
  /** Time since which no instance has seen it any more; undefined while one does. */
  readonly clearSince?: number | undefined;
  /** Time at which it was over. */
  readonly endedAt?: number | undefined;
}

const isNoted = shape<Noted>({
  v: (value) => value === 1,
  kind: isOneOf(KINDS),
  text: isText,
  since: isTime,
  state: isOneOf(["begins", "begun", "ends"]),
  toldAt: orNone(isTime),
  tries: isCount,
  retryAt: orNone(isTime),
  clearSince: orNone(isTime),
  endedAt: orNone(isTime),
});

/** Note as it was read or written. */
interface KnownNote {
  readonly key: string;
  /** The value; undefined if another version has written it: then it is left alone. */
  readonly noted: Noted | undefined;
  readonly version: string | null;
  /** Time for which this instance has seen this version, in milliseconds. */
  readonly seenMs: number;
  /** True if it was there when this instance looked for the first time. */
  readonly isOld: boolean;
}

/** Parts of an alarm. */
export interface AlarmParts {
  /** Name of the app. */
  readonly app: string;
  /** Notes of the store. */
  readonly notes: AlertNotes;
  /** Reads what may be wrong, with the problems of some ids that are not over. */
  readonly read: (problems: readonly string[]) => Promise<Health>;
  /** Tells somebody. */
  readonly tell: (alert: Alert, signal: AbortSignal) => unknown;
  readonly log: LogSink;
}

/**
 * Alarm of an app.
 *
 * Each thing has a note. A change of it checks its version, so that one instance makes it, and the one that has noted that
 * it tells something does so. It may die meanwhile. The clocks of instances differ, so another one waits until it has seen
 * the same version for a minute.
 */
export class Alarm {
  readonly #parts: AlarmParts;
  readonly #ending = new AbortController();
  /** Versions of the notes, and when this instance has seen each first; undefined before the first look. */
  #seen: Map<string, Readonly<Pick<KnownNote, "version" | "isOld"> & { at: number }>> | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #looking: Promise<void> | undefined;
  /** Problem that was asked about last. */
  #lastAsked = "";

  constructor(parts: AlarmParts) {
    this.#parts = parts;
  }

  /** Begins to look from time to time. The timer does not keep the process alive. */
  start(): void {
    this.#timer = setTimeout(async () => {
      await this.look();
      if (!this.#ending.signal.aborted) this.start();
    }, LOOK_MS);
    Deno.unrefTimer(this.#timer);
  }

  /** Looks what is wrong, and tells it. What fails is in the log. */
  look(): Promise<void> {
    return this.#looking ??= this.#look().finally(() => this.#looking = undefined);
  }

  /** Ends it, without waiting for what is being told: unless that has ended, another instance tells it again. */
  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    this.#ending.abort();
    await this.#looking;
  }

  async #look(): Promise<void> {
    const { signal } = this.#ending;
    if (signal.aborted) return;
    try {
      const known = await this.#read();
      const asked = this.#chosen(known);
      const health = await this.#parts.read(asked.map((key) => key.slice(PROBLEM.length)));
      const now = Date.now();
      const wrong = withoutFlood(wrongIn(health), known, now);
      const seen = known.filter(({ key, noted }) =>
        key.startsWith(PROBLEM)
          ? asked.includes(key)
          : health.activity !== null || !COUNTED.has(noted?.kind ?? "")
      );
      const unseen = known.filter((note) => !seen.includes(note));
      const noted = [...await this.#noteAll(seen, wrong, now), ...unseen];
      const notes = [...noted, ...freshIn(wrong, known)];
      for (const note of notes.filter((each) => isDue(each, now))) {
        // What is left waits for a later look, which knows whether it is wrong still.
        if (signal.aborted || Date.now() - now > TELL_MS) return;
        await this.#tell(note);
      }
    } catch (error) {
      if (!signal.aborted) writeLog(this.#parts.log, "warn", "alarm not looked at", { error });
    }
  }

  /** Chooses the problems that a look asks about, by turns: each takes two queries. */
  #chosen(known: readonly KnownNote[]): string[] {
    const keys = known.map(({ key }) => key).filter((key) => key.startsWith(PROBLEM)).sort();
    const next = Math.max(0, keys.findIndex((key) => key > this.#lastAsked));
    const asked = [...keys.slice(next), ...keys.slice(0, next)].slice(0, MAX_ASKED);
    this.#lastAsked = asked.at(-1) ?? "";
    return asked;
  }

  /** Reads the notes. */
  async #read(): Promise<KnownNote[]> {
    const isOld = this.#seen === undefined;
    const before = this.#seen ?? new Map();
    this.#seen = new Map();
    const known: KnownNote[] = [];
    for await (const { key, value, version } of this.#parts.notes.list()) {
      const same = before.get(key);
      const seen = same?.version === version ? same : { version, isOld, at: Date.now() };
      this.#seen.set(key, seen);
      known.push({
        ...{ key, version, noted: isNoted(value) ? value : undefined },
        ...{ seenMs: Date.now() - seen.at, isOld: seen.isOld },
      });
    }
    return known;
  }

  /** Notes what has changed of what is noted, each thing by itself: another instance may be quicker. */
  async #noteAll(
    known: readonly KnownNote[],
    wrong: readonly Wrong[],
    now: number,
  ): Promise<KnownNote[]> {
    const isWrong = new Set(wrong.map(({ key }) => key));
    const notes: KnownNote[] = [];
    for (const note of known) {
      const next = nextOf(note, isWrong.has(note.key), now);
      const after = next === note.noted ? note : await this.#write(note, next ?? null);
      if (after) notes.push(after);
    }
    return notes;
  }

  /** Tells something, unless another instance does, and notes that. */
  async #tell(due: KnownNote): Promise<void> {
    const { app, tell, log } = this.#parts;
    const { key, noted } = due;
    const { kind, text, since, endedAt } = noted!;
    const own = await this.#write(due, { ...noted!, toldAt: Date.now() });
    if (!own) return;
    const state = noted!.state === "ends" ? "ended" : "begun";
    const about = { app, kind, key, state, text, since } as const;
    const alert: Alert = { ...about, ...(state === "ended" && { endedAt }) };
    const after: Noted = { ...noted!, toldAt: undefined, retryAt: undefined };
    const giveUp = new AbortController();
    try {
      const signal = AbortSignal.any([this.#ending.signal, giveUp.signal]);
      const telling = Promise.resolve().then(() => tell(alert, signal));
      await withDeadline(telling, TELL_MS, this.#ending.signal);
    } catch (error) {
      giveUp.abort();
      // Another instance tells it.
      if (this.#ending.signal.aborted) return void await this.#write(own, after);
      const tries = noted!.tries + 1;
      const retryInMs = Math.min(MAX_PAUSE_MS, LOOK_MS * 2 ** (tries - 1));
      writeLog(log, "error", "alert not told, to be tried again", { key, state, error, retryInMs });
      return void await this.#write(own, { ...after, tries, retryAt: Date.now() + retryInMs });
    }
    await this.#write(own, state === "ended" ? null : { ...after, state: "begun", tries: 0 });
  }

  /** Writes a note. Returns it as it is then; undefined if it is deleted, or another instance has changed it. */
  async #write(
    { key, version }: Pick<KnownNote, "key" | "version">,
    noted: Noted | null,
  ): Promise<KnownNote | undefined> {
    const after = await this.#parts.notes.write(key, noted, version);
    if (after === null || noted === null) return undefined;
    this.#seen?.set(key, { version: after, isOld: false, at: Date.now() });
    return { key, noted, version: after, seenMs: 0, isOld: false };
  }
}

/** Checks whether an instance tells something, and may live. */
function isBeingTold({ noted, seenMs }: KnownNote, now: number): boolean {
  const { toldAt } = noted!;
  return toldAt !== undefined && seenMs < TAKEN_OVER_MS && now - toldAt < ABANDONED_MS;
}

/** Finds what is new and not noted: that is done by the write that begins to tell it. */
function freshIn(wrong: readonly Wrong[], known: readonly KnownNote[]): KnownNote[] {
  const isKnown = new Set(known.map(({ key }) => key));
  return wrong.filter(({ key, isOld }) => !isOld && !isKnown.has(key))
    .map(({ isOld: _, event: _event, key, ...each }) => {
      const noted: Noted = { v: 1, ...each, state: "begins", tries: 0 };
      return { key, noted, version: null, seenMs: 0, isOld: false };
    });
}

/** Checks whether something is to be told now. */
function isDue(note: KnownNote, now: number): boolean {
  if (!note.noted || note.noted.state === "begun" || isBeingTold(note, now)) return false;
  return (note.noted.retryAt ?? now) <= now;
}

/** Makes the next state of something that is noted; undefined if nobody has to hear of it any more. */
function nextOf(note: KnownNote, isWrong: boolean, now: number): Noted | undefined {
  const { noted } = note;
  if (!noted) return undefined;
  const { state, clearSince } = noted;
  if (isWrong) {
    // Nobody has heard of its end yet.
    const isBack = state === "ends" && !isBeingTold(note, now);
    if (isBack) return { ...begun(noted), endedAt: undefined };
    return clearSince === undefined ? noted : { ...noted, clearSince: undefined };
  }
  if (state === "ends") return noted;
  if (state === "begins") return isBeingTold(note, now) ? noted : undefined;
  if (clearSince === undefined) return { ...noted, clearSince: now };
  // By its own clock, unless it was clear before this instance has begun to look.
  const clearMs = note.isOld ? now - clearSince : note.seenMs;
  if (clearMs < OVER_MS) return noted;
  return { ...begun(noted), state: "ends", endedAt: clearSince };
}

function begun(noted: Noted): Noted {
  const untold = { toldAt: undefined, retryAt: undefined, tries: 0, clearSince: undefined };
  return { ...noted, ...untold, state: "begun" };
}

/** Puts new problems together if they are too many: nobody reads a thousand messages. */
function withoutFlood(
  wrong: readonly Wrong[],
  known: readonly KnownNote[],
  now: number,
): readonly Wrong[] {
  const isFresh = new Set(freshIn(wrong, known).map(({ key }) => key));
  const fresh = wrong.filter(({ key }) => key.startsWith(PROBLEM) && isFresh.has(key))
    .sort((a, b) => a.since - b.since);
  const problems = known.filter(({ key }) => key.startsWith(PROBLEM));
  const recent = problems.filter(({ noted }) => noted && now - noted.since < HOUR_MS);
  const room = Math.min(MAX_PROBLEMS - recent.length, MAX_NOTED - problems.length);
  const beyond = new Set(fresh.slice(Math.max(0, room)));
  if (beyond.size === 0) return wrong;
  const [{ since }] = [...beyond] as [Wrong];
  const text = `${beyond.size} more errors are new`;
  const more: Wrong = { kind: "problem", key: MORE_PROBLEMS, since, text };
  return [...wrong.filter((each) => !beyond.has(each)), more];
}

/** Alarm that is open, with what it counts. */
export interface OpenedAlarm {
  /** Looks what is wrong, and tells it. */
  look(): Promise<void>;
  /** Begins to look from time to time. */
  start(): void;
  /** Ends it. */
  stop(): Promise<void>;
  /** Receiver of what the app, its intakes and its worker count. */
  readonly telemetry: Telemetry;
}

/**
 * Opens the alarm of an app.
 *
 * @param app The name of the app.
 * @param store The store of its events.
 * @param log The log.
 * @param tell Tells somebody.
 * @returns The alarm.
 */
export function openAlarm(
  app: string,
  store: EventStore,
  log: LogSink,
  tell: AlarmParts["tell"],
): OpenedAlarm {
  const { watch } = Watch.of(store, log);
  const read = (problems: readonly string[]) => watch.health.read(problems);
  const alarm = new Alarm({ app, notes: store.alertNotes, read, tell, log });
  return {
    look: () => alarm.look(),
    start: () => alarm.start(),
    stop: async () => {
      await alarm.stop();
      await watch.stop(store);
    },
    telemetry: watch.activity.telemetry,
  };
}
