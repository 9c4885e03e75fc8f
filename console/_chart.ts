import { html, raw } from "@hono/hono/html";
import { type Html, number, time } from "./_format.ts";
import type { Activity } from "./_console_data.ts";

/** Numbers that a chart shows as bars on top of each other. */
export interface Series {
  /** Name, for people. */
  readonly name: string;
  /** Values, one for each slot. */
  readonly values: readonly number[];
}

/** Height of a chart in its own units. */
const HEIGHT = 100;

/** Number of times below a chart, beside the first one. */
const TICKS = 4;

/** Draws bars over time, two series on top of each other. */
export function barChart(
  { slots, slotMs }: Pick<Activity, "slots" | "slotMs">,
  title: string,
  series: readonly [Series, Series],
): Html {
  const sums = slots.map((_, i) => series[0].values[i]! + series[1].values[i]!);
  const max = Math.max(1, ...sums);
  const [total, other] = series.map(({ values }) => values.reduce((sum, each) => sum + each, 0));
  const first = slots[0]?.at ?? 0;
  const summary = `${title}: ${series[0].name} ${number(total!)}, ${series[1].name} ` +
    `${number(other!)}, at most ${number(max)} in ${slotMs / 60_000} min`;
  const ticks = Array.from(
    { length: TICKS + 1 },
    (_, i) => time(first + Math.round(slots.length * i / TICKS) * slotMs, "minute"),
  );
  return html`
    <figure class="chart" data-from="${first}" data-slot="${slotMs}" data-slots="${slots.length}">
      <figcaption><b>${title}</b>
    ${series.map(({ name }, i) =>
      html`<span class="key s${i}">${name} <b>${number(i === 0 ? total! : other!)}</b></span>`
    )}<output></output></figcaption>
      <div class="plot"><span class="max">${number(max)}</span>
    <svg viewBox="0 0 ${slots.length *
      4} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="${summary}">
    <path class="s0" d="${raw(bars(series[0].values, slots.map(() => 0), max))}"/>
    <path class="s1" d="${raw(bars(series[1].values, series[0].values, max))}"/></svg></div>
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

/** Makes the table of the values that charts show, for those who read or cannot point. Empty slots are left out. */
export function valuesTable(
  { slots }: Pick<Activity, "slots">,
  series: readonly Series[],
): Html {
  const rows = slots.map(({ at }, i) => ({ at, values: series.map(({ values }) => values[i]!) }))
    .filter(({ values }) => values.some((value) => value > 0));
  return html`
    <details class="values">
      <summary>Values of the charts</summary>
      <div class="scroll" tabindex="0" role="group" aria-label="Values of the charts">
        <table>
          <thead>
            <tr><th scope="col">from</th>${series.map(({ name }) =>
              html`<th scope="col" class="num">${name}</th>`
            )}</tr>
          </thead>
          <tbody>${rows.length === 0
            ? html`
              <tr>
                <td colspan="${series.length + 1}" class="dim">Nothing in this time.</td>
              </tr>
            `
            : rows.toReversed().map(({ at, values }) => row(at, values))}</tbody>
        </table>
      </div>
    </details>
  `;
}

/** Makes a row, of numbers only. HTML leaves out its end tags: a page may have a hundred. */
function row(at: number, values: readonly number[]): Html {
  const cells = values.map((value) => `<td>${number(value)}`).join("");
  const minute = new Date(at).toISOString().slice(11, 16);
  return raw(`<tr><th data-at=${at / 60_000}>${minute}${cells}`);
}
