import { html } from "@hono/hono/html";
import type { EventRecord, StoredEvent } from "../events/mod.ts";
import type { DeliveryDetails } from "./_console_data.ts";
import { aboutOf, nameOf, placeOf, senderOf } from "./_event_names.ts";
import {
  countText,
  duration,
  type Html,
  link,
  number,
  shown,
  stateBadge,
  time,
} from "./_format.ts";
import { viewOf } from "./_json_view.ts";
import { KIND_NAMES, type PageContext } from "./_layout.ts";
import { kindsFor } from "./_query.ts";
import { waitOf } from "./_waiting.ts";

/** Most names of parts and of other events that are shown. */
const MAX_NAMES = 50;

/** Makes the body of the page of one delivery; without its payload if that is undefined, and null if it is not kept. */
export function deliveryPage(
  details: DeliveryDetails,
  payload: Uint8Array | null | undefined,
  context: PageContext,
  now: number = Date.now(),
): Html {
  const { event } = details;
  if (event.state === "unreadable") return unreadable(event, context);
  const record = event as EventRecord;
  const ended = record.state === "done" || record.state === "dead";
  return html`
    <div data-live="${ended ? "rest" : ""}">
      <div class="head"><h1>${nameOf(record)}</h1>${stateBadge(record.state)}${record.outcome &&
        html`<span class="dim">${record.outcome}</span>`}${actions(
          record,
          payload !== null || context.hidesPayloads,
          context,
        )}</div>
      <div class="cols">
        <section><h2 class="first">Timeline</h2>${timeline(record, context, now)}</section>
        <section>
          <h2 class="first">Facts</h2>
          <dl>${facts(record, details, context)}</dl>
        </section>
      </div>
    </div>
    ${payload !== undefined &&
      html`<section data-payload><h2>Payload</h2>${payloadOf(record, payload, context)}</section>`}
  `;
}

function unreadable({ id, receivedAt }: StoredEvent, context: PageContext): Html {
  return html`
    <div class="head"><h1>Event of another version</h1>${stateBadge("unreadable")}${buttons(
      "unreadable",
      id,
      context,
    )}</div>
    <div class="note">
      <p>This version cannot read its record: a newer one wrote it, or it is damaged. It is left
    as it is until a version that can read it comes, or somebody purges it.</p>
    </div>
    <dl>
      <dt>id</dt>
      <dd class="mono">${shown(id, 1_000)}</dd>
      <dt>received</dt>
      <dd>${time(receivedAt)}</dd>
    </dl>
  `;
}

function actions(record: EventRecord, isKept: boolean, context: PageContext): Html | undefined {
  return buttons(record.state, record.id, context, record.state === "done" && !isKept);
}

function buttons(
  state: StoredEvent["state"],
  id: string,
  { session }: PageContext,
  isGone = false,
): Html | undefined {
  if (session?.role !== "operator") return undefined;
  const kinds = kindsFor(state).filter((kind) => kind !== "replay" || !isGone);
  return html`<div class="row">${
    kinds.map((kind) =>
      html`<a class="button" href="${link("act", { kind, id })}">${KIND_NAMES[kind]}…</a>`
    )
  }</div>`;
}

function timeline(record: EventRecord, context: PageContext, now: number): Html {
  const { attempts, attempt, lease, waitingFor, putOff, settledAt, state } = record;
  const missing = attempt - (lease ? 1 : 0) - attempts.length;
  return html`
    <ol
      class="line">${state === "queued" && upcoming(record, now)}${waitingFor &&
        html`
          <li
            class="parked"><b>Waits to be woken</b> <div>${!context.hidesPayloads &&
              html`
                for <span class="mono">${shown(waitingFor.name)}</span>,
              `}until ${time(waitingFor.until)}</div></li>
        `}${lease &&
        html`
          <li
            class="running"><b>Attempt ${attempt} is running</b> <span class="dim">for ${duration(
              now - lease.startedAt,
            )}</span><div class="dim">since ${time(lease.startedAt)}; leased until ${time(
              lease.until,
            )} by ${shown(lease.owner, 60)}</div></li>
        `}${record.cancelRequestedAt !== undefined &&
        html`<li class="dead"><b>Cancelled</b>${
          record.batch && record.batch.events > 1 &&
          html`
            <span class="dim">with all ${number(record.batch.events)} of its batch</span>
          `
        }<div class="dim">${time(record.cancelRequestedAt)}</div></li>`}${settledAt !== null &&
        attempts.at(-1)?.endedAt !== settledAt &&
        html`<li class="${state}"><b>${state === "done" ? "Done" : "Dead"}</b><div class="dim">${
          time(settledAt)
        }${
          record.handledWith &&
          html`, with <a href="${
            link("delivery", { id: record.handledWith })
          }">the first of its batch</a>`
        }</div></li>`}${putOff && putOffItem(putOff, context)}${attempts.toReversed().map((each) =>
          attemptItem(each, context)
        )}${missing > 0 &&
        html`<li class="dim"><span class="dim">${
          number(missing)
        } earlier attempts are not kept</span></li>`}<li class="dim"><b>Received</b><div class="dim">${time(
          record.receivedAt,
        )}</div></li></ol>
  `;
}

function putOffItem(
  { at, times, reason }: NonNullable<EventRecord["putOff"]>,
  { hidesPayloads }: PageContext,
): Html {
  const often = times === 1 ? "Put off" : `Put off ${number(times)} times`;
  return html`
    <li
      class="queued"><b>${often}</b> <span class="dim">without counting</span><div class="dim">${time(
        at,
      )}</div>${!hidesPayloads && html`<pre>${shown(reason, 1_000)}</pre>`}</li>
  `;
}

function upcoming(record: EventRecord, now: number): Html {
  const { dueAt, attempt } = record;
  if (dueAt === null) {
    return html`<li class="queued"><b>Waits for the others of its ordering group</b></li>`;
  }
  const name = attempt === 0 ? "First attempt" : `Attempt ${attempt + 1}`;
  return html`
    <li
      class="queued"><b>${name}</b> <span class="dim">${waitOf(
        record,
        now,
      )}</span><div class="dim">${time(
        dueAt,
      )}</div></li>
  `;
}

function attemptItem(
  { attempt, startedAt, endedAt, outcome, error }: EventRecord["attempts"][number],
  { hidesPayloads }: PageContext,
): Html {
  const state = outcome === "handled" ? "done" : outcome === "ignored" ? "dim" : "dead";
  return html`
    <li
      class="${state}"><b>Attempt ${attempt} ${outcome === "expired"
        ? "never ended"
        : outcome}</b> <span class="dim">after ${duration(
          endedAt - startedAt,
        )}</span><div class="dim">${time(startedAt)}</div>${error !== undefined &&
        html`<pre>${hidesPayloads ? nameOfError(error) : shown(error, 2_000)}</pre>`}</li>
  `;
}

/** Says in which batch an event is handled, or was; undefined if in none, as far as is known by now. */
function batchOf(
  { batch, group, handledWith }: EventRecord,
  first: EventRecord | undefined,
): Html | string | undefined {
  if (batch) return `first of ${number(batch.events)} events`;
  const isIn = first?.batch && group && group.position <= first.batch.last;
  const id = handledWith ?? (isIn ? first.id : undefined);
  return id === undefined
    ? undefined
    : html`handled together with <a href="${link("delivery", { id })}">the first one</a>`;
}

/** Names the kind of an error, and nothing that a handler has put into it. */
const nameOfError = (error: string): string =>
  /^[A-Z]\w{0,60}(?:Error|Exception)(?=:|$)|^Error(?=:|$)/.exec(error)?.[0] ?? "Error";

function facts(
  record: EventRecord,
  { before, first, emitted, related }: DeliveryDetails,
  { hidesPayloads }: PageContext,
): Html[] {
  const { id, intake, source, deliveryId, requestId, orderingKey, progress } = record;
  const [, traceId] = record.traceparent?.split("-") ?? [];
  const place = placeOf(record);
  const names = first ? new Map([...related, [first.id, first]]) : related;
  const one = (id: string) =>
    html`${
      names.has(id) && html`
        ${aboutOf(names.get(id)!)}
      `
    }<a class="mono" href="${link("delivery", { id })}">${shown(id, 120)}</a>`;
  const events = (ids: readonly string[]) =>
    ids.slice(0, MAX_NAMES).map((each) => html`<div>${one(each)}</div>`);
  const mono = (text: string) => html`<span class="mono">${shown(text, 1_000)}</span>`;
  const list: readonly (readonly [string, unknown])[] = [
    ["id", mono(id)],
    [
      "source",
      intake && intake !== source ? `${shown(source)}, at ${shown(intake)}` : shown(source),
    ],
    [record.chat ? "chat" : "repository", place],
    [
      "sender",
      !hidesPayloads && senderOf(record),
    ],
    ["delivery id", deliveryId !== undefined && mono(deliveryId)],
    ["request id", requestId !== null && mono(requestId)],
    ["trace id", traceId !== undefined && mono(traceId)],
    [
      "ordering key",
      orderingKey !== null &&
      html`<a class="mono" href="${link("deliveries", { group: orderingKey })}">${
        shown(orderingKey, 300)
      }</a>${before && html`<br>${countText(before)} before it`}${
        first &&
        html`, first ${one(first.id)} ${stateBadge(first.state)}`
      }`,
    ],
    ["attempts", number(record.attempt)],
    ["run", record.run !== undefined && `${number(record.run)}, put back after it was settled`],
    [
      "done parts",
      progress && progress.length > 0 && hidesPayloads
        ? number(progress.length)
        : progress && progress.length > 0 && html`${
          progress.slice(0, MAX_NAMES).map((each) =>
            html`
              ${mono(each)}
            `
          )
        }${progress.length > MAX_NAMES && `and ${number(progress.length - MAX_NAMES)} more`}`,
    ],
    ["batch", batchOf(record, first)],
    ["caused by", record.causedBy !== undefined && events([record.causedBy])],
    ["emitted", emitted.length > 0 && events(emitted)],
    ["size", record.payload && `${number(record.payload.size)} bytes`],
  ];
  return list.filter(([, value]) => value !== undefined && value !== false && value !== null)
    .map(([name, value]) =>
      html`
        <dt>${name}</dt>
        <dd>${value as Html}</dd>
      `
    );
}

function payloadOf(
  { id, state }: EventRecord,
  payload: Uint8Array | null,
  { hidesPayloads }: PageContext,
): Html {
  if (hidesPayloads) {
    return html`<p class="dim">Payloads are not shown here: the app hides them.</p>`;
  }
  if (payload === null) {
    return html`<p class="dim">Not kept${
      state === "done" &&
      ": it is deleted when its event is done. With the option keepPayloads it stays for a while"
    }.</p>`;
  }
  const { content, isJson, limit } = viewOf(payload);
  return html`
    <div
      class="row"><a href="${link("payload", {
        id,
      })}" download>Download</a> <span class="dim">${number(payload.length)} bytes${!isJson &&
        ", not JSON"}${limit !== undefined &&
        `: this is the beginning, at most ${limit}`}</span>${isJson &&
        html`
          <span class="row"
            hidden><label for="find">Find${limit !== undefined &&
              " in what is shown"}</label><input id="find" type="search" data-search size="24"><span class="dim" role="status"></span></span>
        `}</div>
    <div
      class="json">${content}</div>
  `;
}
