import { html } from "@hono/hono/html";
import type { ListedState } from "../events/store/mod.ts";
import type { ConsoleData } from "./_console_data.ts";
import { deedFields, deedForm, type Plan, planDeed } from "./_deeds.ts";
import { dated, type Html, link, number, shown, when } from "./_format.ts";
import { ParameterError, Refusal } from "./_http.ts";
import { viewOf } from "./_json_view.ts";
import {
  a,
  dim,
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
import { MAX_LENGTHS, text } from "./_query.ts";

/** Most states that are shown. */
const SHOWN = 100;

/** State as a page shows it: all but its value. */
export interface StateHead
  extends Pick<ListedState, "intake" | "version" | "expiresAt" | "isUnreadable"> {
  /** Key; undefined where payloads are not shown: it may be that of a person. */
  readonly key: string | undefined;
}

/** States of conversations. */
export interface States {
  /** The first ones, by their intakes and keys: at most 100. */
  readonly states: readonly StateHead[];
  /** True if there are more. */
  readonly isMore: boolean;
}

/** State with its value. */
export interface StateWithValue extends StateHead {
  /** Value; undefined if it cannot be read, or payloads are not shown. */
  readonly value: unknown;
}

/** Reads the first states whose keys begin with a text, of one intake or of all. */
export async function readStates(
  { store }: ConsoleData,
  parameters: URLSearchParams,
  hidesPayloads: boolean,
): Promise<States> {
  const [prefix, intake] = [text(parameters, "prefix"), text(parameters, "intake")];
  if (hidesPayloads && prefix !== undefined) {
    throw new ParameterError("'prefix' looks for what is hidden here");
  }
  const states: StateHead[] = [];
  for await (const each of store.states({ prefix, intake })) {
    if (states.push(headOf(each)) > SHOWN) break;
  }
  return { states: states.slice(0, SHOWN), isMore: states.length > SHOWN };
}

const headOf = ({ intake, key, version, expiresAt, isUnreadable }: ListedState): StateHead => ({
  ...{ intake, key, version, expiresAt, isUnreadable },
});

/**
 * Reads a state.
 *
 * @throws {Refusal} 404 if there is none.
 */
export async function readState(
  data: ConsoleData,
  parameters: URLSearchParams,
): Promise<StateWithValue> {
  const state = await findState(data, parameters);
  if (!state) {
    const why = "No state has this key. It may have expired, or somebody has deleted it.";
    throw new Refusal(404, "No such state", why);
  }
  return { ...headOf(state), value: state.value };
}

/** Takes out the key of a state, and its value, where payloads are not shown. */
export const hideState = (state: StateWithValue): StateWithValue => ({
  ...state,
  ...{ key: undefined, value: undefined },
});

/** Takes out the keys of states, where payloads are not shown. */
export const hideStates = ({ states, isMore }: States): States => ({
  states: states.map((state) => ({ ...state, key: undefined })),
  isMore,
});

async function findState(
  { store }: ConsoleData,
  parameters: URLSearchParams,
): Promise<ListedState | undefined> {
  const [key = "", intake = ""] = [text(parameters, "key"), text(parameters, "intake")];
  // It is the first one that begins so.
  for await (const state of store.states({ intake, prefix: key })) {
    return state.key === key ? state : undefined;
  }
  return undefined;
}

/** Answers with the states. */
export async function states({ data, parameters, context }: Visit): Promise<Page> {
  const { hidesPayloads } = context;
  const found = await readStates(data, parameters, hidesPayloads);
  const body = statesPage(hidesPayloads ? hideStates(found) : found, parameters, context);
  return { title: "States", at: "states", body, isLive: true, isPrivate: true };
}

function statesPage(
  { states, isMore }: States,
  parameters: URLSearchParams,
  { hidesPayloads }: PageContext,
): Html {
  const field = (name: "prefix" | "intake" | "key", label: string) =>
    html`<label>${label}<input name="${name}" value="${parameters.get(name) ?? ""}" maxlength="${
      MAX_LENGTHS[name]
    }"></label>`;
  const form = html`
    <form class="filter" autocomplete="off"
      action="${hidesPayloads ? "state" : "states"}">${hidesPayloads
        ? field("key", "Key")
        : field("prefix", "Key begins with")}${field(
          "intake",
          "Intake",
        )}<div class="row"><button class="go">${hidesPayloads ? "Show" : "Filter"}</button>
    <a href="states">Clear</a></div></form>
  `;
  const columns = { key: "", intake: "", expires: "" };
  const empty = parameters.get("prefix") || parameters.get("intake")
    ? "No state matches."
    : "No handler has set a state.";
  const list = live(
    "rest",
    table("States", columns, states.map(cellsOf), { style: "cards", empty }),
    isMore &&
      tag(
        "p.dim",
        `These are the first ${number(SHOWN)}.`,
        !hidesPayloads && " Give the beginning of a key to see others.",
      ),
  );
  return html`${tag("div.head", tag("h1", "States of conversations"))}${form}<br>${list}`;
}

function cellsOf({ intake, key, expiresAt, isUnreadable }: StateHead): Html[] {
  return [
    key === undefined
      ? td("not shown", "dim")
      : td(a(link("state", { intake, key }), shown(key, 256), "mono"), "wrap"),
    td(intake === undefined ? dim("none") : shown(intake, 100)),
    td(
      isUnreadable
        ? dim("of another version")
        : expiresAt === undefined
        ? dim("never")
        : when(expiresAt),
    ),
  ];
}

/** Answers with a state. */
export async function state({ data, parameters, context }: Visit): Promise<Page> {
  const body = statePage(await readState(data, parameters), context);
  return { title: "State", at: "states", body, isPrivate: true };
}

function statePage(state: StateWithValue, context: PageContext): Html {
  const { intake, key, version, expiresAt, isUnreadable } = state;
  const known = facts([
    ["key", key !== undefined && !context.hidesPayloads && shown(key, 256), ".mono"],
    ["intake", intake === undefined ? "none" : shown(intake, 256)],
    ["expires", expiresAt === undefined ? !isUnreadable && "never" : dated(expiresAt)],
    ["version", tag("span.mono", shown(version, 100))],
  ]);
  const remove = isOperator(context) && [
    tag("h2", "Delete"),
    tag(
      "p",
      "A handler that has read this state and changes it fails, and starts again without it.",
    ),
    deedForm(
      "forget",
      { key, intake, version },
      tag("button.danger", "Delete this state"),
      a("states", "Keep it", "button"),
    ),
  ];
  return html`${tag("div.head", tag("h1", "State"))}${known}${tag("h2", "Value")}${
    valueOf(state, context)
  }${remove}`;
}

function valueOf({ value, isUnreadable }: StateWithValue, { hidesPayloads }: PageContext): Html {
  if (isUnreadable) {
    const why =
      "This version cannot read it: another version wrote it, or it is damaged. It is left as it is " +
      "until a version that can read it comes, or somebody deletes it.";
    return tag("div.note", tag("p", why));
  }
  if (hidesPayloads) return tag("p.dim", "Values are not shown here: the app hides payloads.");
  const { content, limit } = viewOf(new TextEncoder().encode(JSON.stringify(value)));
  const cut = limit !== undefined && tag("p.dim", `This is the beginning, at most ${limit}.`);
  return html`${cut || ""}${tag("div.json", content)}`;
}

/** Plans to delete a state, unless it has changed since it was shown. */
export async function forget(visit: Visit): Promise<Plan> {
  const fields = deedFields(visit.parameters);
  const [key = "", intake] = [text(fields, "key"), text(fields, "intake")];
  const isMeant = async () =>
    (await findState(visit.data, fields))?.version === fields.get("version");
  return planDeed(visit, fields, {
    kind: "forget",
    would:
      "It is deleted. A handler that has read it and changes it fails, and starts again without it.",
    why: await isMeant() ? undefined : CHANGED,
    about: `state ${key}${intake === undefined ? "" : ` of ${intake}`}`,
    change: async () => {
      const state = await findState(visit.data, fields);
      return state?.version === fields.get("version") && await state!.delete();
    },
    whyNot: CHANGED,
    next: () => "states",
  });
}

const CHANGED = "The state has changed since it was shown. Look again.";
