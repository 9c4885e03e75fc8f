/**
 * Descriptions of events in a few words, taken from their payloads while these are parsed: a list of events can then say
 * them without reading payloads.
 *
 * By default nothing of a private conversation is taken: a payload is deleted once its event is done, and the words stay as
 * long as the record.
 *
 * @module
 */
import { metSync } from "../core/check_options.ts";
import { fieldOf, type JsonObject } from "../core/parse_json.ts";
import type { Delivery } from "../events/store/mod.ts";
import { objectOf, textOf } from "./readers.ts";

/**
 * Says what a delivery is about: `#1442 Crash on start`. Undefined for what the package says by default, and an empty text
 * for nothing.
 */
export type Describe = (delivery: Delivery) => string | undefined;

/** Beginnings of the names of branches and tags. */
const REF = /^refs\/(?:heads|tags)\//;

/**
 * Describes a delivery by the shape of its payload: of a code host, of Telegram, of Slack, of Stripe, or one with a
 * title.
 *
 * @param delivery The delivery.
 * @returns The words; undefined for a payload of another shape.
 */
export function aboutOf(delivery: Delivery): string | undefined {
  const { platform, type, payload } = delivery;
  if (platform === "forge") return aboutForge(payload);
  return platform === "messenger" ? aboutUpdate(objectOf(payload[type])) : aboutOther(payload);
}

/**
 * Describes a delivery by the app's function, or by the shape of its payload.
 *
 * @param delivery The delivery.
 * @param describe The app's function; undefined for none.
 * @returns The words; undefined for none.
 * @throws {TypeError} If the function returns something else than a text.
 */
export function described(delivery: Delivery, describe: Describe | undefined): string | undefined {
  const text: unknown = describe?.(delivery);
  if (text === undefined) return aboutOf(delivery);
  if (typeof text === "string") return text;
  throw new TypeError(`describe must return a text or undefined, got ${metSync(text)}`);
}

/** Puts texts together, without those that are missing. */
function words(...parts: readonly (string | undefined)[]): string | undefined {
  const text = parts.filter((part) => part !== undefined && part !== "").join(" ");
  return text === "" ? undefined : text;
}

/** Reads a number or a text as a text. */
function shownOf(value: unknown): string | undefined {
  return typeof value === "number" ? String(value) : textOf(value);
}

const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function aboutForge(payload: JsonObject): string | undefined {
  return aboutItem(payload) ?? aboutPush(payload) ?? aboutRun(payload) ?? aboutNamed(payload);
}

/** Describes what has a number and a title: an issue, a pull or merge request, a discussion. */
function aboutItem(payload: JsonObject): string | undefined {
  const { issue, pull_request, merge_request, discussion, object_attributes } = payload;
  for (const item of [issue, pull_request, merge_request, discussion, object_attributes]) {
    if (!isObject(item)) continue;
    const title = textOf(item.title);
    const number = shownOf(item.number ?? item.iid);
    if (title === undefined || number === undefined) continue;
    const isMerge = item === merge_request || payload.object_kind === "merge_request";
    return `${isMerge ? "!" : "#"}${number} ${title}`;
  }
  return undefined;
}

/** Describes a push, and what is made or deleted of branches and tags. */
function aboutPush(payload: JsonObject): string | undefined {
  const { commits, ref: whole, ref_type: kind, deleted, head_commit } = payload;
  const ref = textOf(whole)?.replace(REF, "");
  if (ref === undefined) return undefined;
  if (kind !== undefined) return words(textOf(kind), ref);
  if (deleted === true) return `${ref} deleted`;
  if (!Array.isArray(commits)) return undefined;
  const last = objectOf(head_commit ?? commits.at(-1));
  const message = textOf(last.message)?.split("\n", 1)[0];
  const more = commits.length > 1 ? `(${commits.length} commits)` : undefined;
  return words(message === undefined ? ref : `${ref}: ${message}`, more);
}

/** Describes a run of a pipeline, or what is reported about a commit. */
function aboutRun(payload: JsonObject): string | undefined {
  const { workflow_run, workflow_job, check_run, check_suite, deployment, object_kind } = payload;
  for (const run of [workflow_run, workflow_job, check_run, check_suite, deployment]) {
    if (!isObject(run)) continue;
    const name = textOf(run.name) ?? textOf(run.environment);
    const branch = textOf(run.head_branch);
    const state = textOf(run.conclusion) ?? textOf(objectOf(payload.deployment_status).state) ??
      textOf(run.status);
    return stated(words(name, branch === undefined ? undefined : `on ${branch}`), state);
  }
  if (object_kind === "pipeline") {
    const { id, ref, status } = objectOf(payload.object_attributes);
    return stated(words(`#${shownOf(id)}`, "on", textOf(ref)), textOf(status));
  }
  if (object_kind === "build") {
    return stated(textOf(payload.build_name), textOf(payload.build_status));
  }
  return stated(textOf(payload.context), textOf(payload.state));
}

const stated = (name: string | undefined, state: string | undefined): string | undefined =>
  name === undefined ? undefined : state === undefined ? name : `${name}: ${state}`;

/** Objects of events that are about one thing, which has a name or a title. */
const NAMED = [
  ...["milestone", "label", "forkee", "team", "package", "rule", "key", "member", "invitation"],
  ...["object_attributes", "merge_group"],
] as const;

/** Describes what has a name or a title. */
function aboutNamed(payload: JsonObject): string | undefined {
  const { release, alert, installation, pages } = payload;
  if (isObject(release)) {
    const [tag, name] = [textOf(release.tag_name), textOf(release.name)];
    return words(tag, name === tag ? undefined : name);
  }
  // GitLab's release has its tag beside it.
  if (payload.object_kind === "release") return words(textOf(payload.tag), textOf(payload.name));
  if (isObject(alert)) {
    const what = textOf(objectOf(alert.rule).description) ??
      textOf(objectOf(alert.security_advisory).summary);
    return words(alert.number === undefined ? undefined : `#${shownOf(alert.number)}`, what);
  }
  const account = fieldOf(installation, "account");
  for (const each of [...NAMED.map((name) => payload[name]), fieldOf(pages, "0"), account]) {
    const { full_name, title, name, login, head_ref } = objectOf(each);
    const text = textOf(full_name) ?? textOf(title) ?? textOf(name) ?? textOf(login);
    const named = text ?? textOf(head_ref)?.replace(REF, "");
    if (named !== undefined) return named;
  }
  return textOf(payload.zen);
}

/** Kinds of content of a message. */
const CONTENTS = [
  ...["photo", "document", "voice", "audio", "video", "video_note", "sticker", "animation"],
  ...["location", "contact", "poll", "dice", "successful_payment", "new_chat_members"],
] as const;

/** A bot's command at the beginning of a text, without what follows: that may be private. */
const COMMAND = /^\/[\w-]{1,64}/;

/**
 * Describes an update of a messenger: a command, the data of a button, or the kind of its content, and nothing that a
 * person has written.
 */
function aboutUpdate(content: JsonObject): string | undefined {
  const { text } = content;
  const data = textOf(content.data);
  if (data !== undefined) return `button ${data}`;
  if (typeof text === "string") return COMMAND.exec(text)?.[0] ?? `text, ${lengthOf(text)}`;
  const kind = CONTENTS.find((name) => content[name] !== undefined)?.replaceAll("_", " ");
  const status = textOf(fieldOf(content.new_chat_member, "status"));
  return kind ?? (status === undefined ? undefined : `now ${status}`);
}

const lengthOf = ({ length }: string): string =>
  length === 1 ? "1 character" : `${length} characters`;

function aboutOther(payload: JsonObject): string | undefined {
  return aboutSlack(payload) ?? aboutStripe(payload) ?? aboutTitled(payload);
}

/** Describes an event, a command or an interaction of Slack: not the text of a message. */
function aboutSlack(payload: JsonObject): string | undefined {
  const { event, command, actions, callback_id, view, channel_id } = payload;
  const slash = textOf(command);
  if (slash?.startsWith("/")) {
    return words(slash, channel_id === undefined ? undefined : `in ${shownOf(channel_id)}`);
  }
  if (Array.isArray(actions)) return words("action", textOf(fieldOf(actions[0], "action_id")));
  if (payload.type === "event_callback" && isObject(event)) {
    const { type, subtype, channel, text } = event;
    const place = textOf(channel) ?? textOf(fieldOf(channel, "id"));
    const length = typeof text === "string" ? `, ${lengthOf(text)}` : "";
    const what = words(textOf(type), textOf(subtype));
    return words(what, place === undefined ? undefined : `in ${place}${length}`);
  }
  if (payload.team === undefined) return undefined;
  return textOf(callback_id) ?? textOf(fieldOf(view, "callback_id"));
}

/** Currencies whose amounts have no smaller unit at Stripe. */
const WHOLE = new Set("bif clp djf gnf jpy kmf krw mga pyg rwf ugx vnd vuv xaf xof xpf".split(" "));

/** Describes an event of Stripe, whole or thin: the object that it is about, and its amount. */
function aboutStripe(payload: JsonObject): string | undefined {
  const { object, data, related_object } = payload;
  if (object !== "event" && object !== "v2.core.event") return undefined;
  const about = objectOf(fieldOf(data, "object") ?? related_object);
  const { id, amount, amount_total, amount_due, currency, status } = about;
  const [sum, unit] = [amount ?? amount_total ?? amount_due, textOf(currency)];
  if (typeof sum !== "number" || unit === undefined) return words(shownOf(id), textOf(status));
  const value = WHOLE.has(unit) ? String(sum) : (sum / 100).toFixed(2);
  return words(shownOf(id), value, unit.toUpperCase());
}

/** Describes a payload by a title of its own, or of its data. */
function aboutTitled(payload: JsonObject): string | undefined {
  for (const each of [payload, objectOf(payload.data)]) {
    const text = textOf(each.title) ?? textOf(each.subject) ?? textOf(each.name);
    if (text !== undefined) return text;
  }
  return undefined;
}
