import { html, raw } from "@hono/hono/html";
import { type EventRecord, STORED_STATES, type StoredEvent } from "../events/store/event_record.ts";
import type { ConsoleData } from "./_console_data.ts";
import {
  type Html,
  link,
  nameOf,
  number,
  placeOf,
  recordOf,
  senderOf,
  shown,
  stateBadge,
  stateName,
  time,
  waitOf,
} from "./_format.ts";
import { ParameterError } from "./_http.ts";
import {
  a,
  actLinks,
  beside,
  isOperator,
  live,
  type Page,
  type PageContext,
  table,
  tag,
  td,
  type Visit,
} from "./_layout.ts";
import { type DeliveryQuery, kindsFor, MAX_LENGTHS, queryOf, text } from "./_query.ts";
import type { DeliveryPage } from "./_search.ts";

/** Latest time of a filter: in UTC its year has four digits, whatever the reader's zone. */
const LAST_TIME = "9999-12-30T23:59";

/** Answers with a page of deliveries. */
export async function deliveries({ data, parameters, context }: Visit): Promise<Page> {
  const cursor = text(parameters, "cursor");
  const { query, page } = await listed(data, queryOf(parameters), cursor);
  const body = deliveriesPage(page, query, cursor, context);
  return { title: "Deliveries", at: "deliveries", body, isLive: cursor === undefined };
}

/** Finds deliveries: if none has an ordering key with blanks around it, those with the key without them. */
async function listed(data: ConsoleData, query: DeliveryQuery, cursor: string | undefined) {
  const page = await search(data, query, cursor);
  const trimmed = { ...query, group: query.group?.trim() };
  const isFound = page.events.length > 0 || cursor !== undefined;
  if (isFound || trimmed.group === query.group) return { query, page };
  const other = await search(data, trimmed, cursor);
  return other.events.length > 0 ? { query: trimmed, page: other } : { query, page };
}

async function search(data: ConsoleData, query: DeliveryQuery, cursor: string | undefined) {
  try {
    return await data.search(query, cursor);
  } catch (error) {
    const isWrong = error instanceof TypeError || error instanceof RangeError;
    if (isWrong && cursor !== undefined) throw new ParameterError("'cursor' is none of this list");
    throw error;
  }
}

function deliveriesPage(
  page: DeliveryPage,
  query: DeliveryQuery,
  cursor: string | undefined,
  context: PageContext,
): Html {
  const { events } = page;
  const canAct = isOperator(context) && events.length > 0;
  const kinds = kindsFor(query.state);
  const columns = { event: "", state: "", received: "", from: "", id: "id", attempts: "num" };
  const rows = events.map((event) => cellsOf(event, context));
  const found = events.length > 0
    ? table("Deliveries", columns, rows, { style: "list" })
    : nothing(page, query);
  const acting = canAct && kinds.length > 0 &&
    tag("div.more", tag("span", "All that match:"), actLinks(kinds, query));
  const advice = canAct && query.state === undefined &&
    tag("p.dim", "To act on all that match, choose a state.");
  const open = html`<form class="row" action="delivery" role="search">
<input name="id" aria-label="Id of an event" required maxlength="${MAX_LENGTHS.id}" placeholder="Id: github:72d3162e-…">
<button>Open</button></form>`;
  const pace = cursor === undefined ? "often" : undefined;
  const list = live(pace, found, more(page, query, cursor), acting, advice);
  return html`${tag("div.head", tag("h1", "Deliveries"), open)}${filterForm(query)}${list}`;
}

const isFiltered = (query: DeliveryQuery): boolean =>
  Object.values(query).some((each) => each !== undefined);

/** Makes the form of the filter, which phones fold unless it is in use. */
function filterForm(query: DeliveryQuery): Html {
  const field = (name: "type" | "source" | "place" | "group", label: string) =>
    html`<label>${label}<input name="${name}" value="${query[name] ?? ""}" maxlength="${
      MAX_LENGTHS[name]
    }"></label>`;
  const timeField = (name: "from" | "before", label: string) => {
    const at = query[name];
    const value = at === undefined ? "" : new Date(at).toISOString().slice(0, 16);
    return html`<label>${label} <span data-zone>(UTC)</span><input type="datetime-local" name="${name}" value="${value}" max="${LAST_TIME}" data-utc></label>`;
  };
  const options = STORED_STATES.map((state) =>
    html`
      <option value="${state}" ${raw(state === query.state ? " selected" : "")}>${stateName(
        state,
      )}</option>
    `
  );
  const fields = [
    html`<label>State<select name="state"><option value="">any</option>${options}</select></label>`,
    query.problem !== undefined &&
    html`<label>Problem<input name="problem" value="${query.problem}" maxlength="40"></label>`,
    ...[field("type", "Type"), field("source", "Source"), field("place", "Repository or chat")],
    ...[
      field("group", "Ordering key"),
      timeField("from", "Received from"),
      timeField("before", "Before"),
    ],
  ];
  return html`
    <details class="filters" ${raw(isFiltered(query) ? " open" : "")}>
      <summary>Filter</summary>
      <form class="filter" autocomplete="off" action="deliveries">${fields}<div class="row">
    <button class="go">Filter</button><a href="deliveries">Clear</a></div></form>
    </details>
  `;
}

function cellsOf(event: StoredEvent, { hidesPayloads }: PageContext): Html[] {
  const { id, receivedAt, state } = event;
  const record = recordOf(event);
  const isOdd = record?.outcome === "ignored" || record?.outcome === "cancelled";
  const more = isOdd ? record.outcome : record && waitOf(record, Date.now());
  const place = record && placeOf(record);
  const sender = record && !hidesPayloads && senderOf(record);
  const why = record && !hidesPayloads && lastError(record);
  const name = record ? nameOf(record) : "of another version";
  return [
    td([a(link("delivery", { id }), name), why]),
    td([stateBadge(state), beside(more)]),
    td(time(receivedAt, "short")),
    td([
      record && shown(record.source, 60),
      beside(place),
      sender && [" ", tag("span.dim.off", `by ${sender}`)],
    ], "wrap"),
    td(shown(id, 90), "mono dim id off"),
    td(record && number(record.attempt), "num off"),
  ];
}

/** Shows the beginning of the error that keeps an event from being done; undefined without one. */
function lastError({ state, attempts }: EventRecord): Html | undefined {
  const error = state === "done" ? undefined : attempts.at(-1)?.error;
  if (error === undefined) return undefined;
  const [line = ""] = error.trimStart().split("\n", 1);
  return tag("span.why.dim", shown(line, 80));
}

function nothing({ isCut }: DeliveryPage, query: DeliveryQuery): Html {
  if (isCut) return tag("p.dim", "Nothing found so far.");
  const [title, text] = isFiltered(query)
    ? [
      "Nothing matches",
      "No stored delivery has all of these. Done ones are forgotten after the retention. ",
    ]
    : [
      "No delivery yet",
      "Set the address of this app's webhook and its secret at the sender, then cause an event there.",
    ];
  const all = isFiltered(query) && a("deliveries", "Show all");
  return tag("div.empty", tag("h2.first", title), tag("p", text, all));
}

function more(page: DeliveryPage, query: DeliveryQuery, cursor: string | undefined): Html {
  const { cursor: next, isCut, searchedTo, isSorted } = page;
  const further = searchedTo === undefined ? "Search further" : "Search further back";
  const text = isCut ? further : isSorted ? "Older" : "More";
  return tag(
    "p.more",
    cursor !== undefined && a(link("deliveries", query), "Newest"),
    searchedTo !== undefined && tag("span", "Searched back to ", time(searchedTo, "short"), "."),
    !isSorted && tag("span", "Too many are open to show the newest first."),
    next !== undefined && a(link("deliveries", { ...query, cursor: next }), text, "button"),
  );
}
