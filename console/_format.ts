import { html } from "@hono/hono/html";
import type { EventState, StoredEvent } from "../events/mod.ts";
import type { Count } from "./_console_data.ts";
import { MAX_COUNT } from "./_counts.ts";

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
export function countText({ count, isMore }: Count): string {
  if (!isMore) return number(count);
  return count < MAX_COUNT ? `at least ${number(count)}` : `${number(count)}+`;
}

/** Formats a length of time in its two largest units: `1 h 5 min`. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10_000) return `${(ms / 1_000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  const parts = [
    [Math.floor(seconds / 86_400), "d"],
    [Math.floor(seconds / 3_600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [seconds % 60, "s"],
  ] as const;
  const first = parts.findIndex(([value]) => value > 0);
  return parts.slice(first, first + 2).filter(([value]) => value > 0)
    .map(([value, unit]) => `${value} ${unit}`).join(" ");
}

/** Largest time of a `Date`. */
const MAX_TIME = 8.64e15;

/** Shows a time in UTC. The script shows it in the reader's zone instead, and UTC on hover. */
export function time(at: number, form: "full" | "short" | "minute" = "full"): Html {
  if (!Number.isFinite(at) || Math.abs(at) > MAX_TIME) return html`<span>at no time</span>`;
  const iso = new Date(at).toISOString();
  const text = form === "minute"
    ? iso.slice(11, 16)
    : form === "short"
    ? `${iso.slice(5, 10)} ${iso.slice(11, 19)} UTC`
    : `${iso.slice(0, 10)} ${iso.slice(11, 19)}.${iso.slice(20, 23)} UTC`;
  return html`<time datetime="${iso}" data-form="${form}" title="${iso}">${text}</time>`;
}

/** States in the order of an event's life. */
export const STATES: readonly EventState[] = ["queued", "running", "parked", "done", "dead"];

/** Names of states for people. */
export const STATE_NAMES: Readonly<Record<StoredEvent["state"], string>> = {
  ...{ queued: "waiting", running: "running", parked: "parked", done: "done", dead: "dead" },
  unreadable: "unreadable",
};

/** Shows a state, by its colour and its name. */
export function stateBadge(state: StoredEvent["state"]): Html {
  return html`<span class="state ${state}">${STATE_NAMES[state] ?? "unknown"}</span>`;
}

/** Makes a relative URL of a page: all pages lie beside each other, so it works below any prefix. */
export function link(page: string, parameters: Readonly<Record<string, unknown>> = {}): string {
  const pairs = Object.entries(parameters).filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, String(value)]);
  const query = new URLSearchParams(pairs).toString();
  return query === "" ? page || "./" : `${page || "./"}?${query}`;
}
