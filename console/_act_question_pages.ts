import { html, raw } from "@hono/hono/html";
import type { StoredEvent } from "../events/mod.ts";
import { doAct, errorOf, replayWaits, whyNot } from "./_acting.ts";
import { fieldsOf, hidden } from "./_form_fields.ts";
import type { ActCount } from "./_act_steps.ts";
import { consequenceOf } from "./_consequences.ts";
import { found } from "./_found.ts";
import {
  dated,
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
} from "./_format.ts";
import { redirect, Refusal } from "./_http.ts";
import {
  a,
  facts,
  KIND_NAMES,
  live,
  type Page,
  type PageContext,
  tag,
  type Visit,
} from "./_layout.ts";
import {
  type ActKind,
  type ActQuery,
  actQueryOf,
  countedActId,
  eventIdOf,
  kindOf,
  newActId,
  numberOf,
  text,
} from "./_query.ts";
import { choice } from "./_act_choice.ts";

/** Answers with the question whether to act on one event, or on all of a choice once they are counted. */
export async function question({ data, parameters, context, isPoll }: Visit): Promise<Page> {
  const kind = kindOf(parameters);
  const id = eventIdOf(parameters);
  const page = { title: "Confirm", at: "deliveries", isPrivate: true };
  if (id !== undefined) {
    // Made before the event is read: what comes after that is not part of the answer.
    const actId = newActId();
    const { event } = await found(data, id);
    const why = await whyNot(data, kind, event);
    const waits = await replayWaits(data, kind);
    return { ...page, body: questionOfOne(kind, event, { actId, why, waits }, context) };
  }
  const query = actQueryOf(parameters, kind);
  const count = await data.actCounts.look(kind, query, isPoll);
  const [error, waits] = await Promise.all([errorOf(data, query), replayWaits(data, kind)]);
  const body = questionOfMany(kind, query, count, { shown: choice(query, error, context), waits });
  return { ...page, body, isLive: count.isMore };
}

/** Answers an operator who has confirmed an act. */
export async function act({ data, parameters: form, by }: Visit): Promise<Response> {
  const parameters = fieldsOf(form);
  const isPurge = kindOf(parameters) === "purge" && text(parameters, "id") === undefined;
  if (isPurge && numberOf(parameters, "typed") !== numberOf(parameters, "of")) {
    const why = "The number that was typed is not the number of events. Go back, and type it.";
    throw new Refusal(400, "Nothing was purged", why);
  }
  const { id, eventId, kind, changed } = await doAct(data, parameters, by);
  const isThere = eventId !== undefined && changed > 0 && kind !== "purge";
  return redirect(isThere ? link("delivery", { id: eventId }) : link("progress", { id }));
}

function questionOfOne(
  kind: ActKind,
  event: StoredEvent,
  { actId, why, waits }: {
    readonly actId: string;
    readonly why: string | undefined;
    readonly waits: string | undefined;
  },
  { hidesPayloads }: PageContext,
): Html {
  const { id, state, receivedAt } = event;
  const record = recordOf(event);
  const consequence = consequenceOf(kind, state, "one");
  const events = eventsIn(event);
  const ofBatch = kind !== "cancel" || events < 2 ? "" : ` It is the first of ${number(events)} ` +
    "events that are handled together: all of them that are open are cancelled.";
  const back = (label: string) => a(link("delivery", { id }), label, "button");
  const known = facts([
    ["type", record && nameOf(record)],
    ["repository or chat", record && placeOf(record)],
    ["sender", record && !hidesPayloads && senderOf(record)],
    ["state", stateBadge(state)],
    ["received", dated(receivedAt)],
    ["id", shown(id, 1_000), ".mono.wrap"],
  ]);
  const title = `${KIND_NAMES[kind]} this event`;
  if (why !== undefined) return html`${noted(title, known, why)}${tag("p.row", back("Back"))}`;
  const fields = { kind, id, act: actId };
  const form = actForm(
    fields,
    `${KIND_NAMES[kind]} event`,
    back(kind === "replay" ? "Back" : "Keep it"),
  );
  return html`${noted(`${title}?`, known, `${consequence}${ofBatch}`, waits)}${form}`;
}

/** Shows what an act is about, and what it does. */
const noted = (title: string, about: Html, ...texts: readonly (string | undefined)[]): Html =>
  html`${tag("h1", title)}${tag("div.note", about)}${
    tag("div.note", texts.map((text) => text !== undefined && tag("p", text)))
  }`;

/** Makes the form of an act, whose fields the act is read from. */
function actForm(
  fields: { readonly kind: ActKind } & Readonly<Record<string, unknown>>,
  label: string,
  back: Html,
  typed?: Html,
): Html {
  const button = tag(`button.${fields.kind === "replay" ? "go" : "danger"}`, label);
  return html`<form class="row" method="post" action="act">${
    Object.entries(fields).map(hidden)
  }${typed}${button}${back}</form>`;
}

function questionOfMany(
  kind: ActKind,
  query: ActQuery,
  counted: ActCount,
  { shown, waits }: { readonly shown: Html; readonly waits: string | undefined },
): Html {
  const { count, isMore, notKept } = counted;
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
      tag("div.note", shown),
      raw(`<progress aria-label="Counting"></progress>`),
      html`<p role="status">${[...progress, text].join(" ")}</p>`,
      tag("p.row", again, back("Stop counting")),
    );
  }
  if (count === 0) {
    const why = notKept > 0
      ? `None of the ${number(notKept)} that match can be replayed: they ${cannot} `
      : "Nothing matches any more. ";
    const empty = tag("div.empty", tag("p", why, a(link("deliveries", query), "Back")));
    return live("end", tag("h1", title), empty);
  }
  const consequence = consequenceOf(kind, query.state, "many");
  const others = kind === "cancel" ? "." : ", and so is what has ended since.";
  const text = `${consequence} What has come since this was asked is left alone${others}`;
  const fields = { kind, act: countedActId(kind, query, counted), ...query, of: count };
  const keep = back(kind === "replay" ? "Back" : "Keep them");
  const form = actForm(
    fields,
    `${name} ${what}`,
    keep,
    kind === "purge" ? typedField(count) : undefined,
  );
  return live("end", noted(`${name} ${what}?`, shown, text, ...leftAlone, waits), form);
}

/** Makes the field in which the number of events is typed, which browsers check before they send it. */
function typedField(count: number): Html {
  const pattern = number(count).replaceAll(",", "[,. ]?");
  return html`
    <label for="typed">Type ${number(count)} to delete them for good</label>
    <input id="typed" name="typed" required inputmode="numeric" autocomplete="off" size="10"
      pattern="${pattern}" title="${number(count)}">
  `;
}
