import { html, raw } from "@hono/hono/html";
import { EVENT_STATES, type EventState } from "../events/store/event_record.ts";
import type { BoundedCount } from "../events/store/mod.ts";
import { type Activity, type Period, PERIODS } from "../watch/activity.ts";
import { type Health, shareOf, type Wrong, wrongIn } from "../watch/health.ts";
import type { TypeNumbers } from "../watch/tally.ts";
import { type Balance, balanceLine, balanceOf } from "./_balance.ts";
import type { ConsoleData, Overview } from "./_console_data.ts";
import { MAX_COUNT, type WaitingCounts } from "./_counts.ts";
import {
  aboutOf,
  countText,
  duration,
  type Html,
  link,
  number,
  shown,
  stateName,
  time,
  when,
} from "./_format.ts";
import {
  a,
  actLinks,
  beside,
  type Content,
  current,
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
import { word } from "./_query.ts";

/** Event that is running or due, in a few words. */
interface BriefEvent {
  /** Id. */
  readonly id: string;
  /** Type, and repository or chat. */
  readonly name: string;
  /** Time since which it runs, or is due, milliseconds since the epoch. */
  readonly since: number;
}

/** Process that is awake. */
interface BriefProcess extends Omit<Health["processes"][number], "running"> {
  /** Number of events that it has leased. */
  readonly busy: number;
  /** The longest-running ones, at most three. */
  readonly running: readonly BriefEvent[];
}

/** Things that may be wrong, and those that are. */
interface Strip {
  /** Time at which it was read, milliseconds since the epoch. */
  readonly at: number;
  /** Things that are wrong, in the order of their importance. */
  readonly wrong: readonly Wrong[];
  /** Number of places of all processes that are busy, and of all places. */
  readonly places: { readonly busy: number; readonly of: number };
  /** Events that have been running for the longest, at most five. */
  readonly longest: readonly BriefEvent[];
  /** Event that has been due for the longest; null if none is due. */
  readonly oldestDue: BriefEvent | null;
  /** Numbers of attempts of the last 15 minutes and of the hour before, and of events that died in the last hour. */
  readonly recent: Pick<NonNullable<Health["activity"]>, "recent" | "before" | "dead"> | null;
  /** Processes that are awake. */
  readonly processes: readonly BriefProcess[];
}

/** Data of the first page. What was not read yet is null. */
export interface OverviewData extends Omit<Overview, "health" | "totals"> {
  /** Period of the charts. */
  readonly period: Period;
  /** Things that may be wrong. */
  readonly strip: Strip | null;
  /** Sum of the events of the period; null if it cannot be made. */
  readonly sum: Balance | null;
}

/** Reads the first page. */
export async function readOverview(
  data: ConsoleData,
  parameters: URLSearchParams,
): Promise<OverviewData> {
  const period = word(parameters, "period", PERIODS) ?? "hour";
  const { health, totals, ...overview } = await data.overview(period);
  const sum = balanceOf({ ...overview, totals, period });
  return { period, ...overview, strip: health && stripOf(health), sum };
}

/** Takes the texts of errors out of what is wrong. */
export function withoutErrors({ strip, ...overview }: OverviewData): OverviewData {
  const wrong = strip?.wrong.map((each) =>
    each.kind === "problem" ? { ...each, text: "A new error" } : each
  );
  return { ...overview, strip: strip && { ...strip, wrong: wrong ?? [] } };
}

/** Tells whether the first page quotes an error, which a handler has written. */
export const quotesError = ({ strip }: OverviewData): boolean =>
  strip?.wrong.some(({ kind }) => kind === "problem") ?? false;

/** Answers with the first page. */
export async function overview({ data, parameters, context }: Visit): Promise<Page> {
  const found = await readOverview(data, parameters);
  const body = overviewPage(context.hidesPayloads ? withoutErrors(found) : found, context);
  return { title: "Overview", at: "", body, isLive: true, isPrivate: quotesError(found) };
}

/** Most events that are named of those that run, of all and of a process. */
const [MAX_LONGEST, MAX_OF_PROCESS] = [5, 3] as const;

function stripOf(health: Health): Strip {
  const { at, processes, oldestDue, activity } = health;
  const all = processes.flatMap(({ running }) => running).sort((a, b) => a.since - b.since);
  const places = processes.filter((each) => each.places !== undefined);
  const sum = (numbers: readonly number[]) => numbers.reduce((sum, each) => sum + each, 0);
  const busyIn = ({ running, places }: Health["processes"][number]) =>
    Math.min(running.filter(({ isOverdue }) => !isOverdue).length, places ?? Infinity);
  return {
    at,
    // As of the reading: what was due then may have been taken since.
    wrong: wrongIn(health).filter(({ isOld }) => !isOld),
    places: { busy: sum(places.map(busyIn)), of: sum(places.map(({ places }) => places ?? 0)) },
    longest: all.slice(0, MAX_LONGEST).map(briefOf),
    oldestDue: oldestDue && {
      id: oldestDue.id,
      name: oldestDue.record ? aboutOf(oldestDue.record) : shown(oldestDue.id),
      since: oldestDue.at,
    },
    recent: activity && { recent: activity.recent, before: activity.before, dead: activity.dead },
    processes: processes.map(({ running, ...process }) => ({
      ...process,
      busy: running.length,
      running: running.slice(0, MAX_OF_PROCESS).map(briefOf),
    })),
  };
}

function briefOf({ record, since }: Health["processes"][number]["running"][number]): BriefEvent {
  return { id: record.id, name: aboutOf(record), since };
}

function overviewPage(overview: OverviewData, context: PageContext): Html {
  const { activity, workers, period, strip, sum } = overview;
  const names = { hour: "Hour", day: "Day" };
  const tabs = PERIODS.map((each) =>
    html`<a href="${link("", { period: each })}" ${current(each === period)}>${names[each]}</a>`
  );
  const none = workers === 0 &&
    html`<span class="badge bad" role="status">no worker is running</span>`;
  const head = tag(
    "div.head",
    tag("h1", "Overview"),
    none,
    html`<div class="tabs" role="group" aria-label="Period">${tabs}</div>`,
  );
  const charts = activity
    ? activityOf(activity, period)
    : tag("p.dim", "Reading what was counted…");
  return live(
    "often",
    head,
    stripTiles(overview, Date.now()),
    strip && wrongList(strip, context, Date.now()),
    tiles(overview, Date.now()),
    isEmpty(overview) && start(context),
    charts,
    activity && balanceLine(sum, period, activity),
    strip && strip.processes.length > 0 && processes(strip, context, Date.now()),
  );
}

function activityOf(activity: Activity, period: Period): Html {
  const { refusedBy, types, moreTypes } = activity;
  const span = period === "hour" ? "last hour" : "last 24 hours";
  const [received, refused] = [seriesOf(activity, "received"), seriesOf(activity, "refused")];
  const failed = seriesOf(activity, "failed");
  const handled = succeeded(seriesOf(activity, "attempts"), failed);
  const codes = refusedBy.map((
    { source, code, count },
  ) => [td(a("refusals", shown(code, 60)), "mono"), td(shown(source, 40)), numberCell(count)]);
  const rows = types.map(({ source, type, ...numbers }) =>
    typeRow(typeCell(source, type), numbers)
  );
  if (moreTypes) rows.push(typeRow(moreCell(moreTypes.count), moreTypes));
  const columns = { type: "", ...COLUMNS };
  const charts = tag(
    "div.charts",
    barChart(activity, `Deliveries, ${span}`, [received, refused]),
    barChart(activity, `Attempts, ${span}`, [handled, failed]),
  );
  const tables = tag(
    "div.cols",
    tag(
      "section",
      tag("h2", "By type"),
      table("By type", columns, rows, { style: "nums", empty: "Nothing in this time." }),
    ),
    tag(
      "section",
      tag("h2", "Refused, by code"),
      table("Refused", { code: "", platform: "", deliveries: "num" }, codes, {
        empty: "None in this time.",
      }),
    ),
  );
  return html`${charts}${valuesTable(activity, [received, refused, handled, failed])}${tables}`;
}

/** Age from which on the time of a count is shown, in milliseconds. */
const OLD_MS = 5_000;

/** Shows what may be wrong: red if it is. */
function stripTiles({ strip, activity }: OverviewData, now: number): Html {
  const { places, longest, oldestDue, recent, wrong } = strip ?? {};
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
      first && `the longest for ${duration(now - first.since)}`,
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
      recent && `${shareOf(recent.before)} in the hour before`,
    ),
    tile(
      "dead",
      link("deliveries", { state: "dead" }),
      "died, last hour",
      recent ? number(recent.dead) : "…",
      undefined,
    ),
    tile(
      "refused",
      "refusals",
      "refused",
      refused === undefined ? "…" : number(refused),
      activity && (activity.slotMs === 60_000 ? "last hour" : "last 24 hours"),
    ),
  );
}

/** Lists what is wrong, each with the way on. */
function wrongList({ wrong, longest }: Strip, context: PageContext, now: number): Html {
  if (wrong.length === 0) return tag("p.dim", "Nothing is wrong.");
  const items = wrong.map((each) => tag("li", tag("p", shown(each.text, 400)), wayOn(each)));
  const isHeld = wrong.some(({ kind }) => kind === "places_held");
  return tag(
    "div.note.bad",
    tag("ul.wrong", items),
    isHeld && tag("ul.wrong", longest.map((event) => runningItem(event, context, now))),
  );
}

/** Links to the page that tells more. */
function wayOn({ kind, key }: Wrong): Content {
  if (kind === "refused") return a("refusals", "What was refused, and what to do");
  if (kind === "failure_rate") return a("problems", "Problems");
  if (kind === "dead") return a(link("deliveries", { state: "dead" }), "Dead events");
  const id = key.slice("problem:".length);
  return kind === "problem" ? a(link("problem", { id }), "Its events") : undefined;
}

function runningItem({ id, name, since }: BriefEvent, context: PageContext, now: number): Html {
  return tag(
    "li.row",
    a(link("delivery", { id }), name),
    dim(`for ${duration(now - since)}`),
    isOperator(context) && actLinks(["cancel"], { id }),
  );
}

/** Names an event that runs, with the question before it is cancelled. */
const brief = ({ id, name, since }: BriefEvent, context: PageContext, now: number): Content => [
  ...[a(link("delivery", { id }), name), " ", dim(`for ${duration(now - since)}`)],
  isOperator(context) && [" ", a(link("act", { kind: "cancel", id }), "Cancel…")],
];

/** Lists the processes that are awake, and what each runs: operators cancel that with two clicks. */
function processes({ processes }: Strip, context: PageContext, now: number): Html {
  const columns = { process: "", version: "", since: "", busy: "num", runs: "", "last seen": "" };
  const rows = processes.map((process) => {
    const { id, name, version, startedAt, seenAt, places, busy, running } = process;
    const more = busy - running.length;
    return [
      td(shown(name ?? id, 80), "mono"),
      td(version === undefined ? "–" : shown(version, 60)),
      td(startedAt !== undefined && when(startedAt, now)),
      td(
        places === undefined ? number(busy) : `${number(Math.min(busy, places))}/${number(places)}`,
        "num",
      ),
      td([
        running.map((each) => tag("div", brief(each, context, now))),
        more > 0 && dim(`and ${number(more)} more`),
      ], "wrap"),
      td(seenAt !== undefined && when(seenAt, now)),
    ];
  });
  return html`${tag("h2", "Processes")}${table("Processes", columns, rows)}`;
}

/** Says what the queued events wait for. */
function waitingText(waiting: WaitingCounts | null): Content {
  if (!waiting) return undefined;
  const { due, retrying, behind, putOff, planned, isMore } = waiting;
  if (due + retrying + behind + putOff + planned === 0) return undefined;
  const parts = `${number(due)} due now, ${number(retrying)} retrying, ${number(behind)} behind ` +
    `others, ${number(putOff)} put off, ${number(planned)} planned`;
  return `Queued${isMore ? ", at least" : ""}: ${parts}. `;
}

function tiles(overview: OverviewData, now: number): Html {
  const { counts, activity, waiting } = overview;
  const handledIn = (part: "p50" | "p99") => {
    if (!activity) return "…";
    return activity.latency ? duration(activity.latency[part]) : "–";
  };
  const tile = (name: string, text: string) => tag("div", dim(name), tag("b", text));
  return html`${
    tag(
      "div.tiles",
      EVENT_STATES.map((state) => stateTile(state, counts?.[state])),
      tile("handled in, p50", handledIn("p50")),
      tile("handled in, p99", handledIn("p99")),
    )
  }${tag("p.dim", waitingText(waiting), agesOf(overview, now))}`;
}

/** Shows the number of events in a state: at least a count that was cut short, and nothing while it is 0. */
function stateTile(state: EventState, count: BoundedCount | undefined): Html {
  const isKnown = count !== undefined && (count.count > 0 || !count.isMore);
  const isCut = isKnown && count.isMore && count.count < MAX_COUNT;
  const text = isCut ? number(count.count) : isKnown ? countText(count) : "…";
  const name = tag(`span.state.${state}`, stateName(state), isCut && ", at least");
  return a(link("deliveries", { state }), [name, tag("b", text)]);
}

/** Says when old counts were made. The line stays if none is old, so that the page does not jump. */
function agesOf(
  { strip, counts, countedAt, doneCountedAt }: OverviewData,
  now: number,
): Content {
  const isOld = (at: number | null): at is number => at !== null && now - at >= OLD_MS;
  const isCountOld = counts !== null && (isOld(countedAt) || isOld(doneCountedAt));
  const parts = [
    isCountOld && html`
      Counted ${when(countedAt ?? now, now)}${isOld(doneCountedAt) &&
        html`, those that are done ${when(doneCountedAt, now)}`}.
    `,
    strip && isOld(strip.at) && html`Looked for what is wrong ${when(strip.at, now)}.`,
  ];
  return parts.some(Boolean) ? parts : html`&nbsp;`;
}

function isEmpty({ counts, activity }: OverviewData): boolean {
  return counts !== null && activity !== null &&
    EVENT_STATES.every((state) => counts[state].count === 0 && !counts[state].isMore) &&
    activity.slots.every(({ received, refused }) => received + refused === 0);
}

/** Says what to do next, as long as nothing has come. */
function start(context: PageContext): Html {
  return html`<div class="note"><h2 class="first">No delivery yet</h2>
<p>Set the address of this app's webhook and its secret at the sender, then cause an event there. It shows here
within two seconds.</p>${
    context.sendsExamples && isOperator(context)
      ? html`<p>Or <a href="send">send an example</a>, signed as the sender does.</p>`
      : html`<p>On your own machine, <code>deno task send</code> sends a signed example.</p>`
  }</div>`;
}

/** Columns of the numbers by type. */
const COLUMNS = {
  ...{ came: "num", handled: "num", ignored: "num", failed: "num", dead: "num" },
};

function typeRow(cell: Html, numbers: TypeNumbers): Html[] {
  const { received, emitted, handled, ignored, failed, dead } = numbers;
  // Without their end tags, as HTML allows: there may be a hundred of them.
  const plain = (value: number) => raw(`<td>${number(value)}`);
  const bad = (value: number) => value > 0 ? raw(`<td class="error">${number(value)}`) : plain(0);
  return [
    ...[cell, plain(received + emitted), plain(handled), plain(ignored)],
    ...[bad(failed), bad(dead)],
  ];
}

const moreCell = (count: number) =>
  td(`${number(count)} more ${count === 1 ? "type" : "types"}`, "dim");

/** Names a type. The others, which are counted together, have no source, and cannot be found by their name. */
function typeCell(source: string, type: string): Html {
  if (source === "") return td(shown(type, 60), "dim");
  const name = a(link("deliveries", { source, type }), shown(type, 60));
  return td([name, beside(shown(source, 40))]);
}

const numberCell = (value: number, style = "num"): Html => td(number(value), style);

/** Numbers that a chart shows as bars on top of each other. */
interface Series {
  /** Name, for people. */
  readonly name: string;
  /** Values, one for each slot. */
  readonly values: readonly number[];
  /** Sum of the values. */
  readonly total: number;
}

function seriesOf(
  { slots }: Activity,
  name: Exclude<keyof Activity["slots"][number], "at">,
): Series {
  const values = slots.map((slot) => slot[name]);
  return { name, values, total: values.reduce((sum, each) => sum + each, 0) };
}

/** Makes the series of the attempts that have succeeded. */
function succeeded(attempts: Series, failed: Series): Series {
  const values = attempts.values.map((value, i) => value - failed.values[i]!);
  return { name: "succeeded", values, total: attempts.total - failed.total };
}

/** Height of a chart in its own units. */
const HEIGHT = 100;

/** Number of times below a chart, beside the first one. */
const TICKS = 4;

/** Draws bars over time, two series on top of each other. */
function barChart(
  { slots, slotMs }: Activity,
  title: string,
  series: readonly [Series, Series],
): Html {
  const [lower, upper] = series;
  const max = Math.max(1, ...lower.values.map((value, i) => value + upper.values[i]!));
  const first = slots[0]?.at ?? 0;
  const summary = `${title}: ${lower.name} ${number(lower.total)}, ${upper.name} ` +
    `${number(upper.total)}, at most ${number(max)} in ${slotMs / 60_000} min`;
  const ticks = Array.from(
    { length: TICKS + 1 },
    (_, i) => time(first + Math.round(slots.length * i / TICKS) * slotMs, "minute"),
  );
  const keys = series.map(({ name, total }, i) =>
    html`
      <span class="key s${i}">${name} <b>${number(total)}</b></span>
    `
  );
  return html`
    <figure class="chart" data-from="${first}" data-slot="${slotMs}" data-slots="${slots.length}">
      <figcaption><b>${title}</b>${keys}<output></output></figcaption>
      <div
        class="plot">${tag("span.max", number(max))}<svg viewBox="0 0 ${slots.length *
          4} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="${summary}">
    <path class="s0" d="${raw(bars(lower.values, slots.map(() => 0), max))}"/>
    <path class="s1" d="${raw(
      bars(upper.values, lower.values, max),
    )}"/><path class="mark"/></svg></div>
      <div class="axis" aria-hidden="true">${ticks}</div>
    </figure>
  `;
}

/** Writes the path of bars that stand on others: lines, as wide as the style draws them, each beside the one before. */
function bars(values: readonly number[], below: readonly number[], max: number): string {
  const scaled = (value: number) => Math.round(value * HEIGHT / max);
  const parts: string[] = [];
  let [x, y] = [0, 0];
  for (const [i, value] of values.entries()) {
    if (value === 0) continue;
    const [left, foot, height] = [i * 4 + 1.5, HEIGHT - scaled(below[i]!), scaled(value) || 1];
    parts.push(`m${left - x} ${foot - y}v-${height}`);
    [x, y] = [left, foot - height];
  }
  return parts.join("");
}

/**
 * Makes the table of the values that charts show, for keyboards, touch and screen readers. Empty slots are left out,
 * and the end tags of its cells as well, as HTML allows: a page may have a hundred rows.
 */
function valuesTable({ slots }: Activity, series: readonly Series[]): Html {
  const rows = slots.map(({ at }, i) => ({ at, values: series.map(({ values }) => values[i]!) }))
    .filter(({ values }) => values.some((value) => value > 0))
    .map(({ at, values }) => {
      const minute = new Date(at).toISOString().slice(11, 16);
      const cells = values.map((value) => `<td>${number(value)}`).join("");
      return [raw(`<th data-at=${at / 60_000}>${minute}${cells}`)];
    });
  const columns = Object.fromEntries(series.map(({ name }) => [name, "num"]));
  return html`<details class="values"><summary>Values of the charts</summary>${
    table("Values of the charts", { from: "", ...columns }, rows.toReversed(), {
      empty: "Nothing in this time.",
    })
  }</details>`;
}
