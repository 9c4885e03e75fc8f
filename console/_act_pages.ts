import { html, raw } from "@hono/hono/html";
import type { EventRecord, StoredEvent } from "../events/mod.ts";
import { hasBeenAnswered } from "../events/store/record_notes.ts";
import type { ActCount } from "./_act_steps.ts";
import type { Act, ActPage } from "./_acts.ts";
import type { ConsoleData } from "./_console_data.ts";
import { found } from "./_delivery_page.ts";
import {
  eventsIn,
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
} from "./_format.ts";
import { ParameterError, redirect, Refusal } from "./_http.ts";
import {
  facts,
  isOperator,
  KIND_NAMES,
  type Page,
  type PageContext,
  table,
  td,
  type Visit,
} from "./_layout.ts";
import {
  actIdOf,
  type ActKind,
  type ActQuery,
  actQueryOf,
  askedAtOf,
  type DeliveryQuery,
  kindOf,
  kindsFor,
  newActId,
  text,
} from "./_query.ts";

/** Answers with the question whether to act on one event, or on all of a choice once they are counted. */
export async function question({ data, parameters, context, isPoll }: Visit): Promise<Page> {
  const kind = kindOf(parameters);
  const id = text(parameters, "id");
  const page = { title: "Confirm", at: "deliveries" };
  if (id !== undefined) {
    // Made before the event is read: what comes after that is not part of the answer.
    const actId = newActId();
    const { event } = await found(data, id);
    const why = await whyNot(data, kind, event);
    return { ...page, body: questionOfOne(kind, event, { actId, why }, context) };
  }
  const query = actQueryOf(parameters, kind);
  const count = await data.actCounts.look(kind, query, isPoll);
  return { ...page, body: questionOfMany(kind, query, count), isLive: count.isMore };
}

/** Answers an operator who has confirmed an act. */
export async function act({ data, parameters: form, by }: Visit): Promise<Response> {
  const parameters = fieldsOf(form);
  const [kind, id] = [kindOf(parameters), actIdOf(parameters)];
  const eventId = text(parameters, "id");
  if (eventId === undefined) {
    const query = actQueryOf(parameters, kind);
    await data.acts.all({ id, kind, query, by });
    return redirect(link("progress", { id, of: numberIn(parameters) }));
  }
  const done = await data.acts.one({ id, kind, eventId, by });
  if (done.eventId !== eventId || done.kind !== kind) {
    throw new ParameterError("'act' must be that of the question");
  }
  if (done.changed === 0 && done.state === "finished") {
    const { event } = await found(data, eventId);
    const why = await whyNot(data, kind, event) ?? "Its state has changed meanwhile. Look again.";
    throw new Refusal(409, "Nothing was changed", why);
  }
  const isThere = done.changed > 0 && kind !== "purge";
  return redirect(isThere ? link("delivery", { id: eventId }) : link("progress", { id }));
}

/** Stops an act, and leads back to its page. */
export async function stop({ data, parameters, by }: Visit): Promise<Response> {
  const { id } = await foundAct(data, parameters);
  await data.acts.end(id, by);
  return redirect(link("progress", { id }));
}

/** Answers with the page of one act. */
export async function progress({ data, parameters, context }: Visit): Promise<Page> {
  const act = await foundAct(data, parameters);
  const body = progressPage(act, numberIn(parameters), isOperator(context));
  return { title: "Act", at: "acts", body, isLive: act.state === "running" };
}

/** Answers with a page of acts: of the latest, or of those behind a cursor. */
export async function acts({ data, parameters }: Visit): Promise<Page> {
  const cursor = text(parameters, "cursor");
  if (cursor !== undefined && askedAtOf(cursor) === undefined) {
    throw new ParameterError("'cursor' is none of this list");
  }
  const body = actsPage(await data.acts.list(cursor), cursor);
  return { title: "Acts", at: "acts", body, isLive: cursor === undefined };
}

async function foundAct({ acts }: ConsoleData, parameters: URLSearchParams): Promise<Act> {
  const act = await acts.get(text(parameters, "id") ?? "");
  if (act) return act;
  throw new Refusal(404, "No such act", "No act with this id is kept.");
}

/** Reads the number of events that were counted before an act. */
function numberIn(parameters: URLSearchParams): number | undefined {
  const of = parameters.get("of") ?? "";
  return /^\d{1,9}$/.test(of) ? Number(of) : undefined;
}

/** Makes a field that {@linkcode fieldsOf} reads: browsers would send a line break as two characters. */
function hidden([name, value]: readonly [string, unknown]): Html | undefined {
  if (value === undefined) return undefined;
  const text = String(value).replace(/[%\p{Cc}]/gu, encodeURIComponent);
  return html`<input type="hidden" name="${name}" value="${text}">`;
}

/** Reads the fields of the form that asks for an act. */
function fieldsOf(form: URLSearchParams): URLSearchParams {
  try {
    return new URLSearchParams([...form].map(([name, value]) => [name, decodeURIComponent(value)]));
  } catch (error) {
    if (error instanceof URIError) throw new ParameterError("a field is not that of the question");
    throw error;
  }
}

/** Consequences of an act on one event, and on many. */
const CONSEQUENCES: Readonly<Record<ActKind | "goOn", readonly [string, string]>> = {
  replay: [
    "It is put back and handled again, from its first attempt. Effects outside of the app happen again.",
    "They are put back and handled again, from their first attempts. Effects outside of the app happen again.",
  ],
  // A dead event goes on.
  goOn: [
    "It is put back with new attempts, and goes on where it failed: what is noted as done stays done, and " +
    "its idempotency keys stay the same. Only what is not noted happens again.",
    "They are put back with new attempts, and go on where they failed: what is noted as done stays done, " +
    "and their idempotency keys stay the same. Only what is not noted happens again. Those that have had the " +
    "answer that they waited for begin anew. Those that somebody has cancelled stay dead: replay them one by one.",
  ],
  cancel: [
    "It is not handled any further. If it runs, its handler is told to stop: what that has done by then stays done. It can be replayed.",
    "They are not handled any further. The handlers of those that run are told to stop: what they have done by then stays done. They can be replayed.",
  ],
  purge: [
    "It is deleted with its payload, for good.",
    "They are deleted with their payloads, for good.",
  ],
};

/** Finds why an act on an event would change nothing; undefined if it would change it. */
async function whyNot(
  data: ConsoleData,
  kind: ActKind,
  event: StoredEvent,
): Promise<string | undefined> {
  const { state } = event;
  if (!kindsFor(state).includes(kind)) {
    if (state === "unreadable") return "This version cannot read its record. It can be purged.";
    if (kind === "cancel") return "It has ended, so there is nothing to cancel.";
    return kind === "purge"
      ? "It has not ended. Cancel it first, or wait until it has ended."
      : "It has not ended, so it is handled without a replay.";
  }
  const record = recordOf(event);
  const needsPayload = record && kind === "replay" && state === "done";
  if (needsPayload && await data.payload(record) === null) {
    return "Its payload is not kept, so it cannot be handled again.";
  }
  return state === "running" && record?.cancelRequestedAt !== undefined
    ? "It has been cancelled before. Its handler has been told to stop, and has not ended yet."
    : undefined;
}

function questionOfOne(
  kind: ActKind,
  event: StoredEvent,
  { actId, why }: { readonly actId: string; readonly why: string | undefined },
  { hidesPayloads }: PageContext,
): Html {
  const { id, state, receivedAt } = event;
  const record = recordOf(event);
  const goesOn = kind === "replay" && state === "dead" && !hasBeenAnswered(event as EventRecord);
  const [consequence] = CONSEQUENCES[goesOn ? "goOn" : kind];
  const events = eventsIn(event);
  const ofBatch = kind === "cancel" && events > 1 &&
    ` It is the first of ${
      number(events)
    } events that are handled together: all of them that are open are cancelled.`;
  const back = html`<a class="button" href="${link("delivery", { id })}">Back</a>`;
  const known = facts([
    ["type", record && nameOf(record)],
    ["repository or chat", record && placeOf(record)],
    ["sender", record && !hidesPayloads && senderOf(record)],
    ["state", stateBadge(state)],
    ["received", time(receivedAt)],
    ["id", shown(id, 1_000), "mono wrap"],
  ]);
  return html`
    <h1>${KIND_NAMES[kind]} this event${why === undefined && "?"}</h1>
    <div class="note">${known}</div>
    <div class="note">
      <p>${why ?? html`${consequence}${ofBatch}`}</p>
    </div>
    ${why === undefined
      ? actForm({ kind, id, act: actId }, KIND_NAMES[kind], back)
      : html`<p class="row">${back}</p>`}
  `;
}

/** Makes the form of an act, whose fields the act is read from. */
function actForm(
  fields: { readonly kind: ActKind } & Readonly<Record<string, unknown>>,
  label: string,
  back: Html,
): Html {
  const style = fields.kind === "replay" ? "go" : "danger";
  return html`
    <form class="row" method="post"
      action="act">${Object.entries(fields).map(
        hidden,
      )}<button class="${style}">${label}</button>${back}</form>
  `;
}

function questionOfMany(kind: ActKind, query: ActQuery, counted: ActCount): Html {
  const { count, isMore, askedAt, notKept } = counted;
  const what = `${number(count)} ${count === 1 ? "event" : "events"}`;
  const name = KIND_NAMES[kind];
  const cannot = "are done, and their payloads are not kept.";
  const leftAlone = notKept > 0 &&
    ` ${number(notKept)} more match and are left alone: they ${cannot}`;
  const back = (text: string) =>
    html`<a class="button" href="${link("deliveries", query)}">${text}</a>`;
  if (isMore) {
    return html`<div data-live="">
<div class="head"><h1>${name} all that match</h1><span class="badge live">counting</span></div>
<div class="note">${choice(query)}</div><progress aria-label="Counting"></progress>
<p role="status">${
      number(count)
    } counted so far.${leftAlone} Nothing is changed before all are counted and you have
confirmed it.</p><p class="row"><a class="button" href="${
      link("act", { kind, ...query })
    }">Look again</a>${back("Cancel")}</p></div>`;
  }
  if (count === 0) {
    return html`
      <div data-live="end">
        <h1>${name} all that match</h1>
        <div class="empty">
          <p>${notKept > 0
            ? `None of the ${number(notKept)} that match can be replayed: they ${cannot}`
            : "Nothing matches any more."} <a href="${link("deliveries", query)}">Back</a></p>
        </div>
      </div>
    `;
  }
  const [, consequence] = CONSEQUENCES[kind === "replay" && query.state === "dead" ? "goOn" : kind];
  const others = kind === "cancel"
    ? ". Where events are handled together, all of them are cancelled with the first one, also those that do not match."
    : ", and so is what has ended since.";
  const fields = { kind, act: newActId(askedAt), ...query, of: count };
  return html`<div data-live="end"><h1>${name} ${what}?</h1><div class="note">${choice(query)}</div>
<div class="note"><p>${consequence} What has come since this was asked is left alone${others}</p>${
    leftAlone && html`<p>${leftAlone}</p>`
  }</div>${actForm(fields, `${name} ${what}`, back("Back"))}</div>`;
}

const LABELS: Readonly<Record<keyof DeliveryQuery, string>> = {
  ...{ state: "state", type: "type", source: "source", place: "repository or chat" },
  ...{ group: "ordering key", from: "received from", before: "received before" },
};

/** Shows a choice of deliveries. */
const choice = (query: ActQuery): Html => facts(conditionsOf(query, 300));

/** Lists the conditions of a choice with their names, as they are shown. */
function conditionsOf(query: ActQuery, max: number): [string, Html | string | undefined][] {
  return (Object.keys(LABELS) as (keyof DeliveryQuery)[]).map((name) => {
    const value = name === "state" ? stateName(query.state) : query[name];
    return [LABELS[name], typeof value === "number" ? time(value) : value && shown(value, max)];
  });
}

function progressPage(act: Act, of: number | undefined, canStop: boolean): Html {
  const { id, kind, seen, notKept, state, eventId, error } = act;
  const isRunning = state === "running";
  const isBad = state === "failed" || state === "interrupted";
  const done = of === undefined ? "" : `max="${of}" value="${Math.min(seen - notKept, of)}"`;
  const known = facts([
    ["by", shown(act.by)],
    ["at", time(act.at)],
    ["event", eventId !== undefined && eventOf(act, 300)],
  ]);
  return html`
    <div
      data-live="${isRunning
        ? ""
        : "end"}"><div class="head"><h1>${KIND_NAMES[kind]}</h1><span class="badge${isBad &&
        " bad"}${isRunning && " live"}">${state}</span></div>${isRunning &&
        html`<progress aria-label="Progress" ${raw(done)}></progress>`}<p role="status">${resultOf(
          act,
        )}</p>${isRunning && canStop && eventId === undefined &&
        html`<form class="row" method="post" action="stop">${
          hidden(["id", id])
        }<button class="danger">Stop</button></form>`}${error !== undefined && html`
        <div class="note bad" role="alert">
          <p>${shown(error, 500)}</p>
        </div>
      `}${known}${act.query && html`<h2>Choice</h2>${choice(act.query)}`}</div>
    <p class="more"><a href="acts">All acts</a> <a href="deliveries">Deliveries</a></p>
  `;
}

/** Links to the event of an act, unless that is purged. */
function eventOf({ kind, eventId = "", about, changed }: Act, max: number): Html {
  const text = shown(eventId, max);
  return html`${about && `${about} `}${
    kind === "purge" && changed > 0
      ? html`<span class="mono">${text}</span>`
      : html`<a class="mono" href="${link("delivery", { id: eventId })}">${text}</a>`
  }`;
}

const DONE_TO_ONE: Readonly<Record<ActKind, string>> = {
  replay: "The event was put back.",
  cancel: "The event was cancelled.",
  purge: "The event was deleted, with its payload.",
};

/** Says what has become of an act. */
function resultOf(act: Act): string {
  const { kind, eventId, changed, batch, underway, seen, notKept, state } = act;
  if (eventId !== undefined && state === "finished" && changed > 0) {
    const others = ` It is the first of ${
      number(batch)
    } that are handled together: so all of them are.`;
    return `${DONE_TO_ONE[kind]}${batch > 0 ? others : ""}`;
  }
  const isOpenEnded = underway > 0 && state !== "running";
  const others = Math.max(0, seen - changed - notKept);
  const ends: Readonly<Record<Act["state"], readonly (string | false)[]>> = {
    running: [],
    finished: [
      notKept > 0 &&
      `${number(notKept)} cannot be replayed: they are done, and their payloads are not kept.`,
      others > 0 && `${number(others)} had changed by then, so the act did not fit any more.`,
      seen === 0 && "Nothing that the question was about was left.",
    ],
    interrupted: ["Its process stopped before the act was finished. For the rest, act again."],
    stopped: [`Stopped by ${shown(act.stoppedBy ?? "somebody")}. For the rest, act again.`],
    failed: ["It stopped at an error. For the rest, act again."],
  };
  return [
    `${isOpenEnded ? "At least " : ""}${number(changed)} changed, ${number(seen)} read.`,
    isOpenEnded &&
    `Up to ${number(underway)} more were being changed when it ended, and may be changed.`,
    ...ends[state],
  ].filter((text) => text !== false).join(" ");
}

function actsPage({ acts, cursor: next }: ActPage, cursor: string | undefined): Html {
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
        <p>Operators replay, cancel and purge deliveries on their pages, or all that match a filter on the page of
      <a href="deliveries">deliveries</a>. Each act is kept here.</p>
      </div>
    `;
  }
  const columns = { act: "", state: "", at: "", on: "", by: "", changed: "num" };
  return html`<div${raw(cursor === undefined ? " data-live" : "")}>
<div class="head"><h1>Acts</h1></div>${
    table("Acts", columns, acts.map(cellsOf), { style: "list" })
  }</div>${
    (next !== undefined || cursor !== undefined) &&
    html`<p class="more">${
      cursor !== undefined && html`
        <a href="acts">The latest</a>
      `
    }${next !== undefined && html`<a href="${link("acts", { cursor: next })}">Older</a>`}</p>`
  }`;
}

function cellsOf(act: Act): Html[] {
  const { id, kind, state, at, eventId, query, by, changed, batch } = act;
  const conditions = query
    ? conditionsOf(query, 60).filter(([, value]) => value !== undefined)
    : [];
  const on = eventId !== undefined
    ? eventOf(act, 90)
    : html`all that match: ${
      conditions.map(([label, value], i) =>
        html`${i > 0 && ", "}<span class="dim">${label}</span> ${value}`
      )
    }`;
  return [
    td(html`<a href="${link("progress", { id })}">${KIND_NAMES[kind]}</a>`),
    td(state),
    td(time(at, "short")),
    td(on, "wrap"),
    td(shown(by), "off"),
    td(
      html`${number(changed)}${
        batch > 0 && html`<span class="dim"> with its batch of ${number(batch)}</span>`
      }`,
      "num off",
    ),
  ];
}
