/**
 * Charts of the first page: bars over time, and the table of their values.
 *
 * @module
 */
import { html, raw } from "@hono/hono/html";
import type { Activity } from "../watch/activity.ts";
import { type Html, number, time } from "./_format.ts";
import { table, tag } from "./_layout.ts";

/** Numbers that a chart shows as bars on top of each other. */
export interface Series {
  /** Name, for people. */
  readonly name: string;
  /** Values, one for each slot. */
  readonly values: readonly number[];
  /** Sum of the values. */
  readonly total: number;
}

export function seriesOf(
  { slots }: Activity,
  name: Exclude<keyof Activity["slots"][number], "at">,
): Series {
  const values = slots.map((slot) => slot[name]);
  return { name, values, total: values.reduce((sum, each) => sum + each, 0) };
}

/** Makes the series of the attempts that have succeeded. */
export function succeeded(attempts: Series, failed: Series): Series {
  const values = attempts.values.map((value, i) => value - failed.values[i]!);
  return { name: "succeeded", values, total: attempts.total - failed.total };
}

/** Height of a chart in its own units. */
const HEIGHT = 100;

/** Number of times below a chart, beside the first one. */
const TICKS = 4;

/** Draws bars over time, two series on top of each other. */
export function barChart(
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
export function valuesTable({ slots }: Activity, series: readonly Series[]): Html {
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
