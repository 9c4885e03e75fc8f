import { html } from "@hono/hono/html";
import {
  loadCron,
  pauseSchedule,
  readNote,
  resumeSchedule,
  runSchedule,
  slotIdOf,
} from "../events/schedules/mod.ts";
import type { EventRecord, StoredEvent } from "../events/mod.ts";
import { SCHEDULE } from "../events/store/emission.ts";
import { hasHandlerFor } from "../events/store/processes.ts";
import type { ConsoleData } from "./_console_data.ts";
import { deedButton, deedFields, deedForm, type Plan, planDeed } from "./_deeds.ts";
import { duration, type Html, link, recordOf, shown, stateBadge, when } from "./_format.ts";
import { Refusal } from "./_http.ts";
import {
  a,
  beside,
  type Content,
  dim,
  facts,
  isOperator,
  KIND_NAMES,
  live,
  type Page,
  type PageContext,
  table,
  tag,
  td,
  type Visit,
} from "./_layout.ts";
import { text, word } from "./_query.ts";

/** Most schedules that are shown. */
const MAX_SCHEDULES = 200;

/** Most runs of each that are shown. */
const MAX_RUNS = 5;

/** Time after which a slot that is not made is overdue, in milliseconds: a process needs time to start. */
const OVERDUE_MS = 120_000;

/** Schedule, as the store knows it. */
export interface ListedSchedule {
  /** Its name. */
  readonly name: string;
  /** True if another version wrote its note, or it is damaged. */
  readonly isUnreadable: boolean;
  /** Expression and time zone: `0 7 * * 1-5 UTC`. */
  readonly plan?: string | undefined;
  /** Its next run, milliseconds since the epoch; undefined if it is paused, or that is not known. */
  readonly next?: number | undefined;
  /** Time since which a run is due that nobody has made; undefined if none is. */
  readonly overdueSince?: number | undefined;
  /** Its last runs, the latest first: those of its last five times whose events are still stored. */
  readonly runs?: readonly Run[] | undefined;
  /** Set while it is paused. */
  readonly paused?: { readonly at: number; readonly by?: string | undefined } | undefined;
  /** False if no process has handlers for it; undefined if that is not known. */
  readonly isHandled?: boolean | undefined;
}

/** Run of a schedule at one of its times, and what has become of its event. */
export interface Run extends Pick<StoredEvent, "id" | "state">, Pick<EventRecord, "outcome"> {
  /** Time that it was due at, milliseconds since the epoch. */
  readonly at: number;
}

/** Schedules of the store. */
export interface Schedules {
  /** Schedules by their names, at most 200. */
  readonly schedules: readonly ListedSchedule[];
  /** True if there are more. */
  readonly isMore: boolean;
}

/** Reads the schedules that the store knows, also those that the app has no more. */
export async function readSchedules({ store }: ConsoleData): Promise<Schedules> {
  const found: { readonly name: string; readonly value: unknown }[] = [];
  for await (const note of store.scheduleNotes.list()) {
    if (found.push(note) > MAX_SCHEDULES) break;
  }
  const [processes, timesOf] = await Promise.all([store.processes(), loadCron()]);
  const known = processes.map((note) => "handles" in note ? note.handles : null);
  const isHandled = (type: string) => {
    if (known.length === 0 || known.includes(null)) return undefined;
    const event = { intake: SCHEDULE, platform: SCHEDULE, type };
    return known.some((handles) => hasHandlerFor(handles!, event));
  };
  const schedules = await Promise.all(
    found.slice(0, MAX_SCHEDULES).map(async ({ name, value }): Promise<ListedSchedule> => {
      const note = readNote(value);
      if (!note) return { name, isUnreadable: true };
      const times = timesIn(note.plan, timesOf);
      return {
        ...{ name, isUnreadable: false, plan: note.plan, paused: note.paused },
        isHandled: isHandled(name),
        runs: await runsAt(store, name, times?.latest(note.at, MAX_RUNS) ?? []),
        ...timesAfter(note.at, times, note.paused !== undefined),
      };
    }),
  );
  return { schedules, isMore: found.length > MAX_SCHEDULES };
}

type Times = ReturnType<Awaited<ReturnType<typeof loadCron>>>;

/** Reads the times of a plan: an expression and a time zone. Undefined if this version cannot. */
function timesIn(
  plan: string,
  timesOf: Awaited<ReturnType<typeof loadCron>>,
): Times | undefined {
  const space = plan.lastIndexOf(" ");
  try {
    return timesOf("show the schedule", plan.slice(0, space), plan.slice(space + 1));
  } catch {
    return undefined;
  }
}

function timesAfter(
  at: number,
  times: Times | undefined,
  isPaused: boolean,
): Pick<ListedSchedule, "next" | "overdueSince"> {
  const now = Date.now();
  const due = times?.next(at);
  const isOverdue = due !== undefined && due < now - OVERDUE_MS && !isPaused;
  return {
    next: isPaused ? undefined : times?.next(now),
    overdueSince: isOverdue ? due : undefined,
  };
}

/** Reads the runs of a schedule at some of its times. */
async function runsAt(
  store: ConsoleData["store"],
  name: string,
  times: readonly number[],
): Promise<Run[]> {
  if (times.length === 0) return [];
  const due = new Map(times.map((at) => [slotIdOf(name, at), at]));
  const events = await Array.fromAsync(store.list({ ids: [...due.keys()] }));
  return events.map((event) => {
    const { id, state } = event;
    return { id, state, outcome: recordOf(event)?.outcome, at: due.get(id)! };
  }).sort((one, other) => other.at - one.at);
}

/** Answers with the schedules. */
export async function schedules({ data, context }: Visit): Promise<Page> {
  const body = schedulesPage(await readSchedules(data), context);
  return { title: "Schedules", at: "schedules", body, isLive: true, isPrivate: true };
}

function schedulesPage({ schedules, isMore }: Schedules, context: PageContext): Html {
  const canAct = isOperator(context);
  const columns = {
    ...{ schedule: "", "next run": "", "last run": "", times: "off" },
    ...(canAct && { act: "" }),
  };
  const rows = schedules.map((each) => [...cellsOf(each), ...canAct ? [td(actsOf(each))] : []]);
  return live(
    "rest",
    tag("div.head", tag("h1", "Schedules")),
    table("Schedules", columns, rows, { style: "cards", empty: "The app has no schedules." }),
    isMore && tag("p.dim", `These are the first ${MAX_SCHEDULES}.`),
    canAct && schedules.length > 0 &&
      tag("p.dim", "While a schedule is paused, its runs are left out, and not made up later."),
  );
}

function cellsOf(schedule: ListedSchedule): Html[] {
  const { name, isUnreadable, plan = "", isHandled } = schedule;
  const named = a(link("deliveries", { source: SCHEDULE, type: name }), shown(name, 100));
  if (isUnreadable) return [td(shown(name, 100)), td("cannot be read", "dim", 3)];
  const gone = isHandled === false && "no process has it";
  return [
    td([named, beside(gone)], "wrap"),
    td(nextOf(schedule), "wrap"),
    td(lastOf(schedule)),
    td(shown(plan, 200), "mono off"),
  ];
}

function nextOf({ paused, next, overdueSince, isHandled }: ListedSchedule): Content {
  if (paused) {
    const by = paused.by === undefined ? "" : ` by ${shown(paused.by, 100)}`;
    return [tag("span.badge", "paused"), " ", dim([when(paused.at), by])];
  }
  const overdue = overdueSince !== undefined && isHandled !== false && tag(
    "span.error",
    `overdue for ${duration(Date.now() - overdueSince)} `,
  );
  if (next === undefined) return [overdue, dim("not known")];
  return [overdue, when(next)];
}

/** Shows the last run, and below it how the ones before have ended. */
function lastOf({ runs: [last, ...before] = [] }: ListedSchedule): Content {
  if (!last) return dim("no run is kept");
  const { id, at, state, outcome } = last;
  return [
    a(link("delivery", { id }), when(at)),
    " ",
    stateBadge(state),
    beside(outcome !== undefined && outcome !== "handled" && outcome),
    before.length > 0 && tag("div.why", dim("before: "), before.map(earlierOf)),
  ];
}

const earlierOf = ({ id, at, state }: Run): Html =>
  html`
    <a href="${link("delivery", { id })}" title="${new Date(at).toISOString()}">${stateBadge(
      state,
    )}</a>
  `;

function actsOf({ name, isUnreadable, paused }: ListedSchedule): Content {
  if (isUnreadable) return undefined;
  const ask = (kind: string, label: string) =>
    a(link("schedule", { schedule: name, do: kind }), label, "button");
  return tag(
    "div.row",
    ask("run", "Run now…"),
    paused
      ? deedButton("schedule", { schedule: name, do: "resume" }, "Resume")
      : ask("pause", "Pause…"),
  );
}

/** Answers with the question whether to run a schedule now, or to pause it: what is run or left out is not undone. */
export async function scheduleQuestion({ data, parameters }: Visit): Promise<Page> {
  const name = text(parameters, "schedule") ?? "";
  const kind = word(parameters, "do", ["run", "pause"]);
  const { value } = await data.store.scheduleNotes.read(name);
  if (kind === undefined || value === undefined) throw noSuchSchedule();
  const title = kind === "run" ? "Run this schedule now?" : "Pause this schedule?";
  const plan = shown(readNote(value)?.plan ?? "not known");
  const known = facts([["schedule", shown(name, 100)], ["times", plan, ".mono"]]);
  const body = [
    ...[tag("h1", title), tag("div.note", known), tag("div.note", tag("p", DEEDS[kind][0]))],
    deedForm(
      ...["schedule", { schedule: name, do: kind }] as const,
      tag(kind === "run" ? "button.go" : "button.danger", KIND_NAMES[kind]),
      a("schedules", "Back", "button"),
    ),
  ];
  return { title: "Confirm", at: "schedules", body: html`${body}`, isPrivate: true };
}

/** Acts on a schedule: the consequence of each, and the reason for which nothing may be left to do. */
const DEEDS = {
  run: [
    "Its handlers are run once more, beside its times. What they do cannot be undone.",
    "It can be run at any time.",
  ],
  pause: ["Its next runs are left out, and not made up later.", "It is paused already."],
  resume: ["It goes on with its next run.", "It is not paused."],
} as const;

const noSuchSchedule = (): Refusal =>
  new Refusal(404, "No such schedule", "The store knows no schedule of this name.");

/** Plans to run, pause or resume a schedule. */
export async function schedule(visit: Visit): Promise<Plan> {
  const { data: { store } } = visit;
  const fields = deedFields(visit.parameters);
  const name = text(fields, "schedule") ?? "";
  const kind = word(fields, "do", ["run", "pause", "resume"]);
  const { value } = await store.scheduleNotes.read(name);
  if (kind === undefined || value === undefined) throw noSuchSchedule();
  let next = "schedules";
  const [would, whyNot] = DEEDS[kind];
  const isPaused = readNote(value)?.paused !== undefined;
  return planDeed(visit, fields, {
    kind,
    would,
    why: (kind === "pause" && isPaused) || (kind === "resume" && !isPaused) ? whyNot : undefined,
    about: `schedule ${name}`,
    change: async (by) => {
      if (kind === "pause") return await pauseSchedule(store, name, by);
      if (kind === "resume") return await resumeSchedule(store, name);
      next = link("delivery", { id: await runSchedule(store, name) });
      return true;
    },
    whyNot,
    next: () => next,
  });
}
