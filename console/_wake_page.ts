import { html, raw } from "@hono/hono/html";
import type { EventRecord } from "../events/mod.ts";
import { askingStepOf, questionNameOf } from "../events/store/questions.ts";
import { MAX_WAKE_BYTES } from "../events/store/waits.ts";
import type { ConsoleData } from "./_console_data.ts";
import { deedFields, deedForm, type Plan, planDeed } from "./_deeds.ts";
import { payloadOf } from "./_delivery_page.ts";
import { found as deliveryOf } from "./_found.ts";
import { aboutOf, dated, link, number, recordOf, shown } from "./_format.ts";
import { Refusal } from "./_http.ts";
import { a, facts, KIND_NAMES, type Page, tag, type Visit } from "./_layout.ts";
import { text, word } from "./_query.ts";
import { awaitedBy, endOf } from "./_waits.ts";
import { type ParkedEvent, parkedOf, whatOf } from "./_parked_page.ts";

/** Question whether to wake an event. */
interface WakeForm {
  readonly record: EventRecord;
  readonly wait: NonNullable<EventRecord["waitingFor"]>;
  /** Ids of the senders who may answer; undefined for anybody, or if it waits for no question. */
  readonly senders: readonly number[] | undefined;
  /** Text that was typed before, and what is wrong with it. */
  readonly typed?: string;
  readonly flaw?: string;
}

/** Event that waits to be woken, and who may answer. */
export interface Waiting extends ParkedEvent {
  /** Ids of the senders who may answer, of whom an operator names one; undefined for anybody, or for no question. */
  readonly senders: readonly number[] | undefined;
}

/**
 * Reads what the form that wakes an event shows.
 *
 * @throws {Refusal} 404 if there is none of this id, 409 if it does not wait, or only for a free place.
 */
export async function readWaiting(
  data: ConsoleData,
  parameters: URLSearchParams,
): Promise<Waiting> {
  const { record, wait, senders } = await waiting(data, text(parameters, "id"));
  return { ...parkedOf(record, wait, undefined), senders };
}

/** Takes out what an event waits for and is about, and the ids of who may answer, where payloads are not shown. */
export const hideWaiting = (event: Waiting): Waiting => ({
  ...event,
  ...{ name: undefined, description: undefined, senders: event.senders && [] },
});

/** Answers with the form that wakes an event. */
export async function wakeQuestion(visit: Visit): Promise<Page> {
  return await wakePage(visit, await waiting(visit.data, text(visit.parameters, "id")));
}

/** Reads an event that waits to be woken. */
async function waiting(data: ConsoleData, id: string | undefined): Promise<WakeForm> {
  const { event, answer } = await deliveryOf(data, id);
  const record = recordOf(event);
  if (!record?.waitingFor || record.state !== "parked") {
    throw new Refusal(409, "It does not wait", "This event does not wait to be woken any more.");
  }
  if (answer) throw new Refusal(409, "It is answered already", ANSWERED);
  const question = await data.store.inspect.question(record);
  return { record, wait: record.waitingFor, senders: question?.by };
}

async function wakePage({ data, context }: Visit, form: WakeForm): Promise<Page> {
  const { record, wait, senders, typed = "", flaw } = form;
  const { id, description } = record;
  const { hidesPayloads } = context;
  const waitsFor = awaitedBy(wait.name);
  const asked = askingStepOf(record, wait.name);
  const kind = endOf(waitsFor);
  const label = KIND_NAMES[kind];
  const title = kind === "answer" ? "Answer the question of this event" : "Wake this event";
  const payload = hidesPayloads ? null : await data.payload(record);
  const known = facts([
    ["event", a(link("delivery", { id }), aboutOf(record))],
    ["about", !hidesPayloads && description !== undefined && shown(description)],
    ["waits for", whatOf({ waitsFor, asked, name: hidesPayloads ? undefined : wait.name })],
    ["may answer", kind === "answer" && mayAnswer(senders, hidesPayloads)],
    ["since", dated(wait.since)],
    ["until", dated(wait.until)],
    ["id", shown(id, 1_000), ".mono.wrap"],
  ]);
  const value = html`
    <label
      for="value">Value as JSON, such as <code>true</code> or <code>"go"</code>; empty for none</label>
    <textarea id="value" name="value" rows="4" spellcheck="false" ${raw(
      flaw === undefined ? "" : ` aria-invalid="true" aria-describedby="flaw"`,
    )}>${typed}</textarea>
  `;
  const choice = hidesPayloads
    ? html`<input name="as" inputmode="numeric" required placeholder="id of a sender">`
    : html`<select name="as">${
      senders?.slice(0, MAX_SENDERS).map((each) => html`<option>${each}</option>`)
    }</select>`;
  const as = senders && tag("label", "In the name of ", choice);
  const button = tag("button.go", label);
  const back = a(link("delivery", { id }), "Back", "button");
  const body = [
    tag("h1", title),
    flaw !== undefined && html`
      <div class="note bad" role="alert">
        <p id="flaw">${flaw}</p>
      </div>
    `,
    tag("div.note", known),
    tag("p", "Its handler goes on with the value, as if it had come from where it was expected."),
    deedForm(
      "wake",
      { id, kind, since: wait.since },
      tag("div.wide", value),
      as,
      button,
      back,
    ),
    html`<details class="payload"><summary>Payload</summary>${
      payloadOf(record, payload, context)
    }</details>`,
  ];
  return { title: label, at: "parked", body: html`${body}`, isPrivate: true };
}

/** Names the senders who may answer, unless they are hidden. */
function mayAnswer(senders: readonly number[] | undefined, isHidden: boolean): string {
  if (!senders) return "anybody";
  if (isHidden) return "only some senders";
  const more = senders.length - MAX_NAMED;
  const others = more > 0 ? ` and ${number(more)} more` : "";
  return `only the senders ${senders.slice(0, MAX_NAMED).join(", ")}${others}`;
}

/** Most senders to choose from. */
const MAX_SENDERS = 1_000;

/** Plans to wake an event with the value of the form, or shows the form again with what is wrong. */
export async function wake(visit: Visit): Promise<Plan | Page> {
  const { data, context } = visit;
  const fields = deedFields(visit.parameters);
  const id = text(fields, "id");
  const typed = fields.get("value") ?? "";
  const given = valueOf(typed);
  if ("flaw" in given) {
    return { ...await wakePage(visit, { ...await waiting(data, id), typed, ...given }), ...given };
  }
  const { event, answer } = await deliveryOf(data, id);
  const record = recordOf(event);
  const wait = record?.waitingFor;
  // Another wait than the one of the form has another meaning.
  const isMeant = record?.state === "parked" && String(wait?.since) === fields.get("since");
  const as = senderIn(fields.get("as"));
  const gone = answer ? ANSWERED : GONE;
  const isOpen = isMeant && !answer;
  const wrong = isOpen
    ? await whyNotAs(data, record, fields.get("as"), context.hidesPayloads)
    : undefined;
  const sent = word(fields, "kind", ["wake", "answer"]) ?? "wake";
  const plan = planDeed(visit, fields, {
    // A wait that is over does not tell its kind: only an act that has been done is sent again then.
    kind: isMeant ? endOf(awaitedBy(wait!.name)) : sent,
    as,
    would: `Its handler goes on ${
      given.value === undefined ? "without a value" : "with the value"
    }.`,
    why: isOpen ? wrong : gone,
    eventId: id!,
    about: record && aboutOf(record),
    change: async (by) => isOpen && await wakeIt(data, record, { value: given.value, by, as }),
    whyNot: gone,
    next: () => link("delivery", { id }),
  });
  if (wrong === undefined) return plan;
  return { ...plan, run: () => Promise.reject(new Refusal(400, "Nothing was changed", wrong)) };
}

const ANSWERED = "Its answer is there already: the event waits for a free place to go on.";

const GONE = "The event does not wait for this any more, or somebody was faster. Look again.";

/** Finds why nobody may answer in a name; undefined if that is possible. */
async function whyNotAs(
  { store }: ConsoleData,
  record: EventRecord,
  as: string | null,
  hidesPayloads: boolean,
): Promise<string | undefined> {
  const senders = (await store.inspect.question(record))?.by;
  if (!senders) {
    return as === null ? undefined : "It names no senders who may answer: leave 'as' out.";
  }
  if (senders.map(String).includes(as ?? "")) return undefined;
  const names = hidesPayloads ? "" : `: ${senders.slice(0, MAX_NAMED).join(", ")}`;
  return `Only some senders may answer. 'as' must be the id of one of them${names}`;
}

/** Most senders that a reason names. */
const MAX_NAMED = 20;

/** Reads the sender in whose name somebody answers; undefined for none. */
const senderIn = (as: string | null): number | undefined =>
  as !== null && /^-?\d{1,16}$/.test(as) ? Number(as) : undefined;

async function wakeIt(
  { store }: ConsoleData,
  record: EventRecord,
  { value, by, as }: {
    readonly value: unknown;
    readonly by: string;
    readonly as: number | undefined;
  },
): Promise<boolean> {
  const { name } = record.waitingFor!;
  const question = questionNameOf(name);
  if (question === undefined) {
    const { outcome } = await store.wake(name, value, { by, eventId: record.id });
    return outcome === "woken";
  }
  const { outcome } = await store.answer(question, value, { by: as, operator: by });
  if (outcome === "refused") throw new Error("This sender may not answer the question");
  return outcome === "taken";
}

/** Reads a value as JSON, or says what is wrong with it. An empty text is no value. */
function valueOf(typed: string): { readonly value: unknown } | { readonly flaw: string } {
  if (typed.trim() === "") return { value: undefined };
  let value: unknown;
  try {
    value = JSON.parse(typed);
  } catch {
    const isWord = /^[^"{[\d]/.test(typed.trim());
    const advice = isWord ? ' A text needs quotes: "go".' : "";
    return { flaw: `This is not JSON.${advice} Nothing was changed.` };
  }
  const bytes = new TextEncoder().encode(JSON.stringify(value)).byteLength;
  const max = MAX_WAKE_BYTES - RESERVED;
  if (bytes <= max) return { value };
  return {
    flaw: `The value takes ${number(bytes)} bytes, over ${number(max)}. Nothing was changed.`,
  };
}

/** Bytes of an answer beside its value. */
const RESERVED = 192;
