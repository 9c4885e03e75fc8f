/**
 * Acts on one thing that have forms of their own: their forms, and what follows them.
 *
 * @module
 */
import { html } from "@hono/hono/html";
import type { Act } from "./_act_record.ts";
import type { Deed } from "./_acts.ts";
import { fieldsOf, hidden } from "./_form_fields.ts";
import type { Html } from "./_format.ts";
import { link } from "./_format.ts";
import { ParameterError, redirect, Refusal } from "./_http.ts";
import { type Answering, type Content, type Page, tag, type Visit } from "./_layout.ts";
import { actIdOf, newActId } from "./_query.ts";

/** Fields that a person has typed: they come as they are. */
const TYPED: ReadonlySet<string> = new Set(["value"]);

/**
 * Makes the form of an act that happens once, however often it is sent.
 *
 * @param page The page that it is sent to.
 * @param fields The fields that say what is meant.
 * @param content What a reader sees of it: a button at least.
 */
export function deedForm(
  page: string,
  fields: Readonly<Record<string, string | number | undefined>>,
  ...content: readonly Content[]
): Html {
  const all = Object.entries({ ...fields, act: newActId(), escaped: 1 }).map(hidden);
  return html`<form class="row" method="post" action="${page}">${all}${content}</form>`;
}

/** Makes the form of an act that is one button, such as a danger. */
export const deedButton = (
  page: string,
  fields: Readonly<Record<string, string | number | undefined>>,
  text: string,
  style = "",
): Html => deedForm(page, fields, tag(`button${style && `.${style}`}`, text));

/** Reads the fields of such a form: what a person has typed as it is, and the others as the page had them. */
export function deedFields(form: URLSearchParams): URLSearchParams {
  const given = new URLSearchParams([...form].filter(([name]) => !TYPED.has(name)));
  const typed = [...form].filter(([name]) => TYPED.has(name));
  // Programs escape nothing.
  return new URLSearchParams([...given.has("escaped") ? fieldsOf(given) : given, ...typed]);
}

/**
 * Thing that a form asks for, once that is read and before anything is done: a program may ask for no more than what it
 * would be.
 */
export interface Plan {
  /** Kind, and what it is about. */
  readonly kind: Act["kind"] | "stop";
  readonly eventId?: string | undefined;
  readonly about?: string | undefined;
  /** Consequence that it would have, in words. */
  readonly would: string;
  /** Reason for which it would do nothing; undefined if it would do it. */
  readonly why?: string | undefined;
  /** Does it, and leads on. */
  readonly run: () => Promise<Response>;
}

/** Reads what a form asks for: a plan, or the page of the form again, with what is wrong with it. */
export type Planning = (visit: Visit) => Promise<Plan | Page>;

/** Answers a form by doing what it asks for. */
export const doing = (planning: Planning): Answering => async (visit) => {
  const planned = await planning(visit);
  return "run" in planned ? await planned.run() : planned;
};

/** Changes that the plan of a form would make, for a program that has asked. */
export type PlanDryRun = Omit<Plan, "run"> & {
  readonly dryRun: true;
  /** Number of things that it would change. */
  readonly count: 0 | 1;
  /** Id to do it with, within an hour: it is done once. Undefined if nothing would change. */
  readonly act?: string | undefined;
};

/** Tells what a plan would do. It begins nothing. */
export function dryRunOf({ run: _, ...plan }: Plan): PlanDryRun {
  const isOpen = plan.why === undefined;
  return { dryRun: true, ...plan, count: isOpen ? 1 : 0, act: isOpen ? newActId() : undefined };
}

/** Thing that is done by a form, without who does it. */
interface Deeds extends Omit<Deed, "id" | "by">, Pick<Plan, "would" | "why"> {
  /** Does it, for somebody; false if there is nothing to be done any more. */
  readonly change: (by: string) => Promise<boolean>;
  /** Reason why nothing was done then, for people. */
  readonly whyNot: string;
  /** Page that follows. */
  readonly next: () => string;
}

/** Plans what a form asks for, as an act that is kept. */
export function planDeed(visit: Visit, fields: URLSearchParams, deeds: Deeds): Plan {
  const { kind, eventId, about, would, why } = deeds;
  return { kind, eventId, about, would, why, run: () => doDeed(visit, fields, deeds) };
}

/**
 * Does what a form asks for, and leads on.
 *
 * @throws {Refusal} 409 if there was nothing to be done any more.
 */
async function doDeed(
  { data, by }: Visit,
  fields: URLSearchParams,
  { change, whyNot, next, kind, eventId, about, as }: Deeds,
): Promise<Response> {
  // A program may leave it out, and is not protected from doing it twice then.
  const id = fields.has("act") ? actIdOf(fields) : newActId();
  const deed = { id, by, as, kind, eventId, about };
  const act: Act = await data.acts.deed(deed, () => change(by));
  const isSame = act.kind === kind && act.eventId === eventId && act.about === about;
  if (!isSame || act.as !== as) {
    throw new ParameterError("'act' must be the act of the question");
  }
  if (act.state === "finished" && act.changed === 0) {
    throw new Refusal(409, "Nothing was changed", whyNot);
  }
  return redirect(act.state === "finished" ? next() : link("progress", { id }));
}
