import type { EventRecord } from "../events/mod.ts";
import { askingStepOf } from "../events/store/questions.ts";
import type { ConsoleData } from "./_console_data.ts";
import { wakeLink } from "./_delivery_page.ts";
import { aboutOf, type Html, link, number, recordOf, shown, when } from "./_format.ts";
import { ParameterError } from "./_http.ts";
import {
  a,
  beside,
  isOperator,
  live,
  type Page,
  type PageContext,
  table,
  tag,
  td,
  type Visit,
} from "./_layout.ts";
import { text } from "./_query.ts";
import { type Awaited, awaitedBy, readAnswers, type WaitingAnswer } from "./_waits.ts";

/** Most events of a page, and most records read for it. */
const SHOWN = 50;

const MAX_READS = 500;

/** Most pages of events that only sleep which are passed over to find one that has others. */
const MAX_PASSED = 10;

/** Event that waits to be woken. */
export interface ParkedEvent {
  /** Its id. */
  readonly id: string;
  /** Its type, and the repository or chat that it belongs to. */
  readonly about: string;
  /** Description, in its own words; undefined if that is not known, or not shown. */
  readonly description: string | undefined;
  /** Kind of what it waits for. */
  readonly waitsFor: Awaited;
  /** Name of the step that has asked; undefined if it waits for no answer, or that is not known. */
  readonly asked: string | undefined;
  /** Name that it waits for; undefined where names are not shown. */
  readonly name: string | undefined;
  /** Time at which it was parked, milliseconds since the epoch. */
  readonly since: number;
  /** Time until which it waits, milliseconds since the epoch. */
  readonly until: number;
  /** Time at which its answer came, milliseconds since the epoch: it waits for a free place. Undefined before that. */
  readonly answeredAt: number | undefined;
}

/** Page of the events that wait for somebody. */
export interface Parked {
  /** Events, the one that was received first, first: at most 50. Without that order if there are more than 2,000. */
  readonly events: readonly ParkedEvent[];
  /** Number of events that were passed over, since they only sleep until a time. */
  readonly sleeping: number;
  /** Cursor for the next page; undefined if there is none. */
  readonly cursor: string | undefined;
}

/** Reads a page of the events that wait for somebody: those that only sleep are left out. */
export async function readParked(
  { store }: ConsoleData,
  parameters: URLSearchParams,
): Promise<Parked> {
  let cursor = text(parameters, "cursor");
  let [events, sleeping]: [ParkedEvent[], number] = [[], 0];
  for (let i = 0; i < MAX_PASSED && events.length === 0 && (i === 0 || cursor !== undefined); i++) {
    const page = await pageOf(store, cursor);
    const answers = await readAnswers(store, page.events);
    const all = page.events.flatMap((event) => {
      const record = recordOf(event);
      const answer = answers.get(event.id);
      return record?.waitingFor ? [parkedOf(record, record.waitingFor, answer)] : [];
    });
    events = all.filter(({ waitsFor }) => waitsFor !== "time");
    sleeping += all.length - events.length;
    cursor = page.cursor;
  }
  return { events, sleeping, cursor };
}

/** Takes out the names that events wait for, and what they are about, where payloads are not shown. */
export const hideParked = ({ events, ...page }: Parked): Parked => ({
  ...page,
  events: events.map((event) => ({ ...event, name: undefined, description: undefined })),
});

async function pageOf(store: ConsoleData["store"], cursor: string | undefined) {
  try {
    const list = store.list({ state: "parked", limit: SHOWN, maxReads: MAX_READS, cursor });
    return { events: await Array.fromAsync(list), cursor: list.cursor };
  } catch (error) {
    const isWrong = error instanceof TypeError || error instanceof RangeError;
    if (isWrong && cursor !== undefined) throw new ParameterError("'cursor' is none of this list");
    throw error;
  }
}

export function parkedOf(
  record: EventRecord,
  { name, since, until }: NonNullable<EventRecord["waitingFor"]>,
  answer: WaitingAnswer | undefined,
): ParkedEvent {
  const { id, description } = record;
  const about = aboutOf(record);
  const asked = askingStepOf(record, name);
  return {
    ...{ id, about, description, waitsFor: awaitedBy(name), asked, name, since, until },
    answeredAt: answer?.at,
  };
}

/** Answers with the events that wait to be woken. */
export async function parked({ data, parameters, context }: Visit): Promise<Page> {
  const found = await readParked(data, parameters);
  const page = context.hidesPayloads ? hideParked(found) : found;
  const isFirst = !parameters.has("cursor");
  const body = parkedPage(page, isFirst, context);
  return { title: "Parked", at: "parked", body, isLive: isFirst, isPrivate: true };
}

function parkedPage(
  { events, sleeping, cursor }: Parked,
  isFirst: boolean,
  context: PageContext,
): Html {
  const canAct = isOperator(context);
  const columns = {
    ...{ event: "", "waits for": "", since: "", until: "" },
    ...(canAct && { act: "" }),
  };
  const rows = events.map((event) => [
    ...cellsOf(event),
    ...canAct ? [td(event.answeredAt === undefined && wakeLink(event.id, event.waitsFor))] : [],
  ]);
  const more = (cursor !== undefined || !isFirst) && tag(
    "p.more",
    !isFirst && [a("parked", "The first"), " "],
    cursor !== undefined && a(link("parked", { cursor }), "More"),
  );
  const empty = "No event waits for somebody.";
  const all = a(link("deliveries", { state: "parked" }), "deliveries that are parked");
  const asleep = sleeping > 0 && tag(
    "p.dim",
    `Left out here: ${number(sleeping)} that only sleep until a time. They are among the `,
    all,
    ".",
  );
  return live(
    isFirst ? "rest" : undefined,
    tag("div.head", tag("h1", "Parked")),
    table("Waiting", columns, rows, { style: "cards", empty }),
    asleep,
    more,
  );
}

function cellsOf(event: ParkedEvent): Html[] {
  const { id, about, description, since, until, answeredAt } = event;
  const left = until - Date.now();
  return [
    td([
      a(link("delivery", { id }), shown(about, 200)),
      beside(description !== undefined && shown(description)),
    ], "wrap"),
    td([
      whatOf(event),
      answeredAt !== undefined &&
      tag("div.dim", "answered ", when(answeredAt), ", waits for a place"),
    ], "wrap"),
    td(when(since)),
    td(answeredAt === undefined && [left <= 0 && "its time is over ", when(until)]),
  ];
}

export function whatOf(
  { waitsFor, asked, name }: Pick<ParkedEvent, "waitsFor" | "asked" | "name">,
) {
  if (waitsFor === "answer") {
    return asked === undefined
      ? "the answer to a question"
      : ["the answer to ", tag("span.mono", shown(asked, 300))];
  }
  if (waitsFor === "time") return "a time";
  return name === undefined ? "a name" : ["the name ", tag("span.mono", shown(name, 256))];
}
