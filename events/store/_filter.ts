import {
  checkBoolean,
  checkFunction,
  checkKeys,
  checkObject,
  checkOptions,
  checkSignal,
  checkTexts,
  met,
} from "../../core/check_options.ts";
import { cutKey } from "./arrival.ts";
import type { BulkOptions } from "./event_operations.ts";
import {
  type EventFilter,
  type EventRecord,
  STORED_STATES,
  type StoredEvent,
} from "./event_record.ts";
import { isOneOf, isText, OUTCOMES } from "./record_shape.ts";

/** The form that a value must have, in words, and a check for it. */
type Form = readonly [what: string, check: (value: unknown) => boolean];

/** The form of the value of a condition, and a check for the records that meet it. */
type Condition<T> = readonly [Form, (event: EventRecord, wanted: T) => boolean];

const TEXT: Form = ["a text", isText];
const TIME: Form = ["a time in milliseconds since the epoch", isNumber];

/** All conditions, the ids aside. By one with a name that is misspelled, all events would be meant. */
const CONDITIONS: {
  readonly [Name in keyof Omit<EventFilter, "ids">]-?: Condition<NonNullable<EventFilter[Name]>>;
} = {
  state: [among(STORED_STATES), ({ state }: StoredEvent, wanted) => state === wanted],
  outcome: [among(OUTCOMES), ({ outcome }, wanted) => outcome === wanted],
  type: [TEXT, ({ type, action }, wanted) => type === wanted || `${type}.${action}` === wanted],
  source: [TEXT, ({ source, intake }, wanted) => source === wanted || intake === wanted],
  repository: [TEXT, ({ repository }, wanted) => repository?.fullName === wanted],
  chat: [["a whole number", Number.isSafeInteger], ({ chat }, wanted) => chat?.id === wanted],
  orderingKey: [TEXT, ({ orderingKey }, wanted) => orderingKey === cutKey(wanted)],
  receivedAfter: [TIME, ({ receivedAt }, wanted) => receivedAt >= wanted],
  receivedBefore: [TIME, ({ receivedAt }, wanted) => receivedAt < wanted],
  settledBefore: [TIME, ({ settledAt }, wanted) => (settledAt ?? Infinity) < wanted],
};

const NAMES = Object.keys(CONDITIONS) as (keyof typeof CONDITIONS)[];

/** The conditions on what is known of an unreadable event. */
const ON_UNREADABLE: readonly string[] = ["state", "receivedAfter", "receivedBefore"];

function isNumber(value: unknown): boolean {
  return typeof value === "number" && !Number.isNaN(value);
}

function among(values: readonly unknown[]): Form {
  return [`one of ${values.join(", ")}`, isOneOf(values)];
}

/** Checks whether an event matches a filter, its ids aside. */
export function matches(event: StoredEvent, filter: EventFilter): boolean {
  return NAMES.every((name) => {
    const { [name]: wanted } = filter;
    if (wanted === undefined) return true;
    if (event.state === "unreadable" && !ON_UNREADABLE.includes(name)) return false;
    const [, holds]: Condition<never> = CONDITIONS[name];
    return holds(event as EventRecord, wanted as never);
  });
}

/** Checks a choice of events. By one with a wrong value, none would be meant. */
export function checkFilter(
  doing: string,
  filter: EventFilter,
  furtherKeys: readonly string[] = [],
): void {
  checkObject(doing, filter, "the filter");
  checkKeys(doing, filter, ["ids", ...NAMES, ...furtherKeys]);
  const { ids } = filter;
  if (ids !== undefined) checkTexts(doing, "ids", ids);
  for (const name of NAMES) {
    const { [name]: value } = filter;
    const [[what, check]] = CONDITIONS[name];
    if (value === undefined || check(value)) continue;
    throw new TypeError(`Cannot ${doing}: '${name}' must be ${what}, got ${met(value)}`);
  }
}

/** Checks a choice of events, and the options of an operation on them. */
export function checkChoice(doing: string, filter: EventFilter, options: BulkOptions): void {
  checkFilter(doing, filter);
  checkOptions(doing, options, {
    onProgress: checkFunction,
    signal: checkSignal,
    dryRun: checkBoolean,
  });
}
