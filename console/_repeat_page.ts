import { html } from "@hono/hono/html";
import type { EventRecord } from "../events/mod.ts";
import { deedFields, deedForm, type Plan, planDeed } from "./_deeds.ts";
import { found } from "./_found.ts";
import { aboutOf, dated, link, number, recordOf, shown, stateBadge } from "./_format.ts";
import { Refusal } from "./_http.ts";
import { a, facts, type Page, tag, type Visit } from "./_layout.ts";
import { text } from "./_query.ts";

/** Most steps that are named. */
const MAX_NAMES = 50;

/** States of the events whose steps can be forgotten. */
const REPEATABLE: readonly EventRecord["state"][] = ["queued", "parked", "dead"];

/** Checks whether the handling of an event can be repeated from a step on. */
export const canRepeat = ({ state }: EventRecord): boolean => REPEATABLE.includes(state);

/** Step from which the handling of an event is to be repeated. */
interface Repeat {
  readonly record: EventRecord;
  /** Name of the step. */
  readonly step: string;
  /** Names of the steps that are taken again: it and the later ones. */
  readonly again: readonly string[];
}

async function read({ data }: Visit, fields: URLSearchParams): Promise<Repeat> {
  const record = recordOf((await found(data, text(fields, "id"))).event);
  const step = text(fields, "step");
  const again = stepsFrom(record, step);
  if (record && again.length > 0) return { record, step: step!, again };
  throw new Refusal(409, "It cannot be repeated from there", whyNotFrom(record));
}

/** Lists the names of a step and of the later ones; none if the event cannot be repeated from there. */
function stepsFrom(record: EventRecord | undefined, step: string | undefined): string[] {
  const steps = record && canRepeat(record) ? record.steps ?? [] : [];
  const first = steps.findIndex(({ name }) => name === step);
  return first < 0 ? [] : steps.slice(first).map(({ name }) => name);
}

/** Finds why an event cannot be repeated from a step. */
function whyNotFrom(record: EventRecord | undefined): string {
  if (record?.state === "running") {
    return "It runs at the moment. Cancel it first, or wait until it has ended.";
  }
  return record?.state === "done"
    ? "It is done, and the results of its steps are deleted. A replay begins anew."
    : "The event has no such step any more.";
}

/** Consequences of a repetition by the event's state. */
const CONSEQUENCES: Readonly<Partial<Record<EventRecord["state"], string>>> = {
  queued: "The event waits to be handled: its next attempt begins with these steps.",
  parked:
    "The event stops waiting and is handled at once: what it has waited for is waited for again.",
  dead: "The event is put back with new attempts.",
};

/** Answers with the question whether to repeat the handling of an event from a step on. */
export async function repeatQuestion(visit: Visit): Promise<Page> {
  const { record, step, again } = await read(visit, visit.parameters);
  const { id, state, batch } = record;
  const known = facts([
    ["event", a(link("delivery", { id }), aboutOf(record))],
    ["state", stateBadge(state)],
    ["received", dated(record.receivedAt)],
    ["id", shown(id, 1_000), ".mono.wrap"],
  ]);
  const more = again.length - MAX_NAMES;
  // Replayed, they are handled with other events.
  const isWhole = state === "dead" && (batch?.events ?? 1) > 1;
  const body = [
    tag("h1", "Repeat from this step?"),
    tag("div.note", known),
    tag(
      "div.note",
      tag("p", "These steps are forgotten with their results, and taken again:"),
      tag(
        "ul",
        again.slice(0, MAX_NAMES).map((name) => tag("li.mono", shown(name, 300))),
        more > 0 && tag("li", `and ${number(more)} more`),
      ),
      tag(
        "p",
        "Their effects outside of the app happen again. Answers that came after the step are forgotten as well. ",
        CONSEQUENCES[state],
      ),
      isWhole && tag("p", "It was handled together with others: all of its steps are taken again."),
    ),
    deedForm(
      "repeat",
      { id, step },
      tag("button.danger", "Repeat from this step"),
      a(link("delivery", { id }), "Keep it", "button"),
    ),
  ];
  return { title: "Confirm", at: "deliveries", body: html`${body}`, isPrivate: true };
}

/** Plans to forget a step and the later ones, and to have the event handled again. */
export async function repeat(visit: Visit): Promise<Plan> {
  const { data: { store } } = visit;
  const fields = deedFields(visit.parameters);
  const [id = "", step = ""] = [text(fields, "id"), text(fields, "step")];
  const record = recordOf((await found(visit.data, id)).event);
  const again = stepsFrom(record, step);
  const consequence = record ? CONSEQUENCES[record.state] ?? "" : "";
  return planDeed(visit, fields, {
    kind: "repeat",
    would: `These steps are forgotten, and taken again: ${
      again.slice(0, MAX_NAMES).join(", ")
    }. ${consequence}`,
    why: again.length > 0 ? undefined : whyNotFrom(record),
    eventId: id,
    about: record && aboutOf(record),
    change: async (by) => {
      if (!await store.forgetStep(id, step, { by })) return false;
      // A dead one waits for that. If it was put back meanwhile, it goes on without the step as well.
      if (record?.state === "dead") await store.replay(id, { by });
      return true;
    },
    whyNot: "The event runs, has ended, or has no such step any more. Look again.",
    next: () => link("delivery", { id }),
  });
}
