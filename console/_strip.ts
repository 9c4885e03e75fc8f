/**
 * The top of the first page: what may be wrong, what is, and what each process runs.
 *
 * @module
 */
import { html } from "@hono/hono/html";
import type { Activity } from "../watch/activity.ts";
import { type Health, shareOf, type Wrong, wrongIn } from "../watch/health.ts";
import { type Hung, hungLine, hungOf, strayed } from "./_hung.ts";
import { aboutOf, duration, type Html, link, number, shown, time, when } from "./_format.ts";
import {
  a,
  actLinks,
  type Content,
  dim,
  isOperator,
  type PageContext,
  table,
  tag,
  td,
} from "./_layout.ts";

/** Event that is running or due, in a few words. */
interface BriefEvent {
  /** Id. */
  readonly id: string;
  /** Type, and repository or chat. */
  readonly name: string;
  /** Time since which it runs, or is due, milliseconds since the epoch. */
  readonly since: number;
  /** Time at which it was cancelled, of one that runs; undefined if it was not. */
  readonly cancelRequestedAt?: number | undefined;
}

/** Process that has noted itself and has not ended in order. One that is gone has no places. */
interface BriefProcess extends Omit<Health["processes"][number], "running" | "strays"> {
  /** Number of events that it has leased. */
  readonly busy: number;
  /** Number of places that are held by handlers whose events it has lost. */
  readonly lost: number;
  /** The longest-running ones, at most five. */
  readonly running: readonly BriefEvent[];
}

/** Things that may be wrong, and those that are. */
export interface Strip {
  /** Time at which it was read, milliseconds since the epoch. */
  readonly at: number;
  /** Things that are wrong, in the order of their importance. */
  readonly wrong: readonly Wrong[];
  /** Number of places of the processes that are awake that are busy, and of all of these. */
  readonly places: { readonly busy: number; readonly of: number };
  /** Handlers that were told to end and have not, the ones that were told first. */
  readonly hung: readonly Hung[];
  /** Events that have been running for the longest, at most five. */
  readonly longest: readonly BriefEvent[];
  /** Event that has been due for the longest; null if none is due. */
  readonly oldestDue: BriefEvent | null;
  /**
   * Numbers of attempts of the last 15 minutes and of the hour before, the minute in which the last one failed, and the
   * number of events that died in the last hour, with those of them that are dead still.
   */
  readonly recent:
    | Pick<NonNullable<Health["activity"]>, "recent" | "before" | "lastFailedAt" | "dead">
      & Pick<Health, "stillDead">
    | null;
  /** Processes that have noted themselves, also those that are gone as long as their notes are kept. */
  readonly processes: readonly BriefProcess[];
}

/** Most events that are named of those that run, of all and of a process. */
const MAX_NAMED = 5;

/** Time for which an event may be due before a replay is said to wait behind it, in milliseconds. */
const LONG_DUE_MS = 5_000;

/** Says that all places are busy; undefined if one is free. */
export function busyText({ busy, of }: Strip["places"]): string | undefined {
  if (of === 0 || busy < of) return undefined;
  return of === 1 ? "the only place is busy" : `all ${number(of)} places are busy`;
}

/** Counts the places of the processes that are awake. */
export function placesOf({ processes }: Pick<Health, "processes">): Strip["places"] {
  const awake = processes.filter(({ places, isGone }) => places !== undefined && !isGone);
  const sum = (numbers: readonly number[]) => numbers.reduce((sum, each) => sum + each, 0);
  return {
    busy: sum(awake.map(({ held }) => held)),
    of: sum(awake.map(({ places }) => places ?? 0)),
  };
}

/** Takes what the first page shows out of what was read. */
export function stripOf(health: Health, now: number): Strip {
  const { at, processes, oldestDue, activity } = health;
  const all = processes.flatMap(({ running }) => running).sort((a, b) => a.since - b.since);
  return {
    at,
    // As of the reading: what was due then may have been taken since.
    wrong: wrongIn(health, now).filter(({ isOld }) => !isOld),
    places: placesOf(health),
    hung: processes.flatMap((process) => hungIn(process, at)).sort((a, b) => a.since - b.since),
    longest: all.slice(0, MAX_NAMED).map(briefOf),
    oldestDue: oldestDue && {
      id: oldestDue.id,
      name: oldestDue.record ? aboutOf(oldestDue.record) : shown(oldestDue.id),
      since: oldestDue.at,
    },
    recent: activity && {
      ...{ recent: activity.recent, before: activity.before, dead: activity.dead },
      lastFailedAt: activity.lastFailedAt,
      stillDead: health.stillDead,
    },
    processes: processes.map(({ running, strays, ...process }) => ({
      ...process,
      lost: strays.length,
      busy: running.length,
      running: running.slice(0, MAX_NAMED).map(briefOf),
    })),
  };
}

function briefOf({ record, since }: Health["processes"][number]["running"][number]): BriefEvent {
  const { id, cancelRequestedAt } = record;
  return { id, name: aboutOf(record), since, cancelRequestedAt };
}

/** Lists the handlers of a process that were told to end, and have not. */
function hungIn(process: Health["processes"][number], now: number): Hung[] {
  const own = process.running.flatMap(({ record, isOverdue }) =>
    hungOf(record, { ...process, overdue: isOverdue ? [record.id] : [] }, now) ?? []
  );
  return [...own, ...process.strays.map((each) => strayed(each, process))];
}

/** Says why events that are replayed now are not handled at once; undefined if they are. */
export function whyReplayWaits(health: Health, now: number): string | undefined {
  const { oldestDue } = health;
  const dueMs = oldestDue ? now - oldestDue.at : 0;
  const due = dueMs > LONG_DUE_MS ? `other events have been due for ${duration(dueMs)}` : undefined;
  const full = busyText(placesOf(health));
  const why = full && due ? `${full}, and ${due}` : full ?? due;
  return why && `${why[0]!.toUpperCase()}${why.slice(1)}: what is replayed waits.`;
}

/** Shows what may be wrong: red if it is. */
export function stripTiles(strip: Strip | null, activity: Activity | null, now: number): Html {
  const { places, longest, hung = [], oldestDue, recent, wrong } = strip ?? {};
  const tile = (kind: Wrong["kind"], to: string, name: string, text: string, aside: Content) =>
    a(
      to,
      [dim(name), tag("b", text), aside ? dim(aside) : html`&nbsp;`],
      wrong?.some((each) => each.kind === kind) ? "bad" : undefined,
    );
  const [first] = longest ?? [];
  const refused = activity?.refusedBy.reduce((sum, { count }) => sum + count, 0);
  return tag(
    "div.strip",
    tile(
      "places_held",
      "running",
      "places busy",
      places ? `${number(places.busy)}/${number(places.of)}` : "…",
      hung.length > 0
        ? `${number(hung.length)} told to stop, not returned`
        : first && `the longest for ${duration(now - first.since)}`,
    ),
    tile(
      "oldest_due",
      oldestDue ? link("delivery", { id: oldestDue.id }) : link("deliveries", { state: "queued" }),
      "oldest due",
      oldestDue ? duration(Math.max(0, now - oldestDue.since)) : strip ? "none" : "…",
      oldestDue?.name,
    ),
    tile(
      "failure_rate",
      "problems",
      "attempts failed, 15 min",
      recent ? shareOf(recent.recent) : "…",
      recent && [
        `${shareOf(recent.before)} in the hour before`,
        recent.lastFailedAt !== null && ["; the last at ", time(recent.lastFailedAt, "minute")],
      ],
    ),
    tile(
      "dead",
      link("deliveries", { state: "dead" }),
      "died, last hour",
      recent ? number(recent.dead) : "…",
      recent && stillDeadText(recent),
    ),
    tile(
      "refused",
      "refusals",
      "refused",
      refused === undefined ? "…" : number(refused),
      activity && [
        activity.slotMs === 60_000 ? "last hour" : "last 24 hours",
        ", for any reason",
        refused ? "; lost unless sent again" : "",
      ],
    ),
  );
}

/** Says how many of the events that died in the last hour are dead still. */
function stillDeadText({ dead, stillDead }: NonNullable<Strip["recent"]>): string | undefined {
  const { count, isMore } = stillDead;
  if (dead === 0 || isMore) return undefined;
  return count === 0 ? "none is dead any more" : `${number(count)} still dead`;
}

/** Lists what is wrong, each with the way on. */
export function wrongList(strip: Strip, context: PageContext, now: number): Html {
  if (strip.wrong.length === 0) return tag("p.dim", "Nothing is wrong.");
  const items = strip.wrong.map((each) =>
    tag("li", tag("p", textOf(each, strip)), wayOn(each), holders(each, strip, context, now))
  );
  return tag("div.note.bad", tag("ul.wrong", items));
}

/** Shows the text of something that is wrong. An event in it is a link, by its name if that is known. */
function textOf({ text, event }: Wrong, strip: Strip): Content {
  const at = event ? text.indexOf(event.name) : -1;
  if (!event || at < 0) return shown(text, 400);
  const { id, name } = event;
  const known = nameIn(strip, id);
  return [
    shown(text.slice(0, at), 400),
    a(
      link("delivery", { id }),
      known ?? shown(name, 160),
      known === undefined ? "mono" : undefined,
    ),
    shown(text.slice(at + name.length), 200),
  ];
}

/** Finds the name of an event that is shown; undefined if it is not among them. */
function nameIn({ oldestDue, longest, processes }: Strip, id: string): string | undefined {
  const named = [oldestDue, ...longest, ...processes.flatMap(({ running }) => running)];
  return named.find((each) => each?.id === id)?.name;
}

/** Lists the events that a process runs whose places are held, under a label, with what to do. */
function holders(
  { kind, key }: Wrong,
  { processes }: Strip,
  context: PageContext,
  now: number,
): Content {
  const process = kind === "places_held" &&
    processes.find(({ id }) => key === `places_held:${id}`);
  if (!process) return undefined;
  const { running, busy } = process;
  const more = busy - running.length;
  return [
    tag("div.dim", "The process runs, the longest first:"),
    tag("ul.wrong", running.map((event) => runningItem(event, context, now))),
    more > 0 && tag("div", a("running", `and ${number(more)} more`)),
    tag(
      "div.dim",
      isOperator(context)
        ? "Cancel the ones that hang"
        : "An operator can cancel the ones that hang",
      ": their handlers are told to stop. A place is free once its handler has returned; if it does not, restart the process.",
    ),
  ];
}

/** Lists handlers that were told to end and have not, with what they hold. */
export function hungList(strip: Strip): Html | undefined {
  const { hung } = strip;
  if (hung.length === 0) return undefined;
  const nameOf = (id: string) => nameIn(strip, id) ?? shown(id, 120);
  const more = hung.length - MAX_NAMED;
  const items = hung.slice(0, MAX_NAMED).map((each) =>
    tag("li", hungLine(each, a(link("delivery", { id: each.id }), nameOf(each.id))))
  );
  return tag(
    "div.note",
    tag("ul.wrong", items),
    more > 0 && tag("p.dim", a("running", `and ${number(more)} more`)),
  );
}

/** Links to the page that tells more. */
function wayOn({ kind, key }: Wrong): Content {
  if (kind === "refused") return a("refusals", "What was refused, and what to do");
  if (kind === "failure_rate") return a("problems", "Problems");
  if (kind === "dead") return a(link("deliveries", { state: "dead" }), "Dead events");
  const id = key.slice("problem:".length);
  return kind === "problem" ? a(link("problem", { id }), "This problem") : undefined;
}

function runningItem(event: BriefEvent, context: PageContext, now: number): Html {
  const { id, name, cancelRequestedAt } = event;
  return tag(
    "li.row",
    a(link("delivery", { id }), name),
    dim(howLong(event, now)),
    isOperator(context) && cancelRequestedAt === undefined && actLinks(["cancel"], { id }),
  );
}

const howLong = ({ since, cancelRequestedAt }: BriefEvent, now: number): Content => [
  `for ${duration(now - since)}`,
  cancelRequestedAt !== undefined && [", cancelled ", when(cancelRequestedAt, now)],
];

/** Names an event that runs, with the question before it is cancelled. */
function brief(event: BriefEvent, context: PageContext, now: number): Content {
  const { id, name, cancelRequestedAt } = event;
  const canCancel = isOperator(context) && cancelRequestedAt === undefined;
  return [
    ...[a(link("delivery", { id }), name), " ", dim(howLong(event, now))],
    canCancel && [" ", a(link("act", { kind: "cancel", id }), "Cancel…")],
  ];
}

/**
 * Lists the processes, and what each runs: operators cancel that with two clicks. One that is gone has no places, and what it
 * ran is taken over.
 */
export function processes({ processes }: Strip, context: PageContext, now: number): Html {
  const columns = { process: "", version: "", since: "", busy: "num", runs: "", "last seen": "" };
  const rows = processes.map((process) => {
    const { id, name, version, startedAt, seenAt, isGone, places, held, busy, lost, running } =
      process;
    const more = busy - running.length;
    return [
      td(shown(name ?? id, 80), "mono"),
      td(version === undefined ? "–" : shown(version, 60)),
      td(startedAt !== undefined && when(startedAt, now)),
      td(
        isGone ? "–" : places === undefined ? number(busy) : `${number(held)}/${number(places)}`,
        "num",
      ),
      td([
        running.map((each) => tag("div", brief(each, context, now))),
        more > 0 && dim(`and ${number(more)} more`),
        lost > 0 && dim(`${number(lost)} whose ${lost === 1 ? "event" : "events"} it has lost`),
      ], "wrap"),
      isGone
        ? td(["not seen since ", time(seenAt!, "short")], "error")
        : td(seenAt !== undefined && when(seenAt, now)),
    ];
  });
  return html`${tag("h2", "Processes")}${table("Processes", columns, rows, { style: "cards" })}`;
}
