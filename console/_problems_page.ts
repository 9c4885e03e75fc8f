import { html, raw } from "@hono/hono/html";
import type { EventRecord, Problem, ProblemList } from "../events/store/mod.ts";
import type { ConsoleData } from "./_console_data.ts";
import {
  countText,
  dated,
  type Html,
  link,
  nameOf,
  number,
  placeOf,
  recordOf,
  shown,
  stateBadge,
  stateName,
  when,
} from "./_format.ts";
import { ParameterError } from "./_http.ts";
import {
  a,
  beside,
  type Content,
  current,
  facts,
  isOperator,
  live,
  type Page,
  type PageContext,
  table,
  tag,
  td,
  type Visit,
} from "./_layout.ts";
import { type DeliveryQuery, problemIn, text, word } from "./_query.ts";
import type { DeliveryPage } from "./_search.ts";
import { nameOfError } from "./_timeline.ts";

/** Most problems that are shown. */
const SHOWN = 50;

/** Hours of the charts: of a list, and of one problem. */
const [HOURS, MORE_HOURS] = [24, 72] as const;

/** States in which the events of a problem are. */
const STATES = ["dead", "queued", "running"] as const;

/** Problem with its events. */
export interface ProblemData {
  /** The problem; null if it has no events any more. */
  readonly problem: Problem | null;
  /** Its events that are shown: of a state, or of any. */
  readonly query: DeliveryQuery;
  readonly page: DeliveryPage;
}

/** Reads the problems that have events, those with the most first. */
export function readProblems(data: ConsoleData): Promise<ProblemList> {
  return data.problems({ limit: SHOWN, hours: HOURS });
}

/**
 * Reads a problem and a page of its events, the newest first.
 *
 * @throws {ParameterError} If the id, the state or the cursor is none.
 */
export async function readProblem(
  data: ConsoleData,
  parameters: URLSearchParams,
): Promise<ProblemData> {
  const id = problemIn(parameters, "id");
  if (id === undefined) throw new ParameterError("'id' must be the id of a problem");
  const query = { problem: id, state: word(parameters, "state", STATES) };
  const [{ problems: [problem = null] }, page] = await Promise.all([
    data.problems({ id, hours: MORE_HOURS }),
    search(data, query, text(parameters, "cursor")),
  ]);
  return { problem, query, page };
}

async function search(data: ConsoleData, query: DeliveryQuery, cursor: string | undefined) {
  try {
    return await data.search(query, cursor);
  } catch (error) {
    const isWrong = error instanceof TypeError || error instanceof RangeError;
    if (isWrong && cursor !== undefined) throw new ParameterError("'cursor' is none of this list");
    throw error;
  }
}

/** Answers with the page of all problems. */
export async function problems({ data, context }: Visit): Promise<Page> {
  const { problems: found, count } = await readProblems(data);
  const hasVersions = found.some(({ versions }) => versions.length > 0);
  const columns = {
    ...{ error: "", dead: "num", retrying: "num", "last 24 h": "", last: "", first: "" },
    ...hasVersions && { versions: "" },
  };
  const rows = found.map((each) => cellsOf(each, hasVersions, context));
  const body = live(
    "rest",
    tag("div.head", tag("h1", "Problems")),
    found.length === 0
      ? tag(
        "div.empty",
        tag("h2", "No problem"),
        tag("p", "No event is dead or tried again because of an error."),
      )
      : table("Problems", columns, rows, { style: "list cards" }),
    count.count > found.length &&
      tag("p.dim", `These are the ${SHOWN} with the most events, of ${countText(count)}.`),
  );
  return { title: "Problems", at: "problems", body, isLive: true, isPrivate: true };
}

/** Answers with the page of one problem. */
export async function problem({ data, parameters, context }: Visit): Promise<Page> {
  const read = await readProblem(data, parameters);
  const body = read.problem ? problemPage(read.problem, read, context) : ended();
  const isThere = read.problem !== null;
  return { title: "Problem", at: "problems", body, isLive: isThere, isPrivate: isThere };
}

function ended(): Html {
  const text = "No event is dead or tried again because of it any more. ";
  const empty = tag("div.empty", tag("p", text, a("problems", "All problems")));
  return live("end", tag("h1", "This problem has ended"), empty);
}

function cellsOf(problem: Problem, hasVersions: boolean, context: PageContext): Html[] {
  const { id, dead, retrying, handler, source, hours, firstAt, lastAt } = problem;
  return [
    td([
      a(link("problem", { id }), errorOf(problem, 140, context)),
      tag("span.why.dim", shown(handler, 100), " of ", shown(source, 60)),
    ], "wrap"),
    td(dead.count > 0 && countText(dead), "num error"),
    td(retrying.count > 0 && countText(retrying), "num"),
    td(chartOf(hours), "off"),
    td(when(lastAt)),
    td(when(firstAt), "off"),
    ...hasVersions ? [td(versionsOf(problem) ?? "–", "off")] : [],
  ];
}

function problemPage(
  problem: Problem,
  { query, page }: ProblemData,
  context: PageContext,
): Html {
  const { id, dead, retrying, handler, source, hours, firstAt, lastAt, error } = problem;
  const total = hours.reduce((sum, each) => sum + each, 0);
  const known = facts([
    ["handler", shown(handler, 300)],
    ["source", shown(source, 100)],
    ["dead", dead.count > 0 && tag("span.dead", countText(dead))],
    ["tried again", retrying.count > 0 && countText(retrying)],
    ["failed attempts", [`${number(total)} in ${MORE_HOURS} hours `, chartOf(hours)]],
    ["last", dated(lastAt)],
    ["first", dated(firstAt)],
    ["versions", versionsOf(problem)],
  ]);
  const example = !context.hidesPayloads && tag("pre", shown(error, 1_000));
  const head = tag("div.head", tag("h1", errorOf(problem, 140, context)));
  const tabs = tag(
    "div.tabs",
    [undefined, ...STATES].map((state) => tabOf(id, state, state === query.state)),
  );
  return live(
    "rest",
    ...[head, known, example, isOperator(context) && actsOn(problem)],
    tag("div.head", tag("h2", "Events"), tabs),
    eventsOf(page, query, context),
  );
}

/** Shows the beginning of an error, or its name alone where the app hides what handlers put into it. */
export function errorOf(
  { error }: Pick<Problem, "error">,
  max: number,
  { hidesPayloads }: PageContext,
): string {
  if (hidesPayloads) return nameOfError(error);
  const [line = ""] = error.trimStart().split("\n", 1);
  return shown(line, max) || "An error without a text";
}

/** Lists the versions of the code that have met a problem; undefined if apps have none. */
const versionsOf = ({ versions }: Problem): string | undefined =>
  versions.map((version) => shown(version, 40)).join(", ") || undefined;

/** Links to the questions before acts on all events of a problem. */
function actsOn({ id: problem, dead, retrying }: Problem): Html {
  const act = (kind: string, state: string, label: string) =>
    a(link("act", { kind, state, problem }), `${label}…`, "button");
  return tag("div.row", [
    dead.count > 0 && act("replay", "dead", "Replay the dead"),
    dead.count > 0 && act("purge", "dead", "Purge the dead"),
    retrying.count > 0 && act("cancel", "queued", "Cancel the waiting"),
    retrying.count > 0 && act("cancel", "running", "Cancel the running"),
  ]);
}

const tabOf = (id: string, state: typeof STATES[number] | undefined, isCurrent: boolean): Html =>
  html`<a href="${link("problem", { id, state })}" ${current(isCurrent)}>${
    state ? stateName(state) : "all"
  }</a>`;

function eventsOf(
  { events, cursor, isCut }: DeliveryPage,
  query: DeliveryQuery,
  context: PageContext,
) {
  const { hidesPayloads } = context;
  const columns = {
    ...{ event: "", state: "", received: "", about: "" },
    ...!hidesPayloads && { error: "" },
    ...{ id: "id", attempts: "num" },
  };
  const rows = events.map((event) => {
    const { id, receivedAt, state } = event;
    const record = recordOf(event);
    const error = record?.attempts.at(-1)?.error;
    return [
      td(a(link("delivery", { id }), record ? nameOf(record) : "of another version")),
      td(stateBadge(state)),
      td(when(receivedAt)),
      td(record && aboutAndOrigin(record, hidesPayloads), "wrap"),
      ...hidesPayloads ? [] : [td(error !== undefined && shown(error.split("\n", 1)[0]!), "wrap")],
      td(shown(id, 90), "mono dim id off"),
      td(record && record.attempt > 0 && number(record.attempt), "num off"),
    ];
  });
  const { problem: id, state } = query;
  const older = cursor !== undefined &&
    a(link("problem", { id, state, cursor }), isCut ? "Search further back" : "Older", "button");
  const empty = isCut ? "None found so far." : "None in this state.";
  return [
    table("Events", columns, rows, { style: "list", empty }),
    tag(
      "p.more",
      older,
      a(link("deliveries", { state, problem: id }), "All of them, among the deliveries"),
    ),
  ];
}

/** Says what an event is about, where it has a description, and where it comes from. */
function aboutAndOrigin(record: EventRecord, hidesPayloads: boolean): Content {
  const { description, source } = record;
  const origin = [shown(source, 60), beside(placeOf(record))];
  if (hidesPayloads || description === undefined) return origin;
  return [tag("div", shown(description)), tag("div.why.dim", origin)];
}

/** Draws the failed attempts of hours as small bars. */
function chartOf(hours: readonly number[]): Html {
  const max = Math.max(1, ...hours);
  const total = hours.reduce((sum, each) => sum + each, 0);
  const path = hours.map((value, i) =>
    value === 0 ? "" : `M${i * 4 + 2} 20v${-Math.max(1, Math.round(20 * value / max))}`
  ).join("");
  const label = `${number(total)} failed attempts in ${hours.length} hours, at most ${
    number(max)
  } in one`;
  return html`
    <svg class="spark" viewBox="0 0 ${hours.length * 4} 20" preserveAspectRatio="none" role="img"
      aria-label="${label}">
      <title>${label}</title>
      <path class="s1" d="${raw(path)}" />
    </svg>
  `;
}
