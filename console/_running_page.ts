import type { EventRecord, StoredEvent } from "../events/mod.ts";
import type { ProcessNote } from "../events/store/mod.ts";
import { ANY, handledAs } from "../events/store/processes.ts";
import { isLeaseOver } from "../watch/health.ts";
import type { ConsoleData } from "./_console_data.ts";
import { type Hung, hungLine, hungOf, straysIn } from "./_hung.ts";
import { aboutOf, duration, type Html, link, number, recordOf, shown, when } from "./_format.ts";
import {
  a,
  actLinks,
  beside,
  type Content,
  dim,
  isOperator,
  live,
  type Page,
  type PageContext,
  table,
  tag,
  td,
  type Visit,
} from "./_layout.ts";

/** Most events that run that are shown: a process runs ten at a time, unless its app says otherwise. */
const MAX_RUNNING = 200;

/** Most records read for them, and longest time for that: a KV has them on its schedule, among all that wait. */
const LIMITS = { maxReads: 2_000, maxMs: 100 };

/** Event that runs. */
export interface RunningEvent {
  /** Its id. */
  readonly id: string;
  /** Its type, and the repository or chat that it belongs to. */
  readonly about: string;
  /** Description, in its own words; undefined if that is not known, or not shown. */
  readonly description: string | undefined;
  /** Names of the handlers that its process has for it; undefined if that is not known. */
  readonly handlers: readonly string[] | undefined;
  /** Process that runs it. */
  readonly process: {
    /** Owner of the lease. */
    readonly id: string;
    /** Name of its machine and its number there; undefined if that is not known. */
    readonly name: string | undefined;
    /** Version of its code; undefined if that is not known. */
    readonly version: string | undefined;
    /** False if it has not noted itself in the last five minutes. */
    readonly isKnown: boolean;
  };
  /** Number of the attempt. */
  readonly attempt: number;
  /** Number of events that are handled together. */
  readonly events: number;
  /** Time at which the attempt began, milliseconds since the epoch. */
  readonly startedAt: number;
  /** Time since then, in milliseconds. */
  readonly elapsedMs: number;
  /** Time limit of its handlers, the longest of several; undefined if that is not known. */
  readonly limitMs: number | undefined;
  /** Time up to which it is leased, milliseconds since the epoch. */
  readonly leaseUntil: number;
  /** Set if that is over: its process has died, or does not reach the store. */
  readonly isLeaseOver: boolean;
  /** Time at which it was cancelled; undefined if it was not. */
  readonly cancelRequestedAt: number | undefined;
  /** Its handler, if it was cancelled and has not returned since. */
  readonly hung: Hung | undefined;
}

/** Events that run, in all processes. */
export interface Running {
  /** Events, the one that has run for longest first: at most 200. */
  readonly events: readonly RunningEvent[];
  /** Handlers that hold places of processes, although these do not have their events any more. */
  readonly strays: readonly Hung[];
  /** True if there are more, or may be: the store did not come to an end in time. */
  readonly isMore: boolean;
}

/** Reads the events that run, by their leases: so those of a process that hangs are among them. */
export async function readRunning({ store }: ConsoleData): Promise<Running> {
  const list = store.list({ state: "running", limit: MAX_RUNNING, ...LIMITS });
  const [found, notes] = await Promise.all([Array.fromAsync(list), store.processes()]);
  const processes = new Map(notes.map((note) => [note.id, note]));
  const now = Date.now();
  const events = found.flatMap((event) => {
    const record = recordOf(event);
    if (!record?.lease) return [];
    const note = processes.get(record.lease.owner);
    return [runningOf(record, record.lease, note && "startedAt" in note ? note : undefined, now)];
  });
  events.sort((one, other) => one.startedAt - other.startedAt);
  const owners = new Map(events.map(({ id, process }) => [id, process.id]));
  const isMore = list.cursor !== undefined;
  // Among those that were not read, some may be their processes' own.
  const strays = isMore ? [] : straysIn(notes, (id) => owners.get(id), now);
  return { events, strays, isMore };
}

function runningOf(
  record: EventRecord,
  { owner, startedAt, until }: NonNullable<EventRecord["lease"]>,
  note: ProcessNote | undefined,
  now: number,
): RunningEvent {
  const handles = note?.handles ? handledAs(note.handles, record) : undefined;
  const limits = handles?.map(({ timeoutMs }) => timeoutMs ?? note?.timeoutMs) ?? [note?.timeoutMs];
  const known = limits.filter((limit) => limit !== undefined);
  return {
    ...{ id: record.id, about: aboutOf(record), description: record.description },
    attempt: record.attempt,
    handlers: handles && [...new Set(handles.flatMap(({ names }) => names))],
    process: { id: owner, name: note?.name, version: note?.version, isKnown: note !== undefined },
    ...{ events: record.batch?.events ?? 1, startedAt, elapsedMs: Math.max(0, now - startedAt) },
    limitMs: known.length > 0 ? Math.max(...known) : undefined,
    ...{ leaseUntil: until, isLeaseOver: isLeaseOver(record, now) },
    cancelRequestedAt: record.cancelRequestedAt,
    hung: hungOf(record, note, now),
  };
}

/** Reads the attempt of an event that runs; undefined if it does not run. */
export async function readRunningOne(
  { store }: ConsoleData,
  event: StoredEvent,
): Promise<RunningEvent | undefined> {
  const record = recordOf(event);
  if (!record?.lease) return undefined;
  const { owner } = record.lease;
  const note = (await store.processes()).find(({ id }) => id === owner);
  const known = note && "startedAt" in note ? note : undefined;
  return runningOf(record, record.lease, known, Date.now());
}

/** Takes out what events say that they are about, where payloads are not shown. */
export const hideRunning = ({ events, ...page }: Running): Running => ({
  ...page,
  events: events.map((event) => ({ ...event, description: undefined })),
});

/** Answers with the events that run. */
export async function running({ data, context }: Visit): Promise<Page> {
  const found = await readRunning(data);
  const body = runningPage(context.hidesPayloads ? hideRunning(found) : found, context);
  return { title: "Running", at: "running", body, isLive: true, isPrivate: true };
}

function runningPage({ events, strays, isMore }: Running, context: PageContext): Html {
  const canAct = isOperator(context);
  const columns = {
    ...{ event: "", handler: "", for: "", process: "", lease: "off" },
    ...(canAct && { act: "" }),
  };
  const rows = events.map((event) => [...cellsOf(event), ...canAct ? [td(actOf(event))] : []]);
  const empty = "Nothing runs at the moment.";
  const all = a(link("deliveries", { state: "running" }), "deliveries");
  const more = isMore && tag("p.dim", "More may run: the page of ", all, " lists all.");
  const what = canAct && events.length > 0 &&
    tag(
      "p.dim",
      "A cancelled event is never done. Its handler is told to stop at the next renewal of its lease, and its place is free once it has ended. It can be replayed.",
    );
  return live(
    "often",
    tag("div.head", tag("h1", "Running")),
    table("Running", columns, rows, { style: "cards", empty }),
    more,
    strays.length > 0 && [
      tag("h2", "Places held without an event"),
      tag("ul.wrong", strays.map(strayItem)),
    ],
    what,
  );
}

const strayItem = (hung: Hung): Html =>
  tag("li", hungLine(hung, a(link("delivery", { id: hung.id }), shown(hung.id, 120))));

const isPastLimit = ({ limitMs = Infinity, elapsedMs }: RunningEvent): boolean =>
  elapsedMs > limitMs;

function cellsOf(event: RunningEvent): Html[] {
  const { id, about, description, attempt, events, elapsedMs, limitMs } = event;
  const isOver = isPastLimit(event);
  return [
    td([
      a(link("delivery", { id }), shown(about, 200)),
      beside(description !== undefined && shown(description)),
      beside(events > 1 && `and ${number(events - 1)} more, together`),
      beside(attempt > 1 && `attempt ${number(attempt)}`),
      event.hung && hungLine(event.hung),
    ], "wrap"),
    td(handlersOf(event), "wrap"),
    td(
      [duration(elapsedMs), beside(limitMs !== undefined && `of ${duration(limitMs)} at most`)],
      isOver ? "error" : "",
    ),
    td(processOf(event)),
    td(leaseOf(event), event.isLeaseOver ? "off error" : "off"),
  ];
}

/** Names the handlers of an event that runs. */
export function handlersOf({ handlers }: RunningEvent): Content {
  const names = handlers?.map((name) => name === ANY ? "any event" : name).join(", ");
  return names === undefined ? dim("not known") : shown(names, 200);
}

/** Names the process that runs an event. */
export const processOf = ({ process }: RunningEvent): Content => [
  process.version !== undefined && [shown(process.version, 60), " "],
  dim(shown(process.name ?? process.id.slice(0, 8))),
  beside(!process.isKnown && "not seen for 5 min"),
];

/** Says for how long an event has run, and of what time limit. */
export const timeOf = ({ elapsedMs, limitMs }: RunningEvent): string =>
  `${duration(elapsedMs)}${limitMs === undefined ? "" : ` of ${duration(limitMs)} at most`}`;

function leaseOf({ leaseUntil, isLeaseOver }: RunningEvent) {
  return isLeaseOver
    ? `over for ${duration(Date.now() - leaseUntil)}: another process takes it`
    : ["ends ", when(leaseUntil)];
}

function actOf({ id, cancelRequestedAt }: RunningEvent) {
  if (cancelRequestedAt !== undefined) return dim(["cancelled ", when(cancelRequestedAt)]);
  // A row moves up when another one ends: only the question does something, about the event that it names.
  return actLinks(["cancel"], { id });
}
