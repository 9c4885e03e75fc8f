import { html, raw } from "@hono/hono/html";
import { choice, conditionsOf } from "./_act_choice.ts";
import { hideAct } from "./_acting.ts";
import type { Plan } from "./_deeds.ts";
import { hidden } from "./_form_fields.ts";
import type { ActedEvents } from "./_act_lists.ts";
import { type Act, isResumable } from "./_act_record.ts";
import type { ActPage } from "./_acts.ts";
import type { ConsoleData } from "./_console_data.ts";
import {
  dated,
  type Html,
  link,
  nameOf,
  number,
  placeOf,
  recordOf,
  shown,
  stateBadge,
  when,
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
import { askedAtOf, numberOf, text } from "./_query.ts";

/** Plans to stop an act on many. */
export async function stop({ data, parameters, by }: Visit): Promise<Plan> {
  const act = await readAct(data, parameters);
  return planTurn("stop", act, () => data.acts.end(act.id, by));
}

/** Plans to resume an act on many. */
export async function resume({ data, parameters, by }: Visit): Promise<Plan> {
  const act = await readAct(data, parameters);
  return planTurn("resume", act, () => data.acts.resume(act.id, by));
}

/** Plans to stop an act on many or to go on with it. That leads back to its page. */
function planTurn(kind: "stop" | "resume", act: Act, change: () => Promise<void>): Plan {
  const { id, state, query } = act;
  const isOpen = query !== undefined &&
    (kind === "stop" ? state === "running" : isResumable(act));
  return {
    kind,
    about: `act ${id}`,
    would: kind === "stop"
      ? "It ends after the events in progress. It can be resumed."
      : "It goes on with the events that are left.",
    why: isOpen ? undefined : `It is ${state}: there is nothing to ${kind}.`,
    run: async () => {
      await change();
      return redirect(link("progress", { id }));
    },
  };
}

/** Answers with the page of one act. */
export async function progress({ data, parameters, context }: Visit): Promise<Page> {
  const read = await readAct(data, parameters);
  const act = context.hidesPayloads ? hideAct(read) : read;
  const body = progressPage(act, context);
  return { title: "Act", at: "acts", body, isLive: act.state === "running", isPrivate: true };
}

/** Answers with a page of acts: of the latest, or of those behind a cursor. */
export async function acts({ data, parameters, context }: Visit): Promise<Page> {
  const cursor = text(parameters, "cursor");
  const page = await readActs(data, parameters);
  const body = actsPage(context.hidesPayloads ? hideActs(page) : page, cursor, context);
  return { title: "Acts", at: "acts", body, isLive: cursor === undefined, isPrivate: true };
}

/** Takes out of acts what {@linkcode hideAct} takes out of one. */
export const hideActs = ({ acts, cursor }: ActPage): ActPage => ({
  acts: acts.map(hideAct),
  cursor,
});

/** Answers with the events that an act has changed, and how they stand now. */
export async function changed({ data, parameters }: Visit): Promise<Page> {
  const body = changedPage(await readChanged(data, parameters));
  return { title: "Events of an act", at: "acts", body, isLive: true, isPrivate: true };
}

/** Reads a page of acts: the latest, or those behind a cursor. */
export async function readActs({ acts }: ConsoleData, parameters: URLSearchParams) {
  const cursor = text(parameters, "cursor");
  if (cursor !== undefined && askedAtOf(cursor) === undefined) {
    throw new ParameterError("'cursor' is none of this list");
  }
  return await acts.list(cursor);
}

/**
 * Reads an act.
 *
 * @throws {Refusal} If there is none of this id.
 */
export async function readAct({ acts }: ConsoleData, parameters: URLSearchParams): Promise<Act> {
  return await acts.get(text(parameters, "id") ?? "") ?? noSuchAct();
}

/**
 * Reads a part of the events that an act has changed.
 *
 * @throws {Refusal} If there is no act of this id.
 */
export async function readChanged(
  { acts }: ConsoleData,
  parameters: URLSearchParams,
): Promise<ActedEvents> {
  const part = Math.max(1, numberOf(parameters, "part") ?? 1);
  return await acts.changed(text(parameters, "id") ?? "", part) ?? noSuchAct();
}

function noSuchAct(): never {
  throw new Refusal(404, "No such act", "No act with this id is kept.");
}

function progressPage(act: Act, context: PageContext): Html {
  const { id, kind, seen, notKept, state, eventId, error, query, of, lists, resumedBy } = act;
  const isRunning = state === "running";
  const isBad = state === "failed" || state === "interrupted";
  const done = of === undefined ? "" : `max="${of}" value="${Math.min(seen - notKept, of)}"`;
  const badge = tag(`span.badge${isBad ? ".bad" : ""}${isRunning ? ".live" : ""}`, state);
  const known = facts([
    ["by", shown(act.by)],
    ["in the name of", act.as !== undefined && String(act.as)],
    ["at", dated(act.at)],
    ["resumed by", resumedBy && shown(resumedBy)],
    [eventId === undefined ? "on" : "event", !query && eventOf(act, 300)],
  ]);
  const body = live(
    isRunning ? "often" : "end",
    tag("div.head", tag("h1", KIND_NAMES[kind]), badge),
    isRunning && html`<progress aria-label="Progress" ${raw(done)}></progress>`,
    html`<p role="status">${resultOf(act)}</p>`,
    isOperator(context) && query && turn(act),
    error !== undefined && note("alert", true, tag("p", shown(error, 500))),
    known,
    lists !== undefined &&
      tag("p", a(link("changed", { id }), "Its events, and how they stand now")),
    query && [tag("h2", "Choice"), choice(query, act.about, context)],
  );
  return html`${body}${tag("p.more", a("acts", "All acts"), " ", a("deliveries", "Deliveries"))}`;
}

/** Makes the button that stops an act on many, or goes on with it; nothing for one that is finished. */
function turn({ id, state }: Act): Html | undefined {
  if (state === "finished") return undefined;
  const [action, style, label] = state === "running"
    ? ["stop", "danger", "Stop"]
    : ["resume", "go", "Resume"];
  return html`
    <form class="row" method="post"
      action="${action}">${hidden(["id", id])}<button class="${style}">${label}</button></form>
  `;
}

/** Links to the event of an act, unless that is purged. */
function eventOf({ kind, eventId, about, changed }: Act, max: number): Content {
  if (eventId === undefined) return about !== undefined && shown(about, max);
  const text = shown(eventId, max);
  const isGone = kind === "purge" && changed > 0;
  const event = isGone
    ? tag("span.mono", text)
    : a(link("delivery", { id: eventId }), text, "mono");
  return [about && `${about} `, event];
}

const DONE_TO_ONE: Readonly<Record<Act["kind"], string>> = {
  replay: "The event was put back.",
  cancel: "The event was cancelled.",
  purge: "The event was deleted, with its payload.",
  wake: "The event was woken: it goes on once a place is free.",
  answer: "The question was answered: its event goes on once a place is free.",
  repeat: "The event is handled again, from the step on.",
  run: "The schedule was run.",
  pause: "The schedule is paused.",
  resume: "The schedule goes on with its next run.",
  forget: "The state was deleted.",
};

/** Says what has become of an act. */
function resultOf(act: Act): string {
  const { kind, changed, batch, underway, seen, notKept, state, of } = act;
  if (!act.query && state === "finished" && changed > 0) {
    const others = ` It is the first of ${
      number(batch)
    } that are handled together: so all of them are.`;
    return `${DONE_TO_ONE[kind]}${batch > 0 ? others : ""}`;
  }
  const isOpenEnded = underway > 0 && state !== "running";
  const count = of === undefined ? number(changed) : `${number(changed)} of ${number(of)}`;
  const far = `${isOpenEnded ? "at least " : ""}${count}`;
  const others = Math.max(0, (of ?? seen - notKept) - changed);
  const ends: Readonly<Record<Act["state"], readonly (string | false)[]>> = {
    running: [`${far} changed.`],
    finished: [
      `${far} changed.`,
      notKept > 0 &&
      `${number(notKept)} cannot be replayed: they are done, and their payloads are not kept.`,
      others > 0 && `${number(others)} had changed by then, so the act did not fit any more.`,
      seen === 0 && "Nothing that the question was about was left.",
    ],
    interrupted: [`Stopped after ${far}: its process ended.`],
    stopped: [`Stopped after ${far} by ${shown(act.stoppedBy ?? "somebody")}.`],
    failed: [`Stopped after ${far} at an error.`],
  };
  return [
    ...ends[state],
    isOpenEnded &&
    `Up to ${number(underway)} more were being changed when it ended, and may be changed.`,
  ].filter((text) => text !== false).join(" ");
}

/** Words for what an act has done to each of many events. */
const DONE_TO_EACH: Readonly<Record<string, string>> = {
  ...{ replay: "put back", cancel: "cancelled", purge: "deleted" },
};

function changedPage({ act, events, part, parts, isCut }: ActedEvents): Html {
  const { id, kind } = act;
  const fates = {
    ...{ changed: DONE_TO_EACH[kind] ?? "changed", underway: "under way" },
    left: "left: it had changed before",
  };
  const rows = events.map(({ id, fate, event }) => {
    const record = event && recordOf(event);
    const name = record ? nameOf(record) : "of another version";
    return [
      td(event ? a(link("delivery", { id }), name) : shown(id, 90), event ? "" : "mono wrap"),
      td(fates[fate]),
      td(event ? stateBadge(event.state) : "deleted"),
      td(record && placeOf(record), "wrap"),
      td(shown(id, 90), "mono dim id off"),
    ];
  });
  const columns = { event: "", "the act": "", "state now": "", from: "", id: "id" };
  const to = (other: number, label: string) => a(link("changed", { id, part: other }), label);
  return live(
    "rest",
    tag("div.head", tag("h1", `${KIND_NAMES[kind]}: its events`)),
    tag("p", resultOf(act)),
    table("Events", columns, rows, { style: "list", empty: "None yet." }),
    isCut && tag("p.dim", "The act has changed more than are listed."),
    tag(
      "p.more",
      parts > 1 && tag("span", `Part ${number(part)} of ${number(parts)}`),
      part > 1 && to(part - 1, "Before"),
      part < parts && to(part + 1, "Next"),
      a(link("progress", { id }), "The act"),
    ),
  );
}

function actsPage(
  { acts, cursor: next }: ActPage,
  cursor: string | undefined,
  context: PageContext,
): Html {
  const latest = cursor !== undefined && a("acts", "The latest");
  const pace = latest ? undefined : "often";
  const columns = { act: "", state: "", at: "", on: "", by: "", changed: "num" };
  const title = tag("h1", "Acts");
  const older = next !== undefined && a(link("acts", { cursor: next }), "Older");
  if (acts.length > 0) {
    const rows = acts.map((act) => cellsOf(act, context));
    const list = table("Acts", columns, rows, { style: "list acts" });
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

/** Names the state of an act, with how far it has come if it has stopped. */
function stoppedAt({ state, changed, of }: Act): Content {
  const isOver = state === "running" || state === "finished" || of === undefined;
  return [state, !isOver && dim(` after ${number(changed)} of ${number(of)}`)];
}

function cellsOf(act: Act, context: PageContext): Html[] {
  const { id, kind, at, query, by, changed, batch, about: error } = act;
  const all = query ? conditionsOf(query, { error, max: 60 }, context) : [];
  const conditions = all.filter(([, value]) => value);
  const matches = conditions.map(([label, value], i) => [i > 0 && ", ", dim(label), " ", value]);
  return [
    td(a(link("progress", { id }), KIND_NAMES[kind])),
    td(stoppedAt(act)),
    td(when(at)),
    td(query ? ["all that match: ", matches] : eventOf(act, 90), "wrap"),
    td(shown(by), "off"),
    td(
      [number(changed), batch > 0 && dim(` with its batch of ${number(batch)}`)],
      "num off",
    ),
  ];
}
