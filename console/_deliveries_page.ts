import { html, raw } from "@hono/hono/html";
import { STORED_STATES, type StoredEvent } from "../events/store/event_record.ts";
import type { BoundedCount } from "../events/store/mod.ts";
import type { ConsoleData } from "./_console_data.ts";
import { type DeliveryRow, rowOf } from "./_delivery_rows.ts";
import { MAX_EXPORTED } from "./_export.ts";
import { type Html, link, number, shown, stateBadge, stateName, time, when } from "./_format.ts";
import { ParameterError, redirect } from "./_http.ts";
import {
  a,
  actLinks,
  beside,
  dim,
  isOperator,
  type Page,
  type PageContext,
  table,
  tag,
  td,
  type Visit,
} from "./_layout.ts";
import {
  type DeliveryQuery,
  kindsFor,
  MAX_LENGTHS,
  queryOf,
  text,
  timeOf,
  word,
} from "./_query.ts";
import type { DeliveryPage } from "./_search.ts";
import { readAnswers } from "./_waits.ts";

/** Latest time of a filter: in UTC its year has four digits, whatever the reader's zone. */
const LAST_TIME = "9999-12-30T23:59";

/** Page of deliveries, as plain data. */
export interface Deliveries extends Omit<DeliveryPage, "events"> {
  /** Choice, as it was asked for or, if only that finds anything, without blanks around the ordering key. */
  readonly query: DeliveryQuery;
  /** Deliveries that were found. */
  readonly rows: readonly DeliveryRow[];
  /** Time of receipt of the first one on a first page that is sorted: what comes later is counted, and not shown. */
  readonly top?: number | undefined;
  /** Number of those that have come since a page with this top; undefined if that was not asked, or is not known. */
  readonly newer?: BoundedCount | undefined;
}

/**
 * Reads a page of deliveries.
 *
 * @param data The data.
 * @param parameters The choice, `cursor` of the page before, `far` to search further, and `top` of the page that is refreshed.
 * @param hidesPayloads True if descriptions, senders and errors are hidden.
 * @returns The page.
 * @throws {ParameterError} If a parameter has a wrong value.
 */
export async function readDeliveries(
  data: ConsoleData,
  parameters: URLSearchParams,
  hidesPayloads: boolean,
): Promise<Deliveries> {
  const cursor = text(parameters, "cursor");
  const asked = queryOf(parameters);
  const shownTop = cursor === undefined ? timeOf(parameters, "top") : undefined;
  const isFar = word(parameters, "far", ["1"]) === "1";
  const before = shownTop === undefined
    ? asked.before
    : Math.min(asked.before ?? Infinity, shownTop + 1);
  const { query, page } = await listed(data, { ...asked, before }, cursor, isFar);
  const { events, ...rest } = page;
  const now = Date.now();
  const answers = await readAnswers(data.store, events);
  const rows = events.map((event) => rowOf(event, hidesPayloads, now, answers.has(event.id)));
  const choice = { ...query, before: asked.before };
  const top = cursor === undefined && rest.isSorted ? shownTop ?? topOf(events) : undefined;
  const newer = shownTop === undefined ? undefined : await data.newer(choice, shownTop);
  return { query: choice, rows, ...rest, top, newer };
}

/** Finds the latest time of receipt on a page: an event that was found by its id may come before newer ones. */
const topOf = (events: readonly StoredEvent[]): number | undefined =>
  events.length === 0 ? undefined : Math.max(...events.map(({ receivedAt }) => receivedAt));

/** Answers with a page of deliveries, or leads to the only one that has the id that is looked for. */
export async function deliveries(visit: Visit): Promise<Page | Response> {
  const { data, parameters, context, isPoll } = visit;
  const cursor = text(parameters, "cursor");
  const found = await readDeliveries(data, parameters, context.hidesPayloads);
  const meant = isPoll || cursor !== undefined ? undefined : meantBy(found);
  if (meant !== undefined) return redirect(link("delivery", { id: meant }));
  const body = deliveriesPage(found, cursor, context);
  const isLive = cursor === undefined;
  return { title: "Deliveries", at: "deliveries", body, isLive, isPrivate: true };
}

/** Finds the id of the only delivery that has the id, or the delivery id, that is looked for; undefined for none. */
function meantBy({ query, rows }: Deliveries): string | undefined {
  const { q, name, ...others } = query;
  const wanted = (q ?? name)?.trim();
  if (wanted === undefined || isFiltered(others)) return undefined;
  const [first, ...more] = rows.filter(({ id, deliveryId }) =>
    id === wanted || deliveryId === wanted
  );
  return more.length === 0 ? first?.id : undefined;
}

/** Finds deliveries: if none has an ordering key with blanks around it, those with the key without them. */
async function listed(
  data: ConsoleData,
  query: DeliveryQuery,
  cursor: string | undefined,
  isFar: boolean,
) {
  const page = await search(data, query, cursor, isFar);
  const trimmed = { ...query, group: query.group?.trim() };
  const isFound = page.events.length > 0 || cursor !== undefined;
  if (isFound || trimmed.group === query.group) return { query, page };
  const other = await search(data, trimmed, cursor, isFar);
  return other.events.length > 0 ? { query: trimmed, page: other } : { query, page };
}

async function search(
  data: ConsoleData,
  query: DeliveryQuery,
  cursor: string | undefined,
  isFar: boolean,
) {
  try {
    return await data.search(query, cursor, isFar);
  } catch (error) {
    const isWrong = error instanceof TypeError || error instanceof RangeError;
    if (isWrong && cursor !== undefined) throw new ParameterError("'cursor' is none of this list");
    throw error;
  }
}

function deliveriesPage(
  page: Deliveries,
  cursor: string | undefined,
  context: PageContext,
): Html {
  const { rows, query } = page;
  const canAct = isOperator(context) && rows.length > 0;
  const kinds = kindsFor(query.state);
  // Errors are long, and what is looked for where there are any: they have the wide column then.
  const withErrors = rows.some(({ error }) => error !== undefined);
  const columns = {
    ...{ event: "", state: "", received: "", about: "" },
    ...withErrors && { error: "" },
    ...{ id: "id", attempts: "num" },
  };
  const now = Date.now();
  const cells = rows.map((row) => cellsOf(row, withErrors, now));
  const found = rows.length > 0
    ? table("Deliveries", columns, cells, { style: "list" })
    : nothing(page);
  const acting = canAct && kinds.length > 0 &&
    tag("div.more", tag("span", "All that match:"), actLinks(kinds, query));
  const advice = canAct && query.state === undefined &&
    tag("p.dim", "To act on all that match, choose a state.");
  const file = rows.length > 0 && tag(
    "p.more",
    tag("span", `Download the first ${number(MAX_EXPORTED)}:`),
    a(link("export", { format: "jsonl", ...query }), "JSON lines"),
    a(link("export", { format: "csv", ...query }), "CSV"),
  );
  const list = [
    cursor === undefined && fresh(page),
    found,
    more(page, cursor),
    acting,
    advice,
    file,
  ];
  const pace = cursor === undefined && html`data-live="often"`;
  const poll = page.top !== undefined &&
    html`
      data-poll="${link("deliveries", { ...query, top: page.top })}"
    `;
  return html`
    <a class="skip" href="#list">Skip to the list</a>${tag(
      "div.head",
      tag("h1", "Deliveries"),
      searchForm(query, context),
    )}${chips(query)}${filterForm(query)}<div id="list"
      tabindex="-1" ${pace}${poll}>${list}</div>
  `;
}

/** Says how many have come since the page was opened. The line is always there, so that nothing moves. */
function fresh({ newer, isSorted, query }: Deliveries): Html {
  if (!isSorted) return tag("p.row.fresh", dim("Too many are open to show the newest first."));
  const { count = 0, isMore = false } = newer ?? {};
  if (count === 0) return tag("p.row.fresh", dim("The newest first."));
  const text = `${number(count)}${isMore ? "+" : ""} new`;
  return tag("p.row.fresh", a(link("deliveries", query), text, "button"));
}

/** Makes the field that looks for a text, beside all else that is chosen. */
function searchForm(query: DeliveryQuery, { hidesPayloads }: PageContext): Html {
  const name = hidesPayloads ? "name" : "q";
  const { [name]: value = "", ...others } = query;
  const what = hidesPayloads ? "Id, repository or chat" : "Id, repository, chat or any text";
  return html`<form class="row" action="deliveries" role="search" autocomplete="off">${kept(others)}
<input type="search" name="${name}" aria-label="${what}" value="${value}" maxlength="${
    MAX_LENGTHS[name]
  }" placeholder="${what}"><button>Search</button></form>`;
}

/** Keeps a choice in a form. */
const kept = (query: DeliveryQuery): Html[] =>
  Object.entries(query).filter(([, value]) => value !== undefined).map(([name, value]) =>
    html`<input type="hidden" name="${name}" value="${String(value)}">`
  );

const LABELS: Readonly<Record<keyof DeliveryQuery, string>> = {
  ...{ q: "text", name: "name", state: "state", type: "type", source: "source" },
  ...{ place: "in", group: "ordering key", problem: "problem", from: "from", before: "before" },
};

/** Shows what is chosen, each with a link to the choice without it. */
function chips(query: DeliveryQuery): Html | false {
  const names = (Object.keys(LABELS) as (keyof DeliveryQuery)[])
    .filter((name) => query[name] !== undefined);
  if (names.length === 0) return false;
  const chip = (name: keyof DeliveryQuery) => {
    const value = query[name]!;
    const text = typeof value === "number"
      ? time(value, "short")
      : name === "state"
      ? stateName(query.state!)
      : shown(value, 60);
    const rest = link("deliveries", { ...query, [name]: undefined });
    return html`
      <a class="badge" href="${rest}"
        title="Remove">${LABELS[name]} <b>${text}</b> <span aria-hidden="true">×</span></a>
    `;
  };
  const all = names.length > 1 && a("deliveries", "Clear all");
  return tag("p.row", names.map(chip), all);
}

const isFiltered = (query: DeliveryQuery): boolean =>
  Object.values(query).some((each) => each !== undefined);

/** Makes the form of the filter, which phones fold: what is chosen stands above it. */
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
    <details class="filters">
      <summary>Filter</summary>
      <form class="filter" autocomplete="off" action="deliveries">${fields}<div class="row">
    <button class="go">Filter</button></div>${kept({ q: query.q, name: query.name })}</form>
    </details>
  `;
}

/** Most characters of an error in a list. */
const MAX_ERROR = 200;

function cellsOf(row: DeliveryRow, withErrors: boolean, now: number): Html[] {
  const { id, state, receivedAt, type, action, outcome, waits, description, attempts, error } = row;
  const isOdd = outcome === "ignored" || outcome === "cancelled";
  const name = type === undefined
    ? "of another version"
    : shown(action === undefined ? type : `${type}.${action}`, 120);
  return [
    td(a(link("delivery", { id }), name)),
    td([stateBadge(state), beside(isOdd ? outcome : waits)]),
    td(when(receivedAt, now)),
    td([
      description !== undefined && tag("div", shown(description)),
      originOf(row),
    ], "wrap"),
    ...withErrors ? [td(error !== undefined && firstLine(error), "wrap")] : [],
    td(shown(id, 90), "mono dim id off"),
    td(attempts !== undefined && attempts > 0 && number(attempts), "num off"),
  ];
}

/** Says where a delivery comes from, and who caused it. */
function originOf({ source, repository, chat, sender, description }: DeliveryRow): Html {
  const place = repository !== undefined
    ? shown(repository, 150)
    : chat !== undefined && `chat ${chat}`;
  const who = sender &&
    `by ${shown(sender.name ?? String(sender.id))}${sender.isBot ? " (bot)" : ""}`;
  const first = source !== undefined && shown(source, 60);
  const style = description === undefined ? "div" : "div.why.dim";
  return tag(style, first, beside(place), who && [" ", tag("span.dim.off", who)]);
}

const firstLine = (error: string): string =>
  shown(error.trimStart().split("\n", 1)[0] ?? "", MAX_ERROR);

function nothing({ isCut, query }: Deliveries): Html {
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

function more(page: Deliveries, cursor: string | undefined): Html {
  const { cursor: next, isCut, searchedTo, isSorted, query } = page;
  const further = searchedTo === undefined ? "Search further" : "Search further back";
  const text = isCut ? further : isSorted ? "Older" : "More";
  const far = isCut ? "1" : undefined;
  return tag(
    "p.more",
    cursor !== undefined && a(link("deliveries", query), "Newest"),
    searchedTo !== undefined && tag("span", "Searched back to ", when(searchedTo), "."),
    cursor !== undefined && !isSorted &&
      tag("span", "Too many are open to show the newest first."),
    next !== undefined && a(link("deliveries", { ...query, cursor: next, far }), text, "button"),
  );
}
