/**
 * Alarm of an app: it tells `onAlert` what is wrong, once, and that it is over. The instances of an app look by
 * themselves, and agree by a note in the store which of them tells.
 *
 * @module
 */
import { type LogSink, writeLog } from "../core/mod.ts";
import { isCount, isOneOf, isText, isTime, listOf, orNone, shape } from "../core/shape.ts";
import { withDeadline } from "../core/timeouts.ts";
import type { EventStore } from "../events/store/mod.ts";
import type { AlertNote } from "../events/store/own_cells.ts";
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

/** Longest time for telling, and the time after which another instance tells it instead. */
const [TELL_MS, TAKEN_OVER_MS] = [30_000, 60_000] as const;

/** Longest time from one try to the next. */
const MAX_PAUSE_MS = 900_000;

/** Kinds of things that may be wrong. */
const KINDS = ["oldest_due", "places_held", "failure_rate", "dead", "refused", "problem"] as const;

/** Most things that are noted: more are told once others are over. */
const MAX_NOTED = 50;

/** Something that is wrong, or was until a short time ago. */
interface Noted extends Omit<Wrong, "isOld"> {
  /** State: its beginning is to be told, it was told, or its end is to be told. */
  readonly state: "begins" | "begun" | "ends";
  /** Time until which an instance tells it; undefined if it is told. */
  readonly until?: number | undefined;
  /** Number of tries that have failed. */
  readonly tries: number;
  /** Time since which no instance has seen it any more; undefined while one does. */
  readonly clearSince?: number | undefined;
  /** Time at which it was over. */
  readonly endedAt?: number | undefined;
}

const isNote = shape<{ readonly v: 1; readonly alerts: readonly Noted[] }>({
  v: (value) => value === 1,
  alerts: listOf(
    shape<Noted>({
      kind: isOneOf(KINDS),
      key: isText,
      text: isText,
      since: isTime,
      state: isOneOf(["begins", "begun", "ends"]),
      until: orNone(isTime),
      tries: isCount,
      clearSince: orNone(isTime),
      endedAt: orNone(isTime),
    }),
    MAX_NOTED,
  ),
});

/** Parts of an alarm. */
export interface AlarmParts {
  /** Name of the app. */
  readonly app: string;
  /** Note of the store. */
  readonly note: AlertNote;
  /** Reads what may be wrong: the problems, if anybody was told of one. */
  readonly read: (withProblems: boolean) => Promise<Health>;
  /** Tells somebody. */
  readonly tell: (alert: Alert, signal: AbortSignal) => unknown;
  readonly log: LogSink;
}

/** Alarm of an app. */
export class Alarm {
  readonly #parts: AlarmParts;
  readonly #ending = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #looking: Promise<void> | undefined;

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
      const note = await this.#parts.note.read();
      const noted = isNote(note.value) ? note.value.alerts : [];
      const health = await this.#parts.read(noted.some(({ kind }) => kind === "problem"));
      const now = Date.now();
      const { alerts, own } = this.#planned(noted, wrongIn(health), now);
      const isSame = alerts.length === noted.length && alerts.every((each, i) => each === noted[i]);
      if (isSame) return;
      // Another instance was quicker, or another version has the note: it is looked at again later.
      if (note.value === undefined || !await this.#write(alerts, note.version)) return;
      for (const each of own) {
        // What is left waits for a later look: by the end of its telling another instance would tell it as well.
        if (signal.aborted || Date.now() + TELL_MS > each.until!) return;
        await this.#tell(each);
      }
    } catch (error) {
      if (!signal.aborted) writeLog(this.#parts.log, "warn", "alarm not looked at", { error });
    }
  }

  /** Finds what is to be noted, and which of it this instance is to tell. */
  #planned(
    noted: readonly Noted[],
    wrong: readonly Wrong[],
    now: number,
  ): { readonly alerts: readonly Noted[]; readonly own: readonly Noted[] } {
    const isWrong = new Set(wrong.map(({ key }) => key));
    const known = new Set(noted.map(({ key }) => key));
    const fresh = wrong.filter(({ key, isOld }) => !known.has(key) && !isOld)
      .slice(0, MAX_NOTED - noted.length)
      .map((each): Noted => ({ ...each, state: "begins", tries: 0 }));
    const all = [
      ...noted.flatMap((each) => this.#next(each, isWrong.has(each.key), now)),
      ...fresh,
    ];
    const isOwn = ({ state, until = -Infinity }: Noted) => state !== "begun" && until <= now;
    const alerts = all.map((each) => isOwn(each) ? { ...each, until: now + TAKEN_OVER_MS } : each);
    return { alerts, own: alerts.filter((_, i) => isOwn(all[i]!)) };
  }

  /** Makes the next state of something that is noted; none if nobody has to hear of it any more. */
  #next(noted: Noted, isWrong: boolean, now: number): readonly Noted[] {
    const { state, until = -Infinity, clearSince } = noted;
    if (isWrong) {
      // Nobody has heard of its end yet.
      const isBack = state === "ends" && until <= now;
      if (isBack) return [{ ...noted, state: "begun", until: undefined, endedAt: undefined }];
      return [clearSince === undefined ? noted : { ...noted, clearSince: undefined }];
    }
    if (state === "ends") return [noted];
    if (state === "begins") return until <= now ? [] : [noted];
    if (clearSince === undefined) return [{ ...noted, clearSince: now }];
    if (now - clearSince < OVER_MS) return [noted];
    const end = { until: undefined, tries: 0, clearSince: undefined, endedAt: clearSince };
    return [{ ...noted, state: "ends", ...end }];
  }

  /** Tells something, and notes that. */
  async #tell(noted: Noted): Promise<void> {
    const { app, tell, log } = this.#parts;
    const { kind, key, text, since, endedAt } = noted;
    const state = noted.state === "ends" ? "ended" : "begun";
    const alert: Alert = {
      app,
      kind,
      key,
      state,
      text,
      since,
      ...(state === "ended" && { endedAt }),
    };
    const giveUp = new AbortController();
    try {
      const signal = AbortSignal.any([this.#ending.signal, giveUp.signal]);
      const telling = Promise.resolve().then(() => tell(alert, signal));
      await withDeadline(telling, TELL_MS, this.#ending.signal);
      await this.#note(
        key,
        (now) => state === "ended" ? [] : [{ ...now, state: "begun", until: undefined, tries: 0 }],
      );
    } catch (error) {
      giveUp.abort();
      // Another instance tells it.
      if (this.#ending.signal.aborted) {
        return await this.#note(key, (now) => [{ ...now, until: 0 }]);
      }
      const tries = noted.tries + 1;
      const retryInMs = Math.min(MAX_PAUSE_MS, LOOK_MS * 2 ** (tries - 1));
      writeLog(log, "error", "alert not told, to be tried again", { key, state, error, retryInMs });
      const until = Date.now() + retryInMs;
      await this.#note(key, (now) => [{ ...now, tries, until }]);
    }
  }

  /** Changes the note of one thing. Other instances may change those of others meanwhile. */
  async #note(key: string, change: (noted: Noted) => readonly Noted[]): Promise<void> {
    for (let tries = 0; tries < 10; tries++) {
      const { value, version } = await this.#parts.note.read();
      if (!isNote(value)) return;
      const alerts = value.alerts.flatMap((each) => each.key === key ? change(each) : [each]);
      if (await this.#write(alerts, version)) return;
    }
  }

  async #write(alerts: readonly Noted[], version: string | null): Promise<boolean> {
    const value = alerts.length === 0 ? null : { v: 1, alerts };
    return await this.#parts.note.write(value, version) !== null;
  }
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
  const read = (withProblems: boolean) => watch.health.read(withProblems);
  const alarm = new Alarm({ app, note: store.alertNote, read, tell, log });
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
