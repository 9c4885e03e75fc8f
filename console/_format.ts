/**
 * Values and events as pages show them, in a few characters.
 *
 * @module
 */
import { html } from "@hono/hono/html";
import { duration } from "../core/duration.ts";
import { isTime } from "../core/shape.ts";
import type { EventRecord, StoredEvent } from "../events/mod.ts";
import type { BoundedCount } from "../events/store/mod.ts";
import { waitsForLimit } from "../events/store/settlement.ts";
import { MAX_COUNT } from "./_counts.ts";

export { duration };

/** Part of a page, with everything in it escaped. */
export type Html = ReturnType<typeof html>;

/** Characters that a reader cannot see, or that change the order in which others are shown. */
const HIDDEN = new RegExp(
  "[\\0-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f" +
    "\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u2800\\u3164\\ufeff\\uffa0\\ufff9-\\ufffb" +
    "\\u{e0000}-\\u{e0fff}]",
  "gu",
);

/** Shows characters that cannot be seen as `\uXXXX`, so that a text cannot pose as another. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (each) => {
    const code = each.codePointAt(0)!.toString(16).padStart(4, "0");
    return code.length > 4 ? `\\u{${code}}` : `\\u${code}`;
  });
}

/** Shows a text that others have written, bounded in length. */
export function shown(text: string, max = 200): string {
  return visible(text.length > max ? `${text.slice(0, max)}…` : text);
}

/** Formats a number with separators. */
export const number = (value: number): string => value.toLocaleString("en-US");

/** Formats a count: `10,000+` beyond the largest one, and `at least 980` if it was cut short. */
export function countText({ count, isMore }: BoundedCount): string {
  if (!isMore) return number(count);
  return count < MAX_COUNT ? `at least ${number(count)}` : `${number(count)}+`;
}

/** Shows a time in UTC. The script shows it in the reader's zone instead, and UTC on hover. */
export function time(at: number, form: "full" | "short" | "minute" = "full"): Html {
  if (!isTime(at)) return html`<span>at no time</span>`;
  const iso = new Date(at).toISOString();
  const text = form === "minute"
    ? iso.slice(11, 16)
    : form === "short"
    ? `${iso.slice(5, 10)} ${iso.slice(11, 19)} UTC`
    : `${iso.slice(0, 10)} ${iso.slice(11, 19)}.${iso.slice(20, 23)} UTC`;
  return html`<time datetime="${iso}" data-form="${form}" title="${iso}">${text}</time>`;
}

/** Length from which on {@linkcode duration} shows whole seconds, in milliseconds. */
const WHOLE_SECONDS_MS = 10_000;

/**
 * Shows how long ago a time was, or in how long it comes, with the time on hover. The script counts on.
 *
 * @param at The time, milliseconds since the epoch.
 * @param now The time now.
 * @returns The part of a page.
 */
export function when(at: number, now: number = Date.now()): Html {
  if (!isTime(at)) return html`<span>at no time</span>`;
  const iso = new Date(at).toISOString();
  return html`<time datetime="${iso}" data-form="ago" title="${iso}">${distance(at, now)}</time>`;
}

function distance(at: number, now: number): string {
  const [away, isAhead] = [Math.abs(now - at), at > now];
  if (away < 1_000) return isAhead ? "now" : "just now";
  const length = away < WHOLE_SECONDS_MS ? `${Math.floor(away / 1_000)} s` : duration(away);
  return isAhead ? `in ${length}` : `${length} ago`;
}

/** Shows how long ago a time was, or in how long it comes, and the time itself beside it. */
export const dated = (at: number): Html => html`${when(at)} <span class="dim">${time(at)}</span>`;

/** Names a state for people: by the one word that addresses, the tool and messages have for it as well. */
export const stateName = (state: StoredEvent["state"]): string => state;

/** Shows a state, by its colour and its name. */
export function stateBadge(state: StoredEvent["state"]): Html {
  return html`<span class="state ${state}">${stateName(state)}</span>`;
}

/** Makes a relative URL of a page: all pages lie beside each other, so it works below any prefix. */
export function link(page: string, parameters: object = {}): string {
  const pairs = Object.entries(parameters).filter(([, value]) => value !== undefined);
  const query = new URLSearchParams(pairs).toString();
  return `${page || "./"}${query && `?${query}`}`;
}

/** Returns the record of an event; undefined if this version cannot read it. */
export const recordOf = (event: StoredEvent): EventRecord | undefined =>
  event.state === "unreadable" ? undefined : event as EventRecord;

/** Counts the events that are handled together, if an event is the first one of a batch. */
export const eventsIn = (event: StoredEvent): number => recordOf(event)?.batch?.events ?? 1;

/** Names an event by its type and action. */
export const nameOf = ({ type, action }: EventRecord): string =>
  shown(action === undefined ? type : `${type}.${action}`, 120);

/** Names the repository or the chat of an event; undefined without one. */
export const placeOf = ({ repository, chat }: EventRecord): string | undefined =>
  repository ? shown(repository.fullName, 150) : chat ? `chat ${chat.id}` : undefined;

/** Names the user who caused an event; undefined without one. */
export const senderOf = ({ sender }: EventRecord): string | undefined =>
  sender && `${shown(sender.name ?? String(sender.id))}${sender.isBot ? " (bot)" : ""}`;

/** Names an event so that a person recognizes it, without who caused it: some readers may not see that. */
export function aboutOf(record: EventRecord): string {
  const place = placeOf(record);
  return place === undefined ? nameOf(record) : `${nameOf(record)} in ${place}`;
}

/** Time for which an event may be due before its page says for how long it has been. */
const SOON_MS = 5_000;

/**
 * Says what an open event waits for, in a few words: a retry, a time, others of its ordering group, an answer.
 * Only its record is read, which does not tell whether its answer is there.
 *
 * @param record The record.
 * @param now The time, milliseconds since the epoch.
 * @param isAnswered True if it is parked, and what it has waited for is there.
 * @returns The words; undefined if the state alone says it.
 */
export function waitOf(
  record: EventRecord,
  now: number,
  isAnswered = false,
): string | undefined {
  const { state, lease, waitingFor, cancelRequestedAt } = record;
  if (state === "queued") return nextOf(record, now);
  if (state === "parked" && waitingFor) {
    if (isAnswered) return "answered, waits for a place";
    const left = waitingFor.until - now;
    return left > 0 ? `${duration(left)} at most` : "its time is over";
  }
  if (state !== "running") return undefined;
  if (lease && lease.until < now - SOON_MS) return `lease over for ${duration(now - lease.until)}`;
  return cancelRequestedAt === undefined ? undefined : "cancelled";
}

function nextOf(record: EventRecord, now: number): string {
  const { dueAt, group, quiet, batch, attempt, putOff, attempts, limitedBy } = record;
  if (dueAt === null) return "behind others";
  const left = dueAt - now;
  if (left <= -SOON_MS) return `due for ${duration(-left)}`;
  if (left <= 0) return "due";
  const time = `in ${duration(left)}`;
  if (waitsForLimit(record)) {
    return `${limitedBy === undefined ? "handler busy" : "no room"}, ${time}`;
  }
  // Its handler has put it off since its last attempt ended.
  if (putOff && putOff.at >= (attempts.at(-1)?.endedAt ?? -Infinity)) return `put off, ${time}`;
  if (attempt > 0) return `retry ${time}`;
  return quiet && group && !batch ? `until quiet, ${time}` : `planned ${time}`;
}
