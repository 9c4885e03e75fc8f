import { html, raw } from "@hono/hono/html";
import { barChart, valuesTable } from "./_chart.ts";
import type { EventState } from "../events/mod.ts";
import type { Activity, Count, Overview, Period, TypeNumbers } from "./_console_data.ts";
import { MAX_COUNT } from "./_counts.ts";
import {
  countText,
  duration,
  type Html,
  link,
  number,
  shown,
  STATE_NAMES,
  STATES,
  time,
} from "./_format.ts";
import type { PageContext } from "./_layout.ts";

/** Makes the body of the first page. */
export function overviewPage(
  overview: Overview,
  period: Period,
  context: PageContext,
  now: number = Date.now(),
): Html {
  const { activity, workers } = overview;
  return html`<div data-live><div class="head"><h1>Overview</h1>
${workers === 0 && html`<span class="badge bad" role="status">no worker is running</span>`}
<div class="tabs" role="group" aria-label="Period">${
    (["hour", "day"] as const).map((each) =>
      html`
        <a href="${link("", { period: each })}" ${raw(
          each === period ? ' aria-current="true"' : "",
        )}>${each === "hour" ? "Hour" : "Day"}</a>
      `
    )
  }</div></div>
${tiles(overview, now)}${isEmpty(overview) && start(context)}
${
    activity
      ? activityOf(activity, period)
      : html`<p class="dim">Reading what was counted…</p>`
  }</div>`;
}

function activityOf(activity: Activity, period: Period): Html {
  const span = period === "hour" ? "last hour" : "last 24 hours";
  const series = (name: "received" | "refused" | "handled" | "failed") => (
    { name, values: activity.slots.map((slot) => slot[name]) }
  );
  const [received, refused] = [series("received"), series("refused")];
  const [handled, failed] = [series("handled"), series("failed")];
  return html`<div class="charts">${
    barChart(activity, `Deliveries, ${span}`, [received, refused])
  }${barChart(activity, `Attempts, ${span}`, [handled, failed])}</div>${
    valuesTable(activity, [received, refused, handled, failed])
  }
<div class="cols">${types(activity)}${refusals(activity)}</div>`;
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
  return html`<div class="tiles">${
    STATES.map((state) => stateTile(state, counts?.[state]))
  }<div><span class="dim">oldest due</span><b>${age}</b></div>
<div><span class="dim">handled in, p50</span><b>${handledIn("p50")}</b></div>
<div><span class="dim">handled in, p99</span><b>${handledIn("p99")}</b></div></div>
<p class="dim">${agesOf(overview, now)}</p>`;
}

/** Shows the number of events in a state: what was cut short is at least that, and nothing if that is none. */
function stateTile(state: EventState, count: Count | undefined): Html {
  const isKnown = count !== undefined && (count.count > 0 || !count.isMore);
  const isCut = isKnown && count.isMore && count.count < MAX_COUNT;
  const text = isCut ? number(count.count) : isKnown ? countText(count) : "…";
  return html`
    <a
      href="${link("deliveries", {
        state,
      })}"><span class="state ${state}">${STATE_NAMES[state]}${isCut &&
        ", at least"}</span><b>${text}</b></a>
  `;
}

/** Says when was counted what is old. The line stays if nothing is, so that the page does not jump. */
function agesOf({ counts, countedAt, doneCountedAt }: Overview, now: number): Html {
  const isOld = (at: number | null): at is number => at !== null && now - at >= OLD_MS;
  if (!counts || (!isOld(countedAt) && !isOld(doneCountedAt))) return html`&nbsp;`;
  return html`Counted at ${time(countedAt ?? now, "short")}${
    isOld(doneCountedAt) && html`, those that are done at ${time(doneCountedAt, "short")}`
  }`;
}

function isEmpty({ counts, activity }: Overview): boolean {
  return counts !== null && activity !== null &&
    STATES.every((state) => counts[state].count === 0 && !counts[state].isMore) &&
    activity.slots.every(({ received, refused }) => received + refused === 0);
}

/** Says what to do next, as long as nothing has come. */
function start({ sendsExamples, session }: PageContext): Html {
  return html`<div class="note"><h2 class="first">No delivery yet</h2>
<p>Set the address of this app's webhook and its secret at the sender, then cause an event there. It shows here
within two seconds.</p>${
    sendsExamples && session?.role === "operator"
      ? html`<p>Or <a href="send">send an example</a>, signed as the sender does.</p>`
      : html`<p>On your own machine, <code>deno task send</code> sends a signed example.</p>`
  }</div>`;
}

function types({ types, moreTypes }: Activity): Html {
  return html`
    <section>
      <h2>By type</h2>
      <div class="scroll" tabindex="0" role="group" aria-label="By type">
        <table>
          <thead>
            <tr>
              <th scope="col">type</th>
              <th scope="col" class="num">received</th>
              <th scope="col" class="num">handled</th>
              <th scope="col" class="num">failed</th>
            </tr>
          </thead>
          <tbody>${types.length === 0
            ? html`
              <tr>
                <td colspan="4" class="dim">Nothing in this time.</td>
              </tr>
            `
            : types.map(({ source, type, ...numbers }) =>
              typeRow(typeCell(source, type), numbers)
            )}${moreTypes && typeRow(moreCell(moreTypes.count), moreTypes)}</tbody>
        </table>
      </div>
    </section>
  `;
}

function typeRow(cell: Html, { received, handled, failed }: TypeNumbers): Html {
  return html`<tr>${cell}${numberCell(received)}${numberCell(handled)}${
    numberCell(failed, failed > 0 ? "num error" : "num")
  }</tr>`;
}

const moreCell = (count: number): Html =>
  html`<td class="dim">${number(count)} more ${count === 1 ? "type" : "types"}</td>`;

/** Names a type; those beyond the limit of a record have no source, and are not to be found by their name. */
function typeCell(source: string, type: string): Html {
  if (source === "") return html`<td class="dim">${shown(type, 60)}</td>`;
  const name = html`<a href="${link("deliveries", { source, type })}">${shown(type, 60)}</a>`;
  return html`<td>${name} <span class="dim">${shown(source, 40)}</span></td>`;
}

function numberCell(value: number, style = "num"): Html {
  return html`<td class="${style}">${number(value)}</td>`;
}

function refusals({ refusedBy }: Activity): Html {
  return html`
    <section>
      <h2>Refused, by code</h2>
      <div class="scroll" tabindex="0" role="group" aria-label="Refused">
        <table>
          <thead>
            <tr>
              <th scope="col">code</th>
              <th scope="col" class="num">deliveries</th>
            </tr>
          </thead>
          <tbody>${refusedBy.length === 0
            ? html`
              <tr>
                <td colspan="2" class="dim">None in this time.</td>
              </tr>
            `
            : refusedBy.map(({ code, count }) =>
              html`
                <tr>
                  <td class="mono">${shown(code, 60)}</td>
                  <td class="num">${number(count)}</td>
                </tr>
              `
            )}</tbody>
        </table>
      </div>
    </section>
  `;
}
