import { html, raw } from "@hono/hono/html";
import type { StoredEvent } from "../events/mod.ts";
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
  a,
  type Content,
  dim,
  facts,
  isOperator,
  KIND_NAMES,
  live,
  note,
  type Page,
  type PageContext,
  table,
  tag,
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
    throw new ParameterError("'act' must be the act of the question");
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
    if (error instanceof URIError) throw new ParameterError("a field was not in the question");
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
  const goesOn = kind === "replay" && state === "dead";
  const [consequence] = CONSEQUENCES[goesOn ? "goOn" : kind];
  const events = eventsIn(event);
  const ofBatch = kind !== "cancel" || events < 2 ? "" : ` It is the first of ${number(events)} ` +
    "events that are handled together: all of them that are open are cancelled.";
  const back = a(link("delivery", { id }), "Back", "button");
  const known = facts([
    ["type", record && nameOf(record)],
    ["repository or chat", record && placeOf(record)],
    ["sender", record && !hidesPayloads && senderOf(record)],
    ["state", stateBadge(state)],
    ["received", time(receivedAt)],
    ["id", shown(id, 1_000), ".mono.wrap"],
  ]);
  const title = `${KIND_NAMES[kind]} this event`;
  if (why !== undefined) return html`${noted(title, known, why)}${tag("p.row", back)}`;
  const form = actForm({ kind, id, act: actId }, KIND_NAMES[kind], back);
  return html`${noted(`${title}?`, known, `${consequence}${ofBatch}`)}${form}`;
}

/** Shows what an act is about, and what it does. */
const noted = (title: string, about: Html, ...texts: readonly string[]): Html =>
  html`${tag("h1", title)}${tag("div.note", about)}${
    tag("div.note", texts.map((text) => tag("p", text)))
  }`;

/** Makes the form of an act, whose fields the act is read from. */
function actForm(
  fields: { readonly kind: ActKind } & Readonly<Record<string, unknown>>,
  label: string,
  back: Html,
): Html {
  const button = tag(`button.${fields.kind === "replay" ? "go" : "danger"}`, label);
  return html`<form class="row" method="post" action="act">${
    Object.entries(fields).map(hidden)
  }${button}${back}</form>`;
}

function questionOfMany(kind: ActKind, query: ActQuery, counted: ActCount): Html {
  const { count, isMore, askedAt, notKept } = counted;
  const what = `${number(count)} ${count === 1 ? "event" : "events"}`;
  const name = KIND_NAMES[kind];
  const cannot = "are done, and their payloads are not kept.";
  const leftAlone = notKept > 0
    ? [`${number(notKept)} more match and are left alone: they ${cannot}`]
    : [];
  const back = (text: string) => a(link("deliveries", query), text, "button");
  const title = `${name} all that match`;
  if (isMore) {
    const again = a(link("act", { kind, ...query }), "Look again", "button");
    const progress = [`${number(count)} counted so far.`, ...leftAlone];
    const text = "Nothing is changed before all are counted and you have confirmed it.";
    return live(
      "often",
      tag("div.head", tag("h1", title), tag("span.badge.live", "counting")),
      tag("div.note", choice(query)),
      raw(`<progress aria-label="Counting"></progress>`),
      html`<p role="status">${[...progress, text].join(" ")}</p>`,
      tag("p.row", again, back("Cancel")),
    );
  }
  if (count === 0) {
    const why = notKept > 0
      ? `None of the ${number(notKept)} that match can be replayed: they ${cannot} `
      : "Nothing matches any more. ";
    const empty = tag("div.empty", tag("p", why, a(link("deliveries", query), "Back")));
    return live("end", tag("h1", title), empty);
  }
  const [, consequence] = CONSEQUENCES[kind === "replay" && query.state === "dead" ? "goOn" : kind];
  const others = kind === "cancel"
    ? ". Where events are handled together, all of them are cancelled with the first one, also those that do not match."
    : ", and so is what has ended since.";
  const text = `${consequence} What has come since this was asked is left alone${others}`;
  const fields = { kind, act: newActId(askedAt), ...query, of: count };
  const form = actForm(fields, `${name} ${what}`, back("Back"));
  return live("end", noted(`${name} ${what}?`, choice(query), text, ...leftAlone), form);
}

const LABELS: Readonly<Record<keyof DeliveryQuery, string>> = {
  ...{ state: "state", type: "type", source: "source", place: "repository or chat" },
  ...{ group: "ordering key", problem: "problem", q: "text", name: "name" },
  ...{ from: "received from", before: "received before" },
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
  const { id, kind, seen, notKept, state, eventId, error, query } = act;
  const isRunning = state === "running";
  const isBad = state === "failed" || state === "interrupted";
  const done = of === undefined ? "" : `max="${of}" value="${Math.min(seen - notKept, of)}"`;
  const badge = tag(`span.badge${isBad ? ".bad" : ""}${isRunning ? ".live" : ""}`, state);
  const stop = isRunning && canStop && eventId === undefined &&
    html`<form class="row" method="post" action="stop">${
      hidden(["id", id])
    }<button class="danger">Stop</button></form>`;
  const known = facts([
    ["by", shown(act.by)],
    ["at", time(act.at)],
    ["event", eventId !== undefined && eventOf(act, 300)],
  ]);
  const body = live(
    isRunning ? "often" : "end",
    tag("div.head", tag("h1", KIND_NAMES[kind]), badge),
    isRunning && html`<progress aria-label="Progress" ${raw(done)}></progress>`,
    html`<p role="status">${resultOf(act)}</p>`,
    stop,
    error !== undefined && note("alert", true, tag("p", shown(error, 500))),
    known,
    query && [tag("h2", "Choice"), choice(query)],
  );
  return html`${body}${tag("p.more", a("acts", "All acts"), " ", a("deliveries", "Deliveries"))}`;
}

/** Links to the event of an act, unless that is purged. */
function eventOf({ kind, eventId = "", about, changed }: Act, max: number): Content {
  const text = shown(eventId, max);
  const isGone = kind === "purge" && changed > 0;
  const event = isGone
    ? tag("span.mono", text)
    : a(link("delivery", { id: eventId }), text, "mono");
  return [about && `${about} `, event];
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
  const latest = cursor !== undefined && a("acts", "The latest");
  const pace = latest ? undefined : "often";
  const columns = { act: "", state: "", at: "", on: "", by: "", changed: "num" };
  const title = tag("h1", "Acts");
  const older = next !== undefined && a(link("acts", { cursor: next }), "Older");
  if (acts.length > 0) {
    const list = table("Acts", columns, acts.map(cellsOf), { style: "list" });
    const more = (latest || older) && tag("p.more", latest, " ", older);
    return html`${live(pace, tag("div.head", title), list)}${more}`;
  }
  if (latest) return html`${title}${tag("div.empty", tag("p", "No older act is kept. ", latest))}`;
  const how = [
    "Operators replay, cancel and purge deliveries on their pages, or all that match a filter on the page of ",
    a("deliveries", "deliveries"),
    ". Each act is kept here.",
  ];
  return live(pace, title, tag("div.empty", tag("h2", "Nobody has acted yet"), tag("p", how)));
}

function cellsOf(act: Act): Html[] {
  const { id, kind, state, at, eventId, query, by, changed, batch } = act;
  const conditions = query ? conditionsOf(query, 60).filter(([, value]) => value) : [];
  const matches = conditions.map(([label, value], i) => [i > 0 && ", ", dim(label), " ", value]);
  return [
    td(a(link("progress", { id }), KIND_NAMES[kind])),
    td(state),
    td(time(at, "short")),
    td(eventId === undefined ? ["all that match: ", matches] : eventOf(act, 90), "wrap"),
    td(shown(by), "off"),
    td(
      [number(changed), batch > 0 && dim(` with its batch of ${number(batch)}`)],
      "num off",
    ),
  ];
}
