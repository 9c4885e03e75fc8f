import type { EventRecord, StoredEvent } from "../events/mod.ts";
import { actsPage, progressPage } from "./_act_pages.ts";
import type { ConsoleData, DeliveryDetails, DeliveryQuery } from "./_console_data.ts";
import { deliveriesPage } from "./_deliveries_page.ts";
import { deliveryPage } from "./_delivery_page.ts";
import { aboutOf } from "./_event_names.ts";
import { type Html, link } from "./_format.ts";
import { payloadResponse, redirect } from "./_http.ts";
import type { Page } from "./_layout.ts";
import { overviewPage } from "./_overview_page.ts";
import { ParameterError, periodOf, queryOf, text } from "./_query.ts";
import { type Answering, Refusal, type Visit } from "./_visit.ts";

/** Makes the answers of the pages that readers look at, by their names. They change nothing. */
export function lookAnswers(data: ConsoleData): Readonly<Record<string, Answering>> {
  return {
    "": (visit) => overview(data, visit),
    deliveries: (visit) => deliveries(data, visit),
    delivery: (visit) => delivery(data, visit),
    payload: (visit) => payload(data, visit),
    acts: (visit) => acts(data, visit),
    progress: (visit) => progress(data, visit),
  };
}

async function overview(data: ConsoleData, { parameters, context }: Visit): Promise<Page> {
  const period = periodOf(parameters);
  const overview = await data.overview(period);
  const body = overviewPage(overview, period, context);
  return { title: "Overview", at: "", body, isLive: true };
}

async function deliveries(data: ConsoleData, { parameters, context }: Visit): Promise<Page> {
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
    if (isWrong && cursor !== undefined) {
      throw new ParameterError("'cursor' is none of this list");
    }
    throw error;
  }
}

/**
 * Reads a delivery.
 *
 * @throws {Refusal} If there is none of this id.
 */
export async function found(data: ConsoleData, id: string | undefined): Promise<DeliveryDetails> {
  const details = id === undefined ? null : await data.details(id);
  if (details) return details;
  throw noSuchEvent();
}

const noSuchEvent = () =>
  new Refusal(
    404,
    "No such event",
    "No event with this id is stored. Ids begin with the platform's name, as in github:72d3162e-…. " +
      "Done ones are forgotten after the retention.",
  );

/**
 * Finds the id of the event that a text means: an id with blanks around it, or a delivery id, as the platforms' pages
 * show it.
 *
 * @returns The id; undefined if there is no such event.
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

async function delivery(data: ConsoleData, visit: Visit): Promise<Page | Response> {
  const { parameters, context, isPoll } = visit;
  const id = text(parameters, "id");
  const details = id === undefined ? null : await data.details(id);
  // The page of an event that is gone does not turn into that of another one.
  const meant = details || isPoll || id === undefined ? undefined : await meantBy(data, id);
  if (meant !== undefined) return redirect(link("delivery", { id: meant }));
  if (!details) throw noSuchEvent();
  const { event } = details;
  const body = deliveryPage(details, await payloadFor(data, event, visit), context);
  const title = event.state === "unreadable" ? "Delivery" : aboutOf(event as EventRecord);
  return { title, at: "deliveries", body, isLive: event.state !== "unreadable" };
}

/**
 * Reads the payload that a page shows: null if it is not kept, undefined if the page refreshes and keeps the one that
 * it has.
 */
async function payloadFor(
  data: ConsoleData,
  event: StoredEvent,
  { context, isPoll }: Visit,
): Promise<Uint8Array | null | undefined> {
  if (isPoll && event.state !== "done") return undefined;
  if (context.hidesPayloads || event.state === "unreadable") return null;
  const payload = await data.payload(event as EventRecord);
  return isPoll && payload ? undefined : payload;
}

async function payload(data: ConsoleData, { parameters, context }: Visit): Promise<Response> {
  const { event } = await found(data, text(parameters, "id"));
  if (context.hidesPayloads) throw new Refusal(403, "Hidden", "Payloads are not shown here.");
  const payload = event.state === "unreadable" ? null : await data.payload(event as EventRecord);
  if (payload) return payloadResponse(payload);
  throw new Refusal(404, "Not kept", "The payload of this event is not kept.");
}

async function acts(data: ConsoleData, { parameters }: Visit): Promise<Page> {
  const cursor = text(parameters, "cursor");
  const page = await listActs(data, cursor);
  const body = actsPage(page, cursor);
  return { title: "Acts", at: "acts", body, isLive: cursor === undefined };
}

async function listActs(data: ConsoleData, cursor: string | undefined) {
  try {
    return await data.acts(cursor);
  } catch (error) {
    if (!(error instanceof TypeError) || cursor === undefined) throw error;
    throw new ParameterError("'cursor' is none of this list");
  }
}

async function progress(
  data: ConsoleData,
  { parameters, session }: Visit,
): Promise<Page> {
  const id = text(parameters, "id");
  const act = id === undefined ? null : await data.getAct(id);
  if (!act) throw new Refusal(404, "No such act", "No act with this id is kept.");
  const of = parameters.get("of") ?? "";
  const canStop = session.role === "operator";
  const body: Html = progressPage(act, {
    of: /^\d{1,9}$/.test(of) ? Number(of) : undefined,
    canStop,
  });
  return { title: "Act", at: "acts", body, isLive: act.state === "running" };
}
