/**
 * Texts that the record of an event must hold to match a filter: an SQL engine looks for them before it reads a record.
 * They only narrow, since the store looks at all conditions itself.
 *
 * @module
 */
import { cutKey } from "../arrival.ts";
import type { EventFilter } from "../event_record.ts";

/** Texts that are in the JSON of a record. */
export interface Narrowing {
  /** Texts in groups: one of each group is in the record, in this spelling. */
  readonly groups: readonly (readonly string[])[];
  /** Texts that are in it in any case, without quotes, backslashes, and signs of patterns. */
  readonly inAnyCase: readonly string[];
}

/** Characters that a record may hold in another spelling, or that mean something in a pattern, and the dot of a name. */
const OTHERS = /[^ -~]+|["\\%_.]+/;

/**
 * Finds what the record of an event must hold.
 *
 * @param filter The filter.
 * @returns The texts; undefined if there are none, and each record has to be read.
 */
export function narrowingOf(filter: EventFilter): Narrowing | undefined {
  const { type, source, repository, chat, orderingKey, outcome, name, text } = filter;
  const groups: string[][] = [];
  const add = (...members: string[]) => groups.push(members);
  // `issues.opened` is a type and an action, or a type.
  if (type !== undefined) add(member("type", type.split(".", 1)[0]!).slice(0, -1));
  if (source !== undefined) add(member("source", source), member("intake", source));
  if (repository !== undefined) add(member("fullName", repository));
  if (chat !== undefined) add(member("id", chat));
  if (orderingKey !== undefined) add(member("orderingKey", cutKey(orderingKey)));
  if (outcome !== undefined) add(member("outcome", outcome));
  const inAnyCase = [name, text].flatMap((each) => each === undefined ? [] : longestPart(each));
  return groups.length + inAnyCase.length === 0 ? undefined : { groups, inAnyCase };
}

/** Writes a member of a record as its JSON has it. */
function member(name: string, value: string | number): string {
  return `"${name}":${JSON.stringify(value)}`;
}

/** Finds the longest part of a text that a record has as it is; none if there is none. */
function longestPart(text: string): string[] {
  const [longest = ""] = text.split(OTHERS).sort((a, b) => b.length - a.length);
  return longest === "" ? [] : [longest];
}
