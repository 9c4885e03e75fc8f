import { isCount, isText, isTime, listOf, orNone, orNull, shape } from "../../core/shape.ts";
import type { CellKey } from "./engine.ts";
import type { EventRecord } from "./event_record.ts";
import { nameOfCell, type StoreCore } from "./store_core.ts";

/**
 * Event types are short words: `pull_request_review_thread` has 26 characters. Stripe's have brackets:
 * `v2.core.account[requirements].updated`.
 */
const EVENT_TYPE = /^[A-Za-z][\w.:[\]-]{0,99}$/;

/** Actions are short words. Names that an app gives, such as Slack's `action_id`, may have dots. */
const ACTION = /^[\w.:-]{1,100}$/;

/** Name that stands for all events of a source. */
export const ANY = "*";

/** Time until the next note of a process that has not said so, in milliseconds. */
const EVERY_MS = 60_000;

/** Time by which the note of a process may be late until it counts as gone, in milliseconds. */
const LATE_MS = 70_000;

/** Time for which a note is kept beyond that of two notes: the clocks of two machines may differ by a minute or two. */
const SLACK_MS = 180_000;

/** Beginning of the keys of all notes. */
const PROCESSES: CellKey = ["process"];

/**
 * Events that a process has handlers for.
 *
 * @category Event store and worker
 */
export interface HandledEvents {
  /** The intake or the app's source that they come from; undefined for all. */
  readonly intake?: string | undefined;
  /** The kind of platform that this is; undefined for all. */
  readonly platform?: string | undefined;
  /** Their names: types, types with an action (`issues.opened`), and `*` for all. */
  readonly names: readonly string[];
  /** The time limit of their handlers, in milliseconds; undefined if it is the process's. */
  readonly timeoutMs?: number | undefined;
}

/**
 * Handler that was told to end, since its event was cancelled or its lease was lost, and has not ended.
 *
 * @category Event store and worker
 */
export interface HungHandler {
  /** Id of the event. */
  readonly id: string;
  /** Time at which it was told, milliseconds since the epoch. */
  readonly since: number;
}

/**
 * Process that handles events, as it has noted itself in the store.
 *
 * @category Event store and worker
 */
export interface ProcessNote {
  /** Id: the owner of its leases. */
  readonly id: string;
  /** Name of its machine, if it may read that, and its number there; undefined if it runs an older version. */
  readonly name?: string | undefined;
  /** Version of its code; undefined if that was not given. */
  readonly version?: string | undefined;
  /** Number of events that it handles at a time; undefined if it runs an older version. */
  readonly places?: number | undefined;
  /**
   * Ids of the events whose handlers run past their time limits, at most 20: they hold none of the places.
   *
   * @default {undefined} None.
   */
  readonly overdue?: readonly string[] | undefined;
  /**
   * Handlers that do not heed their signals, at most 20: they hold their places, unless they are overdue as well, until they
   * return or the process ends. Their events may be settled, or leased by others, by now.
   *
   * @default {undefined} None.
   */
  readonly hung?: readonly HungHandler[] | undefined;
  /** Time at which it has started, milliseconds since the epoch. */
  readonly startedAt: number;
  /** Time at which it has noted itself last, milliseconds since the epoch. */
  readonly seenAt: number;
  /**
   * Longest time until it notes itself again, in milliseconds: a minute while it handles events, and up to a quarter of an
   * hour while it does not.
   *
   * @default {60_000}
   */
  readonly everyMs?: number | undefined;
  /** Time limit of its handlers that have none of their own, in milliseconds. */
  readonly timeoutMs?: number | undefined;
  /** Events that it has handlers for; null if it cannot tell. */
  readonly handles: readonly HandledEvents[] | null;
}

type UnreadableNote = { readonly id: string; readonly isUnreadable: true };

/** Checks whether a stored value is the note of a process that this version can read. */
const isProcessNote = shape<Omit<ProcessNote, "id">>({
  name: orNone(isText),
  version: orNone(isText),
  places: orNone(isCount),
  overdue: orNone(listOf(isText)),
  hung: orNone(listOf(shape<HungHandler>({ id: isText, since: isTime }))),
  startedAt: isTime,
  seenAt: isTime,
  everyMs: orNone(isTime),
  timeoutMs: orNone(isTime),
  handles: orNull(listOf(shape<HandledEvents>({
    intake: orNone(isText),
    platform: orNone(isText),
    names: listOf(isText),
    timeoutMs: orNone(isTime),
  }))),
});

/**
 * Lists the names by which an event finds its handlers.
 *
 * @param event The event.
 * @returns Its type and action if it has one, and its type.
 */
export function namesOf({ type, action }: Pick<EventRecord, "type" | "action">): readonly string[] {
  return isAction(action) ? [`${type}.${action}`, type] : [type];
}

/** Checks whether a value can be the type of a delivered or planned event. */
export function isEventType(value: unknown): value is string {
  return isText(value) && EVENT_TYPE.test(value);
}

/** Checks whether a value is an action, so that a name can have it. */
export function isAction(value: unknown): value is string {
  return isText(value) && ACTION.test(value);
}

/**
 * Checks whether a process has a handler for an event.
 *
 * @param handles The events that it has handlers for.
 * @param event The event.
 * @returns True if it has. A platform that was renamed counts, too: it may get the events of the old name.
 */
export function hasHandlerFor(
  handles: readonly HandledEvents[],
  event: Pick<EventRecord, "intake" | "platform" | "type" | "action">,
): boolean {
  return handledAs(handles, event).length > 0;
}

/**
 * Finds what a process handles an event as.
 *
 * @param handles The events that it has handlers for.
 * @param event The event.
 * @returns The entries that match it, each with only the names that do.
 */
export function handledAs(
  handles: readonly HandledEvents[],
  event: Pick<EventRecord, "intake" | "platform" | "type" | "action">,
): readonly HandledEvents[] {
  const names = [...namesOf(event), ANY];
  return handles.flatMap((each) => {
    const { intake, platform } = each;
    const isSource = intake === undefined || intake === event.intake || platform === event.platform;
    const matching = isSource ? names.filter((name) => each.names.includes(name)) : [];
    return matching.length > 0 ? { ...each, names: matching } : [];
  });
}

/** Writes the note of a process. It is forgotten unless it is written again. */
export async function noteProcess({ engine }: StoreCore, note: ProcessNote): Promise<void> {
  const { id, ...after } = note;
  const cell = { key: keyOf(id), after, forMs: keptMs(note) };
  await engine.apply({ cells: [cell], urgency: "work" });
}

/** Deletes the note of a process. */
export async function forgetProcess({ engine }: StoreCore, id: string): Promise<void> {
  await engine.apply({ cells: [{ key: keyOf(id), after: null }], urgency: "work" });
}

/** Lists the processes that have noted themselves as often as they said, and have not ended in order. */
export async function listProcesses(
  { engine }: StoreCore,
): Promise<(ProcessNote | UnreadableNote)[]> {
  const found: (ProcessNote | UnreadableNote)[] = [];
  const now = engine.now();
  for await (const cell of engine.list(PROCESSES)) {
    const { value } = cell;
    const id = nameOfCell(cell, PROCESSES);
    if (!isProcessNote(value)) found.push({ id, isUnreadable: true });
    // An engine may forget what has expired only after a while.
    else if (value.seenAt > now - keptMs(value)) found.push({ ...value, id });
  }
  return found;
}

/**
 * Checks whether a process counts as gone, although its note is still kept: its next note is late by over a minute.
 *
 * @param note The note.
 * @param now The time, milliseconds since the epoch.
 * @returns True if it does.
 */
export function isLate(
  { seenAt, everyMs = EVERY_MS }: Pick<ProcessNote, "seenAt" | "everyMs">,
  now: number,
): boolean {
  // A clock that is a little ahead makes no difference.
  return Math.abs(now - seenAt) >= everyMs + LATE_MS;
}

/** Finds the time for which a note counts: one note may be missing. */
function keptMs({ everyMs = EVERY_MS }: Pick<ProcessNote, "everyMs">): number {
  return 2 * everyMs + SLACK_MS;
}

function keyOf(id: string): CellKey {
  return [...PROCESSES, id];
}
