import { html, raw } from "@hono/hono/html";
import type { EventRecord, StoredEvent } from "../events/mod.ts";
import { hasBeenAnswered } from "../events/store/record_notes.ts";
import type { Act, ActCount, ActKind, ActPage, DeliveryQuery } from "./_console_data.ts";
import { nameOf, placeOf, senderOf } from "./_event_names.ts";
import { type Html, link, number, shown, STATE_NAMES, stateBadge, time } from "./_format.ts";
import { KIND_NAMES, type PageContext } from "./_layout.ts";
import { kindsFor, ParameterError } from "./_query.ts";

/** Consequences of an act; of a replay, where an event begins anew. */
const CONSEQUENCES: Readonly<Record<ActKind, string>> = {
  replay:
    "It is put back and handled again, from its first attempt. Effects outside of the app happen again.",
  cancel:
    "It is not handled any further. If it runs, its handler is told to stop: what that has done by then stays done. It can be replayed.",
  purge: "It is deleted with its payload, for good.",
};

const CONSEQUENCES_OF_ALL: Readonly<Record<ActKind, string>> = {
  replay:
    "They are put back and handled again, from their first attempts. Effects outside of the app happen again.",
  cancel:
    "They are not handled any further. The handlers of those that run are told to stop: what they have done by then stays done. They can be replayed.",
  purge: "They are deleted with their payloads, for good.",
};

/** Consequences of a replay of dead events, which go on. */
const GOES_ON =
  "It is put back with new attempts, and goes on where it failed: what is noted as done stays done, and " +
  "its idempotency keys stay the same. Only what is not noted happens again.";
const GO_ON =
  "They are put back with new attempts, and go on where they failed: what is noted as done stays done, " +
  "and their idempotency keys stay the same. Only what is not noted happens again. Those that have had the " +
  "answer that they waited for begin anew. Those that somebody has cancelled stay dead: replay them one by one.";

/** Says what an act on one event does. */
function consequenceOf(kind: ActKind, event: StoredEvent): string {
  const goesOn = event.state === "dead" && !hasBeenAnswered(event as EventRecord);
  return kind === "replay" && goesOn ? GOES_ON : CONSEQUENCES[kind];
}

/** Says what an act on all events of a choice does. */
function consequenceOfAll(kind: ActKind, { state }: DeliveryQuery): string {
  return kind === "replay" && state === "dead" ? GO_ON : CONSEQUENCES_OF_ALL[kind];
}

const LABELS: Readonly<Record<keyof DeliveryQuery, string>> = {
  ...{ state: "state", type: "type", source: "source", place: "repository or chat" },
  ...{ group: "ordering key", from: "received from", before: "received before" },
};

/** Shows a choice of deliveries. */
function choice(query: DeliveryQuery): Html {
  return html`<dl>${
    conditionsOf(query, 300).map(([label, value]) =>
      html`
        <dt>${label}</dt>
        <dd>${value}</dd>
      `
    )
  }</dl>`;
}

/** Shows a choice of deliveries in one line. */
function choiceLine(query: DeliveryQuery): Html {
  return html`${
    conditionsOf(query, 60).map(([label, value], i) =>
      html`${i > 0 && ", "}<span class="dim">${label}</span> ${value}`
    )
  }`;
}

/** Lists the conditions of a choice with their names, as they are shown. */
function conditionsOf(query: DeliveryQuery, max: number): [string, Html | string][] {
  const given = (Object.keys(LABELS) as (keyof DeliveryQuery)[])
    .filter((name) => query[name] !== undefined);
  return given.map((name) => {
    const value = query[name]!;
    if (typeof value === "number") return [LABELS[name], time(value)];
    return [LABELS[name], name === "state" ? STATE_NAMES[query.state!] : shown(value, max)];
  });
}

/** Makes a field that {@linkcode fieldsOf} reads: browsers would send a line break as two characters. */
function hidden(name: string, value: unknown): Html | undefined {
  if (value === undefined) return undefined;
  const text = String(value).replace(/[%\p{Cc}]/gu, encodeURIComponent);
  return html`<input type="hidden" name="${name}" value="${text}">`;
}

/**
 * Reads the fields of the form that asks for an act.
 *
 * @throws {ParameterError} If one is of no such form.
 */
export function fieldsOf(form: URLSearchParams): URLSearchParams {
  try {
    return new URLSearchParams([...form].map(([name, value]) => [name, decodeURIComponent(value)]));
  } catch (error) {
    if (error instanceof URIError) throw new ParameterError("a field is not that of the question");
    throw error;
  }
}

/** Says why an act on an event changes nothing; undefined if it would change it. */
export function whyNothingChanged(
  kind: ActKind,
  event: StoredEvent,
  isKept: boolean,
): string | undefined {
  const { state } = event;
  if (!kindsFor(state).includes(kind)) {
    if (state === "unreadable") return "This version cannot read its record. It can be purged.";
    if (kind === "cancel") return "It has ended, so there is nothing to cancel.";
    return kind === "purge"
      ? "It has not ended. Cancel it first, or wait until it has ended."
      : "It has not ended, so it is handled without a replay.";
  }
  if (!isKept) return "Its payload is not kept, so it cannot be handled again.";
  const isFlagged = "cancelRequestedAt" in event && event.cancelRequestedAt !== undefined;
  return isFlagged && state === "running"
    ? "It has been cancelled before. Its handler has been told to stop, and has not ended yet."
    : undefined;
}

/** Makes the body of the page that asks whether to act on one event. */
export function confirmOnePage(
  { kind, actId, why }: {
    readonly kind: ActKind;
    readonly actId: string;
    readonly why: string | undefined;
  },
  event: StoredEvent,
  { hidesPayloads }: Pick<PageContext, "hidesPayloads">,
): Html {
  const { id } = event;
  const back = html`<a class="button" href="${link("delivery", { id })}">Back</a>`;
  return html`
    <h1>${KIND_NAMES[kind]} this event${why === undefined ? "?" : ""}</h1>
    <div class="note">
      <dl>${factsOf(event, hidesPayloads)}</dl>
    </div>
    <div class="note">
      <p>${why ?? consequenceOf(kind, event)}${why === undefined && kind === "cancel" &&
        ofBatch(event)}</p>
    </div>
    ${why === undefined
      ? html`
        <form class="row" method="post"
          action="act">${hidden("kind", kind)}${hidden("id", id)}${hidden("act", actId)}${submit(
            kind,
            KIND_NAMES[kind],
          )}${back}</form>
      `
      : html`<p class="row">${back}</p>`}
  `;
}

/** Says what else is cancelled with an event. */
function ofBatch(event: StoredEvent): string | undefined {
  const { batch } = event as EventRecord;
  return batch && batch.events > 1
    ? ` It is the first of ${
      number(batch.events)
    } events that are handled together: all of them that are open are cancelled.`
    : undefined;
}

function factsOf(event: StoredEvent, hidesPayloads: boolean): Html {
  const record = event.state === "unreadable" ? undefined : event as EventRecord;
  const place = record && placeOf(record);
  const sender = record && !hidesPayloads && senderOf(record);
  return html`
    ${record &&
      html`
        <dt>type</dt>
        <dd>${nameOf(record)}</dd>
      `}${place &&
      html`
        <dt>repository or chat</dt>
        <dd>${place}</dd>
      `}${sender &&
      html`
        <dt>sender</dt>
        <dd>${sender}</dd>
      `}
        <dt>state</dt>
        <dd>${stateBadge(event.state)}</dd>
        <dt>received</dt>
        <dd>${time(event.receivedAt)}</dd>
        <dt>id</dt>
        <dd class="mono wrap">${shown(event.id, 1_000)}</dd>
  `;
}

/** Makes the body of the page that counts the events of a choice, and then asks whether to act on all of them. */
export function confirmAllPage(
  { kind, actId, count }: {
    readonly kind: ActKind;
    readonly actId: string;
    readonly count: ActCount;
  },
  query: DeliveryQuery,
): Html {
  const { count: events, isMore, notKept = 0 } = count;
  const body = isMore
    ? counting(kind, count, query)
    : events === 0
    ? nothingToAct(kind, notKept, query)
    : question({ kind, actId, count }, query);
  return html`<div data-live="${isMore ? "" : "end"}">${body}</div>`;
}

function counting(kind: ActKind, { count, notKept = 0 }: ActCount, query: DeliveryQuery): Html {
  return html`
    <div class="head"><h1>${KIND_NAMES[
      kind
    ]} all that match</h1><span class="badge live">counting</span></div>
    <div class="note">${choice(query)}</div>
    <progress aria-label="Counting"></progress>
    <p role="status">${number(count)} counted so far.${notKept > 0 &&
      html`
        ${number(
          notKept,
        )} more match and are left alone: they are done, and their payloads are not kept.
      `} Nothing is
      changed before all are counted and you have confirmed it.</p>
    <p class="row"><a class="button" href="${link("act", { kind, ...query })}">Look again</a>${back(
      "Cancel",
      query,
    )}</p>
  `;
}

function nothingToAct(kind: ActKind, notKept: number, query: DeliveryQuery): Html {
  return html`
    <h1>${KIND_NAMES[kind]} all that match</h1>
    <div class="empty">
      <p>${notKept > 0
        ? `None of the ${
          number(notKept)
        } that match can be replayed: they are done, and their payloads are not kept.`
        : "Nothing matches any more."}
    <a href="${link("deliveries", { ...query })}">Back</a></p>
    </div>
  `;
}

function question(
  { kind, actId, count: { count, notKept = 0 } }: {
    readonly kind: ActKind;
    readonly actId: string;
    readonly count: ActCount;
  },
  query: DeliveryQuery,
): Html {
  const what = `${number(count)} ${count === 1 ? "event" : "events"}`;
  return html`
    <h1>${KIND_NAMES[kind]} ${what}?</h1>
    <div class="note">${choice(query)}</div>
    <div class="note">
      <p>${consequenceOfAll(kind, query)} What has come since this was asked is left alone${kind ===
          "cancel"
        ? ". Where events are handled together, all of them are cancelled with the first one, also those that do " +
          "not match"
        : ", and so is what has ended since"}.</p>${notKept > 0 &&
        html`<p>${
          number(notKept)
        } more match and are left alone: they are done, and their payloads are not kept.</p>`}
    </div>
    <form class="row" method="post"
      action="act">${hidden("kind", kind)}${hidden("act", actId)}${Object.entries(query).map((
        [name, value],
      ) => hidden(name, value))}${hidden("of", count)}${submit(
        kind,
        `${KIND_NAMES[kind]} ${what}`,
      )}${back("Back", query)}</form>
  `;
}

const back = (text: string, query: DeliveryQuery): Html =>
  html`<a class="button" href="${link("deliveries", { ...query })}">${text}</a>`;

const submit = (kind: ActKind, text: string): Html =>
  html`<button class="${kind === "purge" || kind === "cancel" ? "danger" : "go"}">${text}</button>`;

/** Makes the body of the page of one act. */
export function progressPage(
  act: Act,
  { of, canStop }: { readonly of: number | undefined; readonly canStop: boolean },
): Html {
  const { kind, seen, notKept = 0, state, eventId, error } = act;
  const isRunning = state === "running";
  return html`
    <div
      data-live="${isRunning ? "" : "end"}"><div class="head"><h1>${KIND_NAMES[
        kind
      ]}</h1><span class="badge${state === "failed" || state === "interrupted"
        ? " bad"
        : ""}${isRunning ? " live" : ""}">${state}</span></div>${isRunning &&
        (of === undefined
          ? html`<progress aria-label="Progress"></progress>`
          : html`<progress aria-label="Progress" max="${of}" value="${
            Math.min(seen - notKept, of)
          }"></progress>`)}<p role="status">${resultOf(act)}</p>${isRunning && canStop &&
        eventId === undefined &&
        html`
          <form class="row" method="post" action="stop">${hidden(
            "id",
            act.id,
          )}<button class="danger">Stop</button></form>
        `}${error !== undefined &&
        html`
          <div class="note bad" role="alert">
            <p>${shown(error, 500)}</p>
          </div>
        `}<dl><dt>by</dt><dd>${shown(act.by)}</dd><dt>at</dt><dd>${time(
          act.at,
        )}</dd>${eventId !== undefined &&
        html`
          <dt>event</dt>
          <dd>${eventOf(act, 300)}</dd>
        `}</dl>${act.query && html`<h2>Choice</h2>${choice(act.query)}`}</div>
    <p class="more"><a href="acts">All acts</a> <a href="deliveries">Deliveries</a></p>
  `;
}

/** Links to the event of an act, unless that is purged. */
function eventOf({ kind, eventId = "", about, changed }: Act, max: number): Html {
  const text = shown(eventId, max);
  const name = about !== undefined && html`
    ${shown(about, max)}
  `;
  return kind === "purge" && changed > 0
    ? html`${name}<span class="mono">${text}</span>`
    : html`${name}<a class="mono" href="${link("delivery", { id: eventId })}">${text}</a>`;
}

const DONE_TO_ONE: Readonly<Record<ActKind, string>> = {
  replay: "The event was put back.",
  cancel: "The event was cancelled.",
  purge: "The event was deleted, with its payload.",
};

/** Says what an act has come to. */
function resultOf(act: Act): string {
  const { kind, eventId, changed, batch, underway = 0, seen, state } = act;
  if (eventId !== undefined && state === "finished" && changed > 0) {
    const others = batch === undefined
      ? ""
      : ` It is the first of ${number(batch)} that are handled together: so all of them are.`;
    return `${DONE_TO_ONE[kind]}${others}`;
  }
  const isOpenEnded = underway > 0 && state !== "running";
  return [
    `${isOpenEnded ? "At least " : ""}${number(changed)} changed, ${number(seen)} read.`,
    isOpenEnded
      ? `Up to ${number(underway)} more were being changed when it ended, and may be changed.`
      : "",
    state === "finished" ? leftBy(act) : "",
    state === "interrupted"
      ? "Its process stopped before the act was finished. For the rest, act again."
      : "",
    state === "stopped"
      ? `Stopped by ${shown(act.stoppedBy ?? "somebody")}. For the rest, act again.`
      : "",
    state === "failed" ? "It stopped at an error. For the rest, act again." : "",
  ].filter((text) => text !== "").join(" ");
}

/** Says why an act that finished has left events that it read. */
function leftBy({ seen, changed, notKept = 0 }: Act): string {
  const others = Math.max(0, seen - changed - notKept);
  return [
    notKept > 0
      ? `${number(notKept)} cannot be replayed: they are done, and their payloads are not kept.`
      : "",
    others > 0 ? `${number(others)} had changed by then, so the act did not fit any more.` : "",
    seen === 0 ? "Nothing that the question was about was left." : "",
  ].filter((text) => text !== "").join(" ");
}

/** Makes the body of a page of acts: of the latest, or of those behind a cursor. */
export function actsPage({ acts, cursor: next }: ActPage, cursor: string | undefined): Html {
  if (acts.length === 0 && cursor !== undefined) {
    return html`
      <h1>Acts</h1>
      <div class="empty">
        <p>No older act is kept. <a href="acts">The latest</a></p>
      </div>
    `;
  }
  if (acts.length === 0) {
    return html`
      <h1>Acts</h1>
      <div class="empty" data-live>
        <h2>Nobody has acted yet</h2>
        <p>Operators replay, cancel and purge
      deliveries on their pages, or all that match a filter on the page of <a href="deliveries">deliveries</a>. Each act is
      kept here.</p>
      </div>
    `;
  }
  return html`
    <div ${cursor === undefined ? raw("data-live") : ""}>
      <div class="head">
        <h1>Acts</h1>
      </div>
      <div class="scroll" tabindex="0" role="group" aria-label="Acts">
        <table class="list">
          <thead>
            <tr>
              <th scope="col">act</th>
              <th scope="col">state</th>
              <th scope="col">at</th>
              <th scope="col">on</th>
              <th scope="col">by</th>
              <th scope="col" class="num">changed</th>
            </tr>
          </thead>
          <tbody>${acts.map((act) =>
            html`
              <tr>
                <td><a href="${link("progress", { id: act.id })}">${KIND_NAMES[act.kind]}</a></td>
                <td>${act.state}</td>
                <td>${time(act.at, "short")}</td>
                <td class="wrap">${act.eventId !== undefined
                  ? eventOf(act, 90)
                  : html`all that match: ${choiceLine(act.query ?? {})}`}</td>
                <td class="off">${shown(act.by)}</td>
                <td class="num off">${number(act.changed)}${act.batch !== undefined &&
                  html`<span class="dim"> with its batch of ${number(act.batch)}</span>`}</td>
              </tr>
            `
          )}</tbody>
        </table>
      </div>
    </div>
    ${(next !== undefined || cursor !== undefined) &&
      html`<p class="more">${
        cursor !== undefined &&
        html`<a href="acts">The latest</a>`
      } ${
        next !== undefined &&
        html`<a href="${link("acts", { cursor: next })}">Older</a>`
      }</p>`}
  `;
}
