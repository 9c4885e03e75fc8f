/**
 * Acts on one thing that have forms of their own: their forms, and what follows them.
 *
 * @module
 */
import { html } from "@hono/hono/html";
import { fieldsOf, hidden } from "./_act_pages.ts";
import type { Act } from "./_act_record.ts";
import type { Deed } from "./_acts.ts";
import type { Html } from "./_format.ts";
import { link } from "./_format.ts";
import { ParameterError, redirect, Refusal } from "./_http.ts";
import { type Content, tag, type Visit } from "./_layout.ts";
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

/** Thing that is done by a form, without who does it. */
interface Deeds extends Omit<Deed, "id" | "by"> {
  /** Does it, for somebody; false if there is nothing to be done any more. */
  readonly change: (by: string) => Promise<boolean>;
  /** Reason why nothing was done then, for people. */
  readonly whyNot: string;
  /** Page that follows. */
  readonly next: () => string;
}

/**
 * Does what a form asks for, and leads on.
 *
 * @throws {Refusal} 409 if there was nothing to be done any more.
 */
export async function doDeed(
  { data, by }: Visit,
  fields: URLSearchParams,
  { change, whyNot, next, ...deed }: Deeds,
): Promise<Response> {
  // A program may leave it out, and is not protected from doing it twice then.
  const id = fields.has("act") ? actIdOf(fields) : newActId();
  const act: Act = await data.acts.deed({ id, by, ...deed }, () => change(by));
  if (act.kind !== deed.kind || act.eventId !== deed.eventId || act.about !== deed.about) {
    throw new ParameterError("'act' must be the act of the question");
  }
  if (act.state === "finished" && act.changed === 0) {
    throw new Refusal(409, "Nothing was changed", whyNot);
  }
  return redirect(act.state === "finished" ? next() : link("progress", { id }));
}
