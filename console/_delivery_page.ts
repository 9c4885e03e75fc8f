import { html, raw } from "@hono/hono/html";
import type { EventRecord, ListedStep, StoredEvent } from "../events/mod.ts";
import type { ConsoleData } from "./_console_data.ts";
import {
  aboutOf,
  countText,
  dated,
  type Html,
  link,
  nameOf,
  number,
  placeOf,
  recordOf,
  senderOf,
  shown,
  stateBadge,
} from "./_format.ts";
import { hasFixture } from "./_fixture.ts";
import { found, noSuchEvent } from "./_found.ts";
import { downloadResponse, PLAIN, PRIVATE, redirect, Refusal } from "./_http.ts";
import { viewOf } from "./_json_view.ts";
import {
  a,
  actLinks,
  beside,
  type Content,
  dim,
  facts,
  isOperator,
  KIND_NAMES,
  live,
  type Page,
  type PageContext,
  tag,
  type Visit,
} from "./_layout.ts";
import { kindsFor, text } from "./_query.ts";
import { canRepeat } from "./_repeat_page.ts";
import { readRunningOne, type RunningEvent } from "./_running_page.ts";
import type { DeliveryDetails } from "./_search.ts";
import { placesOf, type Strip } from "./_strip.ts";
import { timeline, timelineOf } from "./_timeline.ts";
import { type Awaited, awaitedBy, endOf } from "./_waits.ts";

/** Most names of parts and of other events that are shown. */
const MAX_NAMES = 50;

/** Delivery with what surrounds it, the attempt that runs, and the places that a due one waits for. */
export interface Delivery extends DeliveryDetails {
  /** The attempt: undefined if none runs. */
  readonly running?: RunningEvent | undefined;
  /** Number of places of the processes that are busy, and of all: undefined unless it is due. */
  readonly places?: Strip["places"] | undefined;
}

/** Answers with the page of a delivery. */
export async function delivery(visit: Visit): Promise<Page | Response> {
  const { data, parameters, context, isPoll } = visit;
  const id = text(parameters, "id");
  const details = id === undefined ? null : await data.details(id);
  // The page of an event that is gone must not become the page of another one.
  const meant = details || isPoll || id === undefined ? undefined : await meantBy(data, id);
  if (meant !== undefined) return redirect(link("delivery", { id: meant }));
  if (!details) throw noSuchEvent();
  const { event } = details;
  const record = recordOf(event);
  const body = record
    ? deliveryPage(
      record,
      await withRunning(data, details),
      await payloadFor(record, visit),
      context,
    )
    : unreadable(event, context);
  const title = record ? aboutOf(record) : "Delivery";
  return { title, at: "deliveries", body, isLive: record !== undefined, isPrivate: true };
}

/**
 * Reads a delivery, by its id or by the id that its sender's pages show.
 *
 * @throws {Refusal} If there is none, or several have that id.
 */
export async function readDelivery(
  data: ConsoleData,
  parameters: URLSearchParams,
): Promise<Delivery> {
  const id = text(parameters, "id");
  const isId = id === undefined || await data.details(id) !== null;
  return await withRunning(data, await found(data, isId ? id : await meantBy(data, id)));
}

const withRunning = async (data: ConsoleData, details: DeliveryDetails): Promise<Delivery> => ({
  ...details,
  running: await readRunningOne(data, details.event),
  places: await placesFor(data, details.event),
});

async function placesFor(
  data: ConsoleData,
  event: StoredEvent,
): Promise<Strip["places"] | undefined> {
  const record = recordOf(event);
  if (record?.state !== "queued" || (record.dueAt ?? Infinity) > Date.now()) return undefined;
  const health = await data.health();
  return health ? placesOf(health) : undefined;
}

/** Answers with the bytes of a payload. */
export async function payload({ data, parameters, context }: Visit): Promise<Response> {
  const record = recordOf((await found(data, text(parameters, "id"))).event);
  if (context.hidesPayloads) throw new Refusal(403, "Hidden", "Payloads are not shown here.");
  const payload = record && await data.payload(record);
  if (payload) {
    return downloadResponse(payload, PLAIN, "payload.json", { "Cache-Control": PRIVATE });
  }
  throw new Refusal(404, "Not kept", "The payload of this event is not kept.");
}

/**
 * Finds the id of the event that a text means: an id with blanks around it, or a delivery id, as the platforms' pages
 * show it.
 *
 * @returns The id; undefined if the event does not exist.
 * @throws {Refusal} If several events have the delivery id.
 */
async function meantBy(data: ConsoleData, text: string): Promise<string | undefined> {
  const id = text.trim();
  if (id.includes(":")) return await data.details(id) ? id : undefined;
  const found = await data.withDeliveryId(id);
  if (found.length < 2) return found[0];
  throw new Refusal(
    409,
    "Several events",
    "Several events have this delivery id. Put the name of the platform before it, as in github:72d3162e-….",
  );
}

/**
 * Reads the payload that a page shows: null if it is not kept, undefined if the page refreshes and keeps the one that
 * it has.
 */
async function payloadFor(
  record: EventRecord,
  { data, context, isPoll }: Visit,
): Promise<Uint8Array | null | undefined> {
  if (isPoll && record.state !== "done") return undefined;
  if (context.hidesPayloads) return null;
  const payload = await data.payload(record);
  return isPoll && payload ? undefined : payload;
}

/** Makes the page of a delivery; without its payload if that is undefined, and null if it is not kept. */
function deliveryPage(
  record: EventRecord,
  details: Delivery,
  payload: Uint8Array | null | undefined,
  context: PageContext,
): Html {
  const { state, outcome } = record;
  const { steps, first, hung, running, answer, places } = details;
  const ended = state === "done" || state === "dead";
  const isCancelled = record.cancelRequestedAt !== undefined && !ended;
  const isGone = state === "done" && payload === null && !context.hidesPayloads;
  const head = headOf(
    nameOf(record),
    state,
    beside(outcome ?? (isCancelled ? "cancelled" : answer && "answered")),
    !isCancelled && actions(record, context, { isGone, isAnswered: answer !== undefined }),
  );
  const { hidesPayloads } = context;
  const parts = { steps, first, hung, running, answer, places, hidesPayloads };
  const columns = [
    tag(
      "section",
      tag("h2.first", "Timeline"),
      timeline(timelineOf({ ...parts, record, now: Date.now() })),
      // Their results are deleted once it is done.
      steps.length > 0 && state !== "done" && [
        tag("h2", "Steps"),
        stepsOf(record, steps, context),
      ],
      familyOf(record, details),
    ),
    tag("section", tag("h2.first", "Facts"), facts(factsOf(record, details, context))),
  ];
  const shown = payload !== undefined &&
    html`<section data-payload><h2>Payload</h2>${payloadOf(record, payload, context)}</section>`;
  return html`${live(ended ? "rest" : "often", head, tag("div.cols", columns))}${shown}`;
}

function unreadable(event: StoredEvent, context: PageContext): Html {
  const { id, state, receivedAt } = event;
  const head = headOf("Event of another version", state, actions(event, context));
  const why =
    "This version cannot read its record: a newer one wrote it, or it is damaged. It is left as it is " +
    "until a version that can read it comes, or somebody purges it.";
  const known = facts([["id", shown(id, 1_000), ".mono"], ["received", dated(receivedAt)]]);
  return html`${head}${tag("div.note", tag("p", why))}${known}`;
}

const headOf = (name: string, state: StoredEvent["state"], ...more: readonly Content[]): Html =>
  tag("div.head", tag("h1", name), stateBadge(state), ...more);

/**
 * Shows the acts that an operator can do. An event whose payload is gone cannot be replayed, and one whose answer is there
 * cannot be answered.
 */
function actions(
  event: StoredEvent,
  context: PageContext,
  { isGone = false, isAnswered = false } = {},
): Html | undefined {
  const { id, state } = event;
  const kinds = kindsFor(state).filter((kind) => kind !== "replay" || !isGone);
  const wait = isAnswered ? undefined : recordOf(event)?.waitingFor;
  return isOperator(context)
    ? tag("div.row", wait && wakeLink(id, awaitedBy(wait.name)), actLinks(kinds, { id }))
    : undefined;
}

/** Links to the form that ends the wait of a parked event. */
export const wakeLink = (id: string, waitsFor: Awaited): Html =>
  a(link("wake", { id }), `${KIND_NAMES[endOf(waitsFor)]}…`, "button");

/** Shows what an event came of and what came of it, as a tree; undefined if it stands alone. */
function familyOf(
  record: EventRecord,
  { ancestors, emitted, related }: DeliveryDetails,
): Content {
  if (ancestors.length === 0 && emitted.length === 0) return undefined;
  const children = emitted.map((id) => tag("li", memberOf(id, related.get(id))));
  const itself = tag(
    "li",
    tag("b", aboutOf(record)),
    " ",
    stateBadge(record.state),
    children.length > 0 && tag("ul", children),
  );
  const tree = ancestors.reduceRight(
    (below, { id }) => tag("li", memberOf(id, related.get(id)), tag("ul", below)),
    itself,
  );
  return [tag("h2", "Caused by, and emitted"), tag("ul.tree", tree)];
}

/** Names an event of the tree; one that is not stored any more by its id alone. */
const memberOf = (id: string, record: EventRecord | undefined): Content =>
  record
    ? [aboutOf(record), " ", linkTo(id, shown(id, 120), "mono"), " ", stateBadge(record.state)]
    : [linkTo(id, shown(id, 120), "mono")];

/** Largest number of characters of a step's result that are shown. */
const MAX_RESULT = 2_000;

/** Makes an item of the timeline: its class, its title, what is beside the title, and what is below. */
const item = (style: string, title: string, aside?: Content, ...below: readonly Content[]): Html =>
  tag(`li.${style}`, tag("b", title), beside(aside), ...below);

/** Makes the first line below the title of an item. */
const line = (...content: readonly Content[]): Html => tag("div.dim", ...content);

/** Shows the steps of an event, in the order in which they were stored. Operators can repeat it from one. */
function stepsOf(record: EventRecord, steps: readonly ListedStep[], context: PageContext): Html {
  const { hidesPayloads } = context;
  const canAct = isOperator(context) && canRepeat(record);
  const repeatFrom = (step: string) =>
    canAct && tag("div", a(link("repeat", { id: record.id, step }), "Repeat from here…"));
  return tag(
    "ol.line",
    steps.map(({ name, at, isBegun, result }) => {
      const json = result === undefined ? undefined : JSON.stringify(result, null, 2);
      const shownResult = !hidesPayloads && json !== undefined &&
        tag("pre", shown(json, MAX_RESULT));
      const aside = isBegun && "begun, its end is not known";
      const below = [line(dated(at)), shownResult, repeatFrom(name)];
      return item(isBegun ? "dead" : "done", shown(name, 300), aside, ...below);
    }),
  );
}

const linkTo = (id: string, text: string, style?: string): Html =>
  a(link("delivery", { id }), text, style);

/** Says in which batch an event is handled, or was; undefined if in none, as far as is known by now. */
function batchOf(
  { batch, group, handledWith }: EventRecord,
  first: EventRecord | undefined,
): Content {
  if (batch) return `first of ${number(batch.events)} events`;
  const isIn = first?.batch && group && group.position <= first.batch.last;
  const id = handledWith ?? (isIn ? first.id : undefined);
  return id !== undefined && html`handled together with ${linkTo(id, "the first one")}`;
}

const mono = (text: string): Html => tag("span.mono", shown(text, 1_000));

function factsOf(
  record: EventRecord,
  { before, first, related }: DeliveryDetails,
  { hidesPayloads }: PageContext,
): [string, Content][] {
  const { id, state, intake, source, deliveryId, requestId, orderingKey } = record;
  const [, traceId] = record.traceparent?.split("-") ?? [];
  const names = first ? new Map([...related, [first.id, first]]) : related;
  const one = (id: string) => {
    const known = names.get(id);
    return [known && `${aboutOf(known)} `, linkTo(id, shown(id, 120), "mono")];
  };
  const group = orderingKey !== null && [
    a(link("deliveries", { group: orderingKey }), shown(orderingKey, 300), "mono"),
    before && [raw("<br>"), `${countText(before)} before it`],
    first && [", first ", one(first.id), " ", stateBadge(first.state)],
  ];
  return [
    ["about", !hidesPayloads && record.description !== undefined && shown(record.description)],
    ["id", mono(id)],
    [
      "source",
      intake && intake !== source ? `${shown(source)}, at ${shown(intake)}` : shown(source),
    ],
    [record.chat ? "chat" : "repository", placeOf(record)],
    ["sender", !hidesPayloads && senderOf(record)],
    ["delivery id", deliveryId !== undefined && mono(deliveryId)],
    ["request id", requestId !== null && mono(requestId)],
    ["trace id", traceId !== undefined && mono(traceId)],
    ["ordering key", group],
    ["attempts", record.attempt > 0 && number(record.attempt)],
    [
      "problem",
      record.problem !== undefined && state !== "done" &&
      a(link("problem", { id: record.problem }), "Others with the same error"),
    ],
    ["run", record.run !== undefined && `${number(record.run)}, put back after it was settled`],
    ["done handlers", doneHandlers(record, hidesPayloads)],
    ["batch", batchOf(record, first)],
    ["size", record.payload && `${number(record.payload.size)} bytes`],
  ];
}

function doneHandlers({ progress = [] }: EventRecord, hidesPayloads: boolean): Content {
  if (progress.length === 0 || hidesPayloads) return progress.length > 0 && number(progress.length);
  const more = progress.length - MAX_NAMES;
  const names = progress.slice(0, MAX_NAMES).map((each) => [mono(each), " "]);
  return [names, more > 0 && `and ${number(more)} more`];
}

/** Shows a payload: null if it is not kept. */
export function payloadOf(
  record: EventRecord,
  payload: Uint8Array | null,
  { hidesPayloads }: PageContext,
): Html {
  const { id, state } = record;
  if (hidesPayloads) return tag("p.dim", "Payloads are not shown here: the app hides them.");
  if (payload === null) {
    const why =
      ": it is deleted when its event is done. With the option keepPayloads it stays for a while";
    return tag("p.dim", `Not kept${state === "done" ? why : ""}.`);
  }
  const { content, isJson, limit } = viewOf(payload);
  const kind = isJson ? "" : ", not JSON";
  const cut = limit === undefined ? "" : `: this is the beginning, at most ${limit}`;
  const search = isJson && html`
    <span class="row"
      hidden><label for="find">Find${cut &&
        " in what is shown"}</label><input id="find" type="search" data-search size="24"><span class="dim" role="status"></span></span>
  `;
  const download = html`<a href="${link("payload", { id })}" download>Download</a>${
    hasFixture(record) &&
    html`
      <a href="${link("fixture", { id })}" download>Fixture for a test</a>
    `
  }`;
  const size = dim(`${number(payload.length)} bytes${kind}${cut}`);
  return html`${tag("div.row", download, " ", size, search)}${tag("div.json", content)}`;
}
