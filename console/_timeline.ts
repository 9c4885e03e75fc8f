/**
 * The timeline of an event: what has happened to it and what comes next, the latest first.
 *
 * @module
 */
import { html } from "@hono/hono/html";
import type { EventRecord, ListedStep } from "../events/mod.ts";
import type {
  EndedWait,
  Intervention,
  InterventionKind,
  RecordedAttempt,
} from "../events/store/event_record.ts";
import { askingStepOf } from "../events/store/questions.ts";
import { waitsForLimit } from "../events/store/settlement.ts";
import {
  duration,
  eventsIn,
  type Html,
  link,
  number,
  shown,
  time,
  waitOf,
  when,
} from "./_format.ts";
import { holdOf, type Hung } from "./_hung.ts";
import { a, beside, type Content, tag } from "./_layout.ts";
import { handlersOf, processOf, type RunningEvent, timeOf } from "./_running_page.ts";
import { busyText, type Strip } from "./_strip.ts";
import { type Awaited, awaitedBy, type WaitingAnswer } from "./_waits.ts";

/** Most entries of a timeline. */
const MAX_ENTRIES = 100;

/** Entry of a timeline. */
export interface TimelineEntry {
  /** Time, milliseconds since the epoch; null for what comes at no known time. */
  readonly at: number | null;
  /** Time of the first one, of several that are folded. */
  readonly since?: number | undefined;
  /** Time until which it goes on. */
  readonly until?: number | undefined;
  /** Colour: that of a state, or a dim one. */
  readonly style: EventRecord["state"] | "dim";
  /** Title. */
  readonly title: string;
  /** Further words behind the title. */
  readonly aside?: string | undefined;
  /** Person or tool that has done it. */
  readonly by?: string | undefined;
  /** Attempt that runs, whose handlers and process are named. */
  readonly running?: RunningEvent | undefined;
  /** Limit that has no room. */
  readonly limit?: string | undefined;
  /** Name of what it is about: a step, or what is waited for. */
  readonly name?: string | undefined;
  /** Error, reason or value. */
  readonly text?: string | undefined;
  /** Numbers of the attempts that it is about, and how they ended. */
  readonly attempts?: {
    readonly from: number;
    readonly to: number;
    readonly outcome: RecordedAttempt["outcome"];
  } | undefined;
  /** Other event that it is about. */
  readonly event?: OtherEvent | undefined;
}

/** Other event that an entry is about, with words before and behind its id. */
export interface OtherEvent {
  readonly id: string;
  readonly before: string;
  readonly behind?: string;
}

/** Parts of an event that its timeline is made of. */
export interface TimelineParts {
  readonly record: EventRecord;
  readonly steps: readonly ListedStep[];
  /** First event of the ordering group that it waits in. */
  readonly first?: EventRecord | undefined;
  /** Its handler, if it was told to end and has not. */
  readonly hung?: Hung | undefined;
  /** Attempt that runs, with its handlers and its process. */
  readonly running?: RunningEvent | undefined;
  /** Answer that no worker has taken yet. */
  readonly answer?: WaitingAnswer | undefined;
  /** Number of places that are busy, and of all, if it is due. */
  readonly places?: Strip["places"] | undefined;
  /** Set if values, reasons, names and the messages of errors are not shown. */
  readonly hidesPayloads: boolean;
  readonly now: number;
}

/** Makes the timeline of an event, the latest entry first. */
export function timelineOf(parts: TimelineParts): TimelineEntry[] {
  const { record, steps } = parts;
  const entries = [
    ...hungEntry(parts),
    ...nextIn(parts),
    ...settledIn(record),
    ...cancelledIn(record),
    ...(record.interventions ?? []).map((each) => interventionEntry(each, parts)).toReversed(),
    ...record.attempts.map((each) => attemptEntry(each, parts)).toReversed(),
    ...waitsIn(parts),
    ...steps.map(stepEntry).toReversed(),
    ...putOffIn(parts),
    ...missingIn(record),
  ];
  // Of those of the same time, the first ones here are the later ones.
  const sorted = entries.sort((one, other) => (other.at ?? Infinity) - (one.at ?? Infinity));
  const more = sorted.length - MAX_ENTRIES;
  const cut = more > 0 &&
    { at: null, style: "dim", title: `${number(more)} earlier entries` } as const;
  return [
    ...folded(sorted.slice(0, MAX_ENTRIES)),
    ...cut ? [cut] : [],
    { at: record.receivedAt, style: "dim", title: "Received" },
  ];
}

/** Says what a handler still holds that was told to end. */
function hungEntry({ hung }: TimelineParts): TimelineEntry[] {
  if (!hung) return [];
  const title = hung.why === "cancelled"
    ? "Its handler has not returned since it was cancelled"
    : "A handler has not returned since its process lost the lease";
  return [{ at: hung.since, style: "running", title, aside: holdOf(hung) }];
}

/** Finds what comes next, or goes on. */
function nextIn(parts: TimelineParts): TimelineEntry[] {
  const { record, first, running, places, now } = parts;
  const { state, attempt, lease, dueAt, waitingFor, limitedBy } = record;
  if (lease) {
    const title = `Attempt ${attempt} is running`;
    const times = { at: lease.startedAt, until: lease.until };
    const aside = running && `for ${timeOf(running)}`;
    return [{ ...times, style: "running", title, aside, running }];
  }
  if (waitingFor) return [waitIn(parts, waitingFor)];
  if (state !== "queued") return [];
  if (dueAt === null) {
    const title = "Waits for the others of its ordering group";
    return [{ at: null, style: "queued", title, event: first && blockerOf(first, now) }];
  }
  const title = attempt === 0 ? "First attempt" : `Attempt ${attempt + 1}`;
  const limit = waitsForLimit(record) ? limitedBy : undefined;
  const reasons = [waitOf(record, now), places && busyText(places)];
  const aside = reasons.filter((each) => each !== undefined).join(", ") || undefined;
  return [{ at: dueAt, style: "queued", title, aside, limit }];
}

/** Titles of waits, and of those that have ended. */
const WAITS: Readonly<
  Record<Awaited, { readonly waits: string; readonly ended: string; readonly timedOut: string }>
> = {
  answer: { waits: "Waits for an answer", ended: "Answered", timedOut: "Not answered in time" },
  time: { waits: "Sleeps", ended: "Slept", timedOut: "Slept" },
  name: { waits: "Waits to be woken", ended: "Woken", timedOut: "Not woken in time" },
};

/** Finds what a parked event waits for: a free place, once its answer is there. */
function waitIn(
  { record, answer, hidesPayloads }: TimelineParts,
  { name, since, until }: NonNullable<EventRecord["waitingFor"]>,
): TimelineEntry {
  if (answer) {
    const value = answer.value === undefined ? undefined : JSON.stringify(answer.value);
    const ended = endedWait(record, { name, at: answer.at, value, by: answer.by }, hidesPayloads);
    return { ...ended, aside: "waits for a free place to go on" };
  }
  const { waits: title } = WAITS[awaitedBy(name)];
  return { at: since, until, style: "parked", title, name: nameOf(record, name, hidesPayloads) };
}

/** Names the event that holds up another one, and says what it does. */
export function blockerOf(first: EventRecord, now: number): OtherEvent {
  const doing = first.lease
    ? `running for ${duration(now - first.lease.startedAt)}`
    : waitOf(first, now) ?? first.state;
  return { id: first.id, before: "behind", behind: doing };
}

/** Finds the end of an event that no attempt of its own has brought. */
function settledIn(record: EventRecord): TimelineEntry[] {
  const { settledAt, state, attempts, handledWith, interventions = [] } = record;
  if (settledAt === null || attempts.at(-1)?.endedAt === settledAt) return [];
  if (interventions.some(({ is, at }) => is === "cancelled" && at === settledAt)) return [];
  const event = handledWith === undefined
    ? undefined
    : { id: handledWith, before: "with the first of its batch," };
  return [{ at: settledAt, style: state, title: state === "done" ? "Done" : "Dead", event }];
}

/** Finds the cancellation of an event, if no intervention tells it. */
function cancelledIn({ cancelRequestedAt, interventions = [] }: EventRecord): TimelineEntry[] {
  if (cancelRequestedAt === undefined) return [];
  if (interventions.some(({ is, at }) => is === "cancelled" && at === cancelRequestedAt)) return [];
  return [{ at: cancelRequestedAt, style: "dead", title: "Cancelled" }];
}

const INTERVENTIONS: Readonly<
  Record<InterventionKind, readonly [string, TimelineEntry["style"]]>
> = {
  replayed: ["Replayed", "queued"],
  cancelled: ["Cancelled", "dead"],
  step_forgotten: ["Step forgotten", "queued"],
  step_set: ["Step said to have happened", "done"],
};

/** Describes a kind of intervention: one that a newer version has written by its name. */
const describedKind = (is: string): (typeof INTERVENTIONS)[InterventionKind] =>
  Object.hasOwn(INTERVENTIONS, is) ? INTERVENTIONS[is as InterventionKind] : [shown(is, 60), "dim"];

function interventionEntry(
  { is, at, by, step }: Intervention,
  { record, hidesPayloads }: TimelineParts,
): TimelineEntry {
  const [title, style] = describedKind(is);
  const events = eventsIn(record);
  const aside = is === "cancelled" && events > 1
    ? `with all ${number(events)} of its batch`
    : undefined;
  return { at, style, title, aside, by: shownBy(by, hidesPayloads) ?? "the app", name: step };
}

/** Words for the ends of attempts. */
const ENDS: Readonly<Record<RecordedAttempt["outcome"], string>> = {
  ...{ handled: "handled", ignored: "ignored", failed: "failed", cancelled: "cancelled" },
  expired: "never ended",
};

function attemptEntry(
  { attempt, startedAt, endedAt, outcome, error }: RecordedAttempt,
  { hidesPayloads }: TimelineParts,
): TimelineEntry {
  const text = error === undefined ? undefined : hidesPayloads ? nameOfError(error) : error;
  return {
    at: endedAt,
    style: outcome === "handled" ? "done" : outcome === "ignored" ? "dim" : "dead",
    attempts: { from: attempt, to: attempt, outcome },
    title: `Attempt ${attempt} ${ENDS[outcome]}`,
    aside: `after ${duration(endedAt - startedAt)}`,
    text,
  };
}

/** Names the kind of an error, and nothing that a handler has put into it. */
export const nameOfError = (error: string): string =>
  /^[A-Z]\w{0,60}(?:Error|Exception)(?=:|$)|^Error(?=:|$)/.exec(error)?.[0] ?? "Error";

/** Waits that are over. */
const waitsIn = ({ record, hidesPayloads }: TimelineParts): TimelineEntry[] =>
  (record.woken ?? []).map((each) => endedWait(record, each, hidesPayloads)).toReversed();

function endedWait(
  record: EventRecord,
  { name, at, value, timedOut, by }: EndedWait,
  isHidden: boolean,
): TimelineEntry {
  const what = awaitedBy(name);
  const title = WAITS[what][timedOut ? "timedOut" : "ended"];
  const given = what === "answer" ? answerIn(value) : { text: value, by: undefined };
  return {
    ...{ at, style: "parked", title, by: shownBy(by ?? given.by, isHidden) } as const,
    name: nameOf(record, name, isHidden),
    text: isHidden ? undefined : given.text,
  };
}

/** Names of operators of the console, and of the tool. */
const KNOWN = /^(?:operator [0-9a-z]{4} from (?:[\da-f.:]+|an unknown address)|the events tool)$/;

/** Names who has done something: an operator of the console, but not whom the app has named where that is hidden. */
const shownBy = (by: string | undefined, isHidden: boolean): string | undefined =>
  isHidden && by !== undefined && !KNOWN.test(by) ? undefined : by;

/** Takes the value, and who has given it, out of the answer to a question. */
function answerIn(json: string | undefined): { readonly text?: string; readonly by?: string } {
  try {
    const { value, by } = JSON.parse(json ?? "{}") as {
      readonly value?: unknown;
      readonly by?: unknown;
    };
    return {
      ...(value !== undefined && { text: JSON.stringify(value) }),
      ...(by !== undefined && { by: `sender ${by}` }),
    };
  } catch {
    return {};
  }
}

/** Names what an event waits for: the step that has asked, or the name, if that may be shown. */
function nameOf(record: EventRecord, name: string, isHidden: boolean): string | undefined {
  const what = awaitedBy(name);
  if (what === "answer") return askingStepOf(record, name);
  return what === "name" && !isHidden ? name : undefined;
}

function stepEntry({ name, at, isBegun }: ListedStep): TimelineEntry {
  const aside = isBegun ? "begun, its end is not known" : undefined;
  return { at, style: isBegun ? "dead" : "done", title: "Step", name, aside };
}

function putOffIn(
  { record: { putOff, interrupted }, hidesPayloads }: TimelineParts,
): TimelineEntry[] {
  const times = (what: string, count: number) =>
    count === 1 ? what : `${what} ${number(count)} times`;
  const entries: TimelineEntry[] = [];
  const aside = "without counting";
  if (putOff) {
    const title = times("Put off", putOff.times);
    const text = hidesPayloads ? undefined : putOff.reason;
    entries.push({ at: putOff.at, style: "queued", title, aside, text });
  }
  if (interrupted) {
    const title = times("Interrupted", interrupted.times);
    const event = { id: interrupted.by, before: "by a newer event," };
    entries.push({ at: interrupted.at, style: "queued", title, aside, event });
  }
  return entries;
}

/** Says that attempts are missing: before the earliest one that is kept. */
function missingIn({ attempts, attempt, lease, receivedAt }: EventRecord): TimelineEntry[] {
  const missing = attempt - (lease ? 1 : 0) - attempts.length;
  if (missing <= 0) return [];
  const at = attempts[0]?.startedAt ?? receivedAt;
  return [{ at, style: "dim", title: `${number(missing)} earlier attempts are not kept` }];
}

/** Folds attempts that failed in a row with the same error. */
function folded(entries: readonly TimelineEntry[]): TimelineEntry[] {
  const all: TimelineEntry[] = [];
  for (const entry of entries) {
    const later = all.at(-1);
    if (later && isSameFailure(later, entry)) all[all.length - 1] = joined(later, entry);
    else all.push(entry);
  }
  return all;
}

function isSameFailure(later: TimelineEntry, { attempts, text }: TimelineEntry): boolean {
  if (!attempts || text === undefined || later.text !== text) return false;
  const { from, outcome } = later.attempts ?? {};
  return outcome === attempts.outcome && attempts.to + 1 === from;
}

/** Joins the entries of two attempts that followed each other, or of more. */
function joined(later: TimelineEntry, { at, attempts: earlier }: TimelineEntry): TimelineEntry {
  const { to, outcome } = later.attempts!;
  const attempts = { from: earlier!.from, to, outcome };
  const title = `Attempts ${attempts.from} to ${to} ${ENDS[outcome]}`;
  const aside = `${number(to - attempts.from + 1)} times the same error`;
  return { ...later, attempts, title, aside, since: at ?? undefined };
}

/** Shows a timeline. */
export const timeline = (entries: readonly TimelineEntry[]): Html =>
  tag("ol.line", entries.map(entryItem));

function entryItem({ style, title, aside, name, running, ...entry }: TimelineEntry): Html {
  const head = [
    tag("b", title),
    name !== undefined && [" ", tag("span.mono", shown(name, 300))],
    beside(aside),
  ];
  const text = entry.text !== undefined && tag("pre", shown(entry.text, 2_000));
  const runs = running &&
    tag("div.dim", "handler ", handlersOf(running), "; process ", processOf(running));
  return tag(`li.${style}`, head, lineOf(entry), runs, text);
}

/** Makes the line below the title: when, by whom, and which other event. */
function lineOf(
  { at, since, until, by, limit, event }: Omit<TimelineEntry, "style" | "title" | "running">,
): Content {
  const times = [
    since !== undefined && [time(since), " – "],
    at !== null && [time(at), ", ", when(at)],
    until !== undefined && ["; until ", time(until), ", ", when(until)],
  ];
  const other = event && [
    at !== null && ", ",
    `${event.before} `,
    a(link("delivery", { id: event.id }), shown(event.id, 120), "mono"),
    event.behind !== undefined && `, ${event.behind}`,
  ];
  const parts = [
    times,
    limit !== undefined && [", for room under the limit ", tag("span.mono", shown(limit, 200))],
    by !== undefined && `, by ${shown(by, 200)}`,
    other,
  ];
  return at === null && !event ? undefined : html`<div class="dim">${parts}</div>`;
}
