import { html, raw } from "@hono/hono/html";
import { EVENT_STATES, type EventState } from "../events/store/event_record.ts";
import type { BoundedCount } from "../events/store/mod.ts";
import { type Activity, type Period, PERIODS } from "./_activity.ts";
import type { Overview } from "./_console_data.ts";
import { MAX_COUNT } from "./_counts.ts";
import { countText, duration, type Html, link, number, shown, stateName, time } from "./_format.ts";
import {
  a,
  beside,
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
import type { TypeNumbers } from "./_tally.ts";

/** Answers with the first page. */
export async function overview({ data, parameters, context }: Visit): Promise<Page> {
  const period = word(parameters, "period", PERIODS) ?? "hour";
  const body = overviewPage(await data.overview(period), period, context);
  return { title: "Overview", at: "", body, isLive: true };
}

function overviewPage(overview: Overview, period: Period, context: PageContext): Html {
  const { activity, workers } = overview;
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
    tiles(overview, Date.now()),
    isEmpty(overview) && start(context),
    charts,
  );
}

function activityOf(activity: Activity, period: Period): Html {
  const { refusedBy, types, moreTypes } = activity;
  const span = period === "hour" ? "last hour" : "last 24 hours";
  const [received, refused] = [seriesOf(activity, "received"), seriesOf(activity, "refused")];
  const [handled, failed] = [seriesOf(activity, "handled"), seriesOf(activity, "failed")];
  const codes = refusedBy.map((
    { code, count },
  ) => [td(shown(code, 60), "mono"), numberCell(count)]);
  const rows = types.map(({ source, type, ...numbers }) =>
    typeRow(typeCell(source, type), numbers)
  );
  if (moreTypes) rows.push(typeRow(moreCell(moreTypes.count), moreTypes));
  const columns = { type: "", received: "num", handled: "num", failed: "num" };
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
      table("By type", columns, rows, { empty: "Nothing in this time." }),
    ),
    tag(
      "section",
      tag("h2", "Refused, by code"),
      table("Refused", { code: "", deliveries: "num" }, codes, { empty: "None in this time." }),
    ),
  );
  return html`${charts}${valuesTable(activity, [received, refused, handled, failed])}${tables}`;
}

/** Age from which on the time of a count is shown, in milliseconds. */
const OLD_MS = 5_000;

function tiles(overview: Overview, now: number): Html {
  const { counts, oldestDueAt, activity } = overview;
  const handledIn = (part: "p50" | "p99") => {
    if (!activity) return "…";
    return activity.latency ? duration(activity.latency[part]) : "–";
  };
  const age = oldestDueAt === null ? "none" : duration(Math.max(0, now - oldestDueAt));
  const tile = (name: string, text: string) => tag("div", dim(name), tag("b", text));
  return html`${
    tag(
      "div.tiles",
      EVENT_STATES.map((state) => stateTile(state, counts?.[state])),
      tile("oldest due", age),
      tile("handled in, p50", handledIn("p50")),
      tile("handled in, p99", handledIn("p99")),
    )
  }${tag("p.dim", agesOf(overview, now))}`;
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
function agesOf({ counts, countedAt, doneCountedAt }: Overview, now: number): Html {
  const isOld = (at: number | null): at is number => at !== null && now - at >= OLD_MS;
  if (!counts || (!isOld(countedAt) && !isOld(doneCountedAt))) return html`&nbsp;`;
  return html`Counted at ${time(countedAt ?? now, "short")}${
    isOld(doneCountedAt) && html`, those that are done at ${time(doneCountedAt, "short")}`
  }`;
}

function isEmpty({ counts, activity }: Overview): boolean {
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

function typeRow(cell: Html, { received, handled, failed }: TypeNumbers): Html[] {
  const style = failed > 0 ? "num error" : "num";
  return [cell, numberCell(received), numberCell(handled), numberCell(failed, style)];
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
    <path class="s1" d="${raw(bars(upper.values, lower.values, max))}"/></svg></div>
      <div class="axis" aria-hidden="true">${ticks}</div>
    </figure>
  `;
}

/** Writes the path of bars that stand on others: lines, as wide as the style draws them. */
function bars(values: readonly number[], below: readonly number[], max: number): string {
  const scale = HEIGHT / max;
  const round = (value: number) => Math.round(value * 10) / 10;
  return values.map((value, i) =>
    value === 0
      ? ""
      : `M${i * 4 + 1.5} ${round((max - below[i]!) * scale)}v${-Math.max(1, round(value * scale))}`
  ).join("");
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
