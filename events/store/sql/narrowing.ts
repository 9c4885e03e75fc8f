import type { EventFilter } from "../event_record.ts";

/** Characters that the JSON of a record may hold in another spelling, or that mean something in a pattern, and the dot of a name. */
const OTHERS = /[^ -~]+|["\\%_.]+/;

/** The largest number of characters that are looked for: SQLite takes patterns of up to 50,000 bytes. */
const MAX_LENGTH = 1_000;

/**
 * Finds texts that the JSON of each record holds in upper or lower case that matches a filter: an SQL engine looks for
 * them before it reads a record. They only narrow, since the store looks at all conditions itself.
 *
 * @param filter The filter.
 * @returns The texts, without what means something in a pattern; none if each record has to be read.
 */
export function textsIn({ name, text }: EventFilter): string[] {
  return [name, text].flatMap((each) => {
    const [longest = ""] = each?.split(OTHERS).sort((a, b) => b.length - a.length) ?? [];
    return longest === "" ? [] : [longest.slice(0, MAX_LENGTH)];
  });
}
