import { html, raw } from "@hono/hono/html";
import { EVENT_STATES, type EventState } from "../events/store/event_record.ts";
import type { BoundedCount } from "../events/store/mod.ts";
import { type Activity, type Period, PERIODS } from "../watch/activity.ts";
import type { TypeNumbers } from "../watch/tally.ts";
import { type Balance, balanceLine, balanceOf } from "./_balance.ts";
import { barChart, seriesOf, succeeded, valuesTable } from "./_charts.ts";
import type { ConsoleData, Overview } from "./_console_data.ts";
import { MAX_COUNT, type WaitingCounts } from "./_counts.ts";
import { countText, duration, type Html, link, number, shown, stateName, when } from "./_format.ts";
import {
  a,
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
import { hungList, processes, type Strip, stripOf, stripTiles, wrongList } from "./_strip.ts";

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
  return { period, ...overview, strip: health && stripOf(health, Date.now()), sum };
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

function overviewPage(overview: OverviewData, context: PageContext): Html {
  const { activity, workers, period, strip, sum } = overview;
  const now = Date.now();
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
    stripTiles(strip, activity, now),
    strip && wrongList(strip, context, now),
    strip && hungList(strip),
    tiles(overview, now),
    isEmpty(overview) && start(context),
    charts,
    activity && balanceLine(sum, period, activity),
    strip && strip.processes.length > 0 && processes(strip, context, now),
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
      EVENT_STATES.map((state) => stateTile(state, counts?.[state], asideOf(state, overview))),
      tile("handled in, p50", handledIn("p50")),
      tile("handled in, p99", handledIn("p99")),
    )
  }${tag("p.dim", waitingText(waiting), agesOf(overview, now))}`;
}

/** Shows the number of events in a state: at least a count that was cut short, and nothing while it is 0. */
function stateTile(state: EventState, count: BoundedCount | undefined, aside: Content): Html {
  const isKnown = count !== undefined && (count.count > 0 || !count.isMore);
  const isCut = isKnown && count.isMore && count.count < MAX_COUNT;
  const text = isCut ? number(count.count) : isKnown ? countText(count) : "…";
  const name = tag(`span.state.${state}`, stateName(state), isCut && ", at least");
  return a(link("deliveries", { state }), [name, tag("b", text), aside && dim(aside)]);
}

/** Says how many of the parked events have their answers, and wait for a free place, and what dead ones are. */
function asideOf(state: EventState, { counts, answered }: OverviewData): Content {
  if (state === "parked") {
    return answered !== null && answered.count > 0 && `${countText(answered)} answered`;
  }
  return state === "dead" && counts !== null && counts.dead.count > 0 && "failed or cancelled";
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
      : html`<p>On your own machine, <code>deno task send</code> sends a signed example of most built-in platforms.</p>`
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
