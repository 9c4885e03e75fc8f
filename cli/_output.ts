import type { EventRecord, StoredEvent } from "../events/mod.ts";

/** What a terminal would act on: an error's message may quote what a stranger has sent. */
const CONTROL = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** The same, but for the line breaks between the lines of a text. */
const CONTROL_IN_LINES = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** The fields of a record that are times. */
const TIMES = ["at", "until", "receivedAt", "dueAt", "settledAt"];

/** How wide the name of a state can be. */
export const STATE_WIDTH = "unreadable".length;

const UNITS = [["d", 86_400_000], ["h", 3_600_000], ["m", 60_000]] as const;

/**
 * Makes a text that a terminal only shows: all that the tool writes passes here. What is escaped is
 * written as JSON has it, so that JSON stays what it is: outside of its texts it has nothing of that.
 */
export function printable(text: string): string {
  return text.replaceAll(CONTROL_IN_LINES, escaped);
}

/** Makes one line of a text, without what a terminal would act on. */
export function oneLine(text: string): string {
  return text.replaceAll(CONTROL, " ");
}

/** Writes a record as JSON for people: over several lines, its times as dates. */
export function readableJsonOf(record: object, payload: object): string {
  const dated = JSON.stringify(
    record,
    (key, value) => typeof value === "number" && TIMES.includes(key) ? isoOf(value) : value,
  );
  return JSON.stringify({ ...JSON.parse(dated), ...payload }, null, 2);
}

/** Writes an event as a line. */
export function lineOf(event: StoredEvent): string {
  const columns = event.state === "unreadable"
    ? [isoOf(event.receivedAt), event.state, "  -", "-", event.id, versionOf(event.v)]
    : columnsOf(event);
  return oneLine(columns.join("  ")).trimEnd();
}

/** Writes a time as a date and how long ago it was. */
export function agoOf(time: number, now: number): string {
  const ms = Math.max(0, now - time);
  const [unit, length] = UNITS.find(([, length]) => ms >= length) ?? ["s", 1_000];
  return `${isoOf(time)} (${Math.floor(ms / length)}${unit} ago)`;
}

function columnsOf(record: EventRecord): string[] {
  const { id, state, type, attempt, receivedAt, errors } = record;
  const error = errors.at(-1)?.message ?? "";
  const attempts = String(attempt).padStart(3);
  return [isoOf(receivedAt), state.padEnd(STATE_WIDTH), attempts, type, id, error];
}

function versionOf(v: number | null): string {
  return v === null ? "damaged" : `a record of version ${v}`;
}

function isoOf(time: number): string {
  return new Date(time).toISOString();
}

/** A character beyond the first 65,536 is escaped as the two that UTF-16 makes of it. */
function escaped(character: string): string {
  return character.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .join("");
}
