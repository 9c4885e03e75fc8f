import { html, raw } from "@hono/hono/html";
import type { EventRecord, StoredEvent } from "../events/mod.ts";
import type { DeliveryPage, DeliveryQuery } from "./_console_data.ts";
import { type Html, link, number, shown, STATE_NAMES, stateBadge, time } from "./_format.ts";
import { KIND_NAMES, type PageContext } from "./_layout.ts";
import { kindsFor } from "./_query.ts";
import { nameOf, placeOf, senderOf } from "./_event_names.ts";
import { waitOf } from "./_waiting.ts";

const FILTER_STATES = ["queued", "running", "parked", "done", "dead", "unreadable"] as const;

/** Latest time of a filter: in UTC its year has four digits, whatever the reader's zone. */
const LAST_TIME = "9999-12-30T23:59";

/** Makes the body of the page of deliveries. */
export function deliveriesPage(
  page: DeliveryPage,
  query: DeliveryQuery,
  cursor: string | undefined,
  context: PageContext,
): Html {
  const { events } = page;
  const { session } = context;
  const canAct = session?.role === "operator" && events.length > 0;
  return html`
    <div class="head">
      <h1>Deliveries</h1>
      <form class="row" action="delivery"
        role="search"><input name="id" aria-label="Id of an event" required maxlength="1000" placeholder="Id: github:72d3162e-…"><button>Open</button></form>
    </div>
    ${filterForm(query)}<div${raw(cursor === undefined ? " data-live" : "")}>
    ${events.length > 0
      ? html`
        <div class="scroll" tabindex="0" role="group" aria-label="Deliveries">
          <table class="list">
            <thead>
              <tr>
                <th scope="col">event</th>
                <th scope="col">state</th>
                <th scope="col">received</th>
                <th scope="col">from</th>
                <th scope="col" class="id">id</th>
                <th scope="col" class="num">attempts</th>
              </tr>
            </thead>
            <tbody>${events.map((event) => row(event, context))}</tbody>
          </table>
        </div>
      `
      : nothing(page, query)}${more(page, query, cursor)}${canAct &&
      kindsFor(query.state).length > 0 &&
      html`<div class="more"><span>All that match:</span>${
        kindsFor(query.state).map((kind) =>
          html`<a class="button" href="${link("act", { kind, ...query })}">${KIND_NAMES[kind]}…</a>`
        )
      }</div>`}${canAct && query.state === undefined &&
      html`<p class="dim">To act on all that match, choose a state.</p>`}</div>
  `;
}

const isFiltered = (query: DeliveryQuery): boolean =>
  Object.values(query).some((each) => each !== undefined);

/** Makes the form of the filter, which phones fold unless it is in use. */
function filterForm(query: DeliveryQuery): Html {
  const field = (name: "type" | "source" | "place" | "group", label: string, max: number) =>
    html`<label>${label}<input name="${name}" value="${
      query[name] ?? ""
    }" maxlength="${max}"></label>`;
  const timeField = (name: "from" | "before", label: string) => {
    const at = query[name];
    const value = at === undefined ? "" : new Date(at).toISOString().slice(0, 16);
    return html`<label>${label} <span data-zone>(UTC)</span><input type="datetime-local" name="${name}" value="${value}" max="${LAST_TIME}" data-utc></label>`;
  };
  return html`
    <details class="filters" ${raw(isFiltered(query) ? " open" : "")}>
      <summary>Filter</summary>
      <form class="filter" autocomplete="off"
        action="deliveries"><label>State<select name="state"><option value="">any</option>${FILTER_STATES
          .map((state) =>
            html`
              <option value="${state}" ${raw(
                state === query.state ? " selected" : "",
              )}>${STATE_NAMES[state]}</option>
            `
          )}</select></label>${field("type", "Type", 100)}${field("source", "Source", 100)}${field(
            "place",
            "Repository or chat",
            300,
          )}${field("group", "Ordering key", 600)}${timeField("from", "Received from")}${timeField(
            "before",
            "Before",
          )}<div class="row"><button class="go">Filter</button><a href="deliveries">Clear</a></div></form>
    </details>
  `;
}

function row(event: StoredEvent, { hidesPayloads }: PageContext): Html {
  const { id, receivedAt, state } = event;
  const record = state === "unreadable" ? undefined : event as EventRecord;
  const isOdd = record?.outcome === "ignored" || record?.outcome === "cancelled";
  const more = isOdd ? record.outcome : record && waitOf(record, Date.now());
  return html`
    <tr>
      <td><a href="${link("delivery", { id })}">${record
        ? nameOf(record)
        : "of another version"}</a>${record && !hidesPayloads && lastError(record)}</td>
      <td>${stateBadge(state)}${more !== undefined && html`
        <span class="dim">${more}</span>
      `}</td>
      <td>${time(receivedAt, "short")}</td>
      <td class="wrap">${record && shown(record.source, 60)}${record && placeOf(record) && html`
        <span class="dim">${placeOf(record)}</span>
      `}${record && !hidesPayloads && senderOf(record) && html`
        <span class="dim off">by ${senderOf(record)}</span>
      `}</td>
      <td class="mono dim id off">${shown(id, 90)}</td>
      <td class="num off">${record && number(record.attempt)}</td>
    </tr>
  `;
}

/** Shows the beginning of the error that keeps an event from being done; undefined without one. */
function lastError({ state, attempts }: EventRecord): Html | undefined {
  const error = state === "done" ? undefined : attempts.at(-1)?.error;
  if (error === undefined) return undefined;
  const [line = ""] = error.trimStart().split("\n", 1);
  return html`<span class="why dim">${shown(line, 80)}</span>`;
}

function nothing({ isCut }: DeliveryPage, query: DeliveryQuery): Html {
  if (isCut) return html`<p class="dim">Nothing found so far.</p>`;
  return html`<div class="empty"><h2 class="first">${
    isFiltered(query) ? "Nothing matches" : "No delivery yet"
  }</h2>${
    isFiltered(query)
      ? html`<p>No stored delivery has all of these. Done ones are forgotten after the retention.
<a href="deliveries">Show all</a></p>`
      : html`<p>Set the address of this app's webhook and its secret at the sender, then cause an event there.</p>`
  }</div>`;
}

function more(page: DeliveryPage, query: DeliveryQuery, cursor: string | undefined): Html {
  const { cursor: next, isCut, searchedTo, isSorted } = page;
  return html`<p class="more">${
    cursor !== undefined && html`<a href="${link("deliveries", { ...query })}">Newest</a>`
  }${
    searchedTo !== undefined && html`<span>Searched back to ${time(searchedTo, "short")}.</span>`
  }${!isSorted && html`<span>Too many are open to show the newest first.</span>`}${
    next !== undefined &&
    html`<a class="button" href="${link("deliveries", { ...query, cursor: next })}">${
      isCut
        ? (searchedTo === undefined ? "Search further" : "Search further back")
        : isSorted
        ? "Older"
        : "More"
    }</a>`
  }</p>`;
}
