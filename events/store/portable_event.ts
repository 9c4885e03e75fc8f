/**
 * Events on their way from one store to another, and what a store has beside them: states, values that names were
 * woken with before any event waited, and notes of schedules.
 *
 * Of an event its record is taken along as it is stored, with fields that this version does not know, but without
 * all that means something in its store only: the lease, the place of the payload, and the entries that lead to it.
 *
 * @module
 */
import { met } from "../../core/check_options.ts";
import { isText, isTime, orNone, shape } from "../../core/shape.ts";
import {
  type EventRecord,
  isEventId,
  isOpen,
  MAX_ORDERING_KEY_LENGTH,
  wrongFieldOf,
} from "./event_record.ts";
import { checkState } from "./stored_state.ts";
import { wakeOf } from "./waits.ts";

/** The largest number of attempts or runs: they are counted on, and must stay safe integers. */
const MAX_COUNT = 1_000_000_000;

/** The longest name and plan of a schedule: a cron expression is much shorter. */
const MAX_LENGTH = 600;

/**
 * An event on its way from one store to another.
 *
 * @category Moving events
 */
export interface PortableEvent {
  /**
   * Its record, without what means something in its store only. The `group` says that it is in an ordering group, and
   * where it was in it.
   */
  readonly record: Omit<EventRecord, "lease" | "payload" | "engine" | "batch">;
  /** Its payload, byte for byte; null if it has none any more. */
  readonly body: Uint8Array<ArrayBuffer> | null;
}

/** The record of a portable event. */
export type PortableRecord = PortableEvent["record"];

/**
 * An entry beside the events, on its way from one store to another: a state, a value that a name was woken with before
 * any event waited for it, or the note of a schedule, with the time up to which its slots are made. Times are in
 * milliseconds since the epoch.
 *
 * @category Moving events
 */
export type PortableEntry =
  | {
    /** The kind of entry. */
    readonly kind: "state";
    /** The intake that it belongs to; undefined for none. */
    readonly intake?: string | undefined;
    /** The key. */
    readonly key: string;
    /** The value. */
    readonly value: unknown;
    /** The time at which it is forgotten; undefined if it stays. */
    readonly expiresAt?: number | undefined;
  }
  | {
    /** The kind of entry. */
    readonly kind: "answer";
    /** The name. */
    readonly name: string;
    /** The time at which it was woken. */
    readonly at: number;
    /** The value; undefined for none. */
    readonly value?: unknown;
  }
  | {
    /** The kind of entry. */
    readonly kind: "schedule";
    /** The name of the schedule. */
    readonly name: string;
    /** The expression and the time zone that the slots are of. */
    readonly plan: string;
    /** The time up to which all slots are made. */
    readonly at: number;
  };

/** Fields that belong to one store. A batch names positions in a group, and these change with the store. */
const OWN_FIELDS: readonly string[] = [
  ...["lease", "payload", "engine", "batch"] satisfies Exclude<
    keyof EventRecord,
    keyof PortableRecord
  >[],
];

/** Checks the members of a schedule's note that mean something in another store. */
export const isPortableNote = shape<{ readonly plan: string; readonly at: number }>({
  plan: isText,
  at: isTime,
});

/** The shapes of entries by their kinds. */
export const ENTRY_SHAPES = {
  state: shape({ intake: orNone(isText), key: isText, expiresAt: orNone(isTime) }),
  answer: shape({ name: isText, at: isTime }),
  schedule: shape({ name: isText, plan: isText, at: isTime }),
};

/**
 * Makes a portable event of a stored one.
 *
 * @param record The record.
 * @param body The payload.
 * @returns The event. Fields of the record that this version does not know are kept.
 */
export function portableOf(record: EventRecord, body: PortableEvent["body"]): PortableEvent {
  const fields = Object.entries(record).filter(([name]) => !OWN_FIELDS.includes(name));
  return { record: Object.fromEntries(fields) as unknown as PortableRecord, body };
}

/**
 * Checks a portable event. It may come from anywhere.
 *
 * @param event The event.
 * @returns The event, without what belongs to another store.
 * @throws {TypeError} If a store of this version cannot take it. The message says why.
 */
export function checkedEvent(event: PortableEvent): PortableEvent {
  const { record: given, body }: PortableEvent = Object(event);
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw refusal("event", `its record must be an object, got ${met(given)}`);
  }
  const checked = portableOf(given as EventRecord, body);
  const fields: EventRecord = { ...checked.record, lease: null, payload: null };
  const wrong = wrongFieldOf(fields);
  if (wrong) throw refusal("event", `its '${wrong}' is not valid, got ${met(fields[wrong])}`);
  const reason = misfitOf(checked);
  if (reason) throw refusal("event", reason);
  return checked;
}

/** Finds a contradiction in a record whose fields are valid one by one; undefined for none. */
function misfitOf({ record, body }: PortableEvent): string | undefined {
  const { id, receivedAt, state, settledAt, attempt, run = 0 } = record;
  const { group, joinsLater, orderingKey, dueAt, waitingFor } = record;
  if (id === "" || !isEventId(id) || !id.isWellFormed()) {
    return `its 'id' is not valid, got ${met(id)}`;
  }
  // Lists begin with the time 0. An engine may keep -0 apart, and before it.
  if (receivedAt < 0 || Object.is(receivedAt, -0)) {
    return `its 'receivedAt' must not be negative, got ${receivedAt}`;
  }
  if (Math.max(attempt, run) > MAX_COUNT) {
    return `its 'attempt' and 'run' must be at most ${MAX_COUNT}, got ${attempt} and ${run}`;
  }
  if (isOpen(record) !== (settledAt === null)) {
    return `its 'settledAt' does not fit its state ${state}, got ${settledAt}`;
  }
  if (body !== null && !(body instanceof Uint8Array)) {
    return `its payload must be bytes or null, got ${met(body)}`;
  }
  if (!isOpen(record)) return undefined;
  if (!body) return `it is ${state}, and has no payload`;
  const isParked = state === "parked";
  if (group !== null && (joinsLater || isParked)) {
    return "it is in its ordering group, which it is to join later";
  }
  const isKey = orderingKey !== null && orderingKey.length <= MAX_ORDERING_KEY_LENGTH &&
    orderingKey.isWellFormed();
  if ((group !== null || joinsLater) && !isKey) {
    return `its 'orderingKey' is not valid, got ${met(orderingKey)}`;
  }
  // Nothing would ever wake it.
  if (isParked && !waitingFor) {
    return `its 'waitingFor' does not fit its state parked, got ${waitingFor}`;
  }
  if (isParked && dueAt === null) return `its 'dueAt' does not fit its state parked, got ${dueAt}`;
  return undefined;
}

/**
 * Checks an entry. It may come from anywhere.
 *
 * @param entry The entry.
 * @returns The entry.
 * @throws {TypeError} If a store of this version cannot take it. The message says why.
 */
export function checkedEntry(entry: PortableEntry): PortableEntry {
  const { kind } = Object(entry);
  if (!Object.hasOwn(ENTRY_SHAPES, kind)) {
    throw refusal("entry", `its kind must be state, answer or schedule, got ${met(kind)}`);
  }
  const isOfKind: (value: unknown) => boolean = ENTRY_SHAPES[kind as PortableEntry["kind"]];
  if (!isOfKind(entry)) throw refusal(kind, "a member is missing, or has the wrong type");
  try {
    if (entry.kind === "state") checkState(entry.key, { intake: entry.intake });
    if (entry.kind === "answer") wakeOf(entry.name, entry.value);
  } catch (error) {
    throw refusal(kind, (error as Error).message);
  }
  if (entry.kind === "state" && entry.value === undefined) throw refusal(kind, "it has no value");
  if (entry.kind !== "schedule") return entry;
  if (!entry.name.isWellFormed()) throw refusal(kind, `its 'name' is not well-formed`);
  for (const name of ["name", "plan"] as const) {
    const { length } = entry[name];
    if (length >= 1 && length <= MAX_LENGTH) continue;
    throw refusal(kind, `its '${name}' must have 1 to ${MAX_LENGTH} characters, got ${length}`);
  }
  return entry;
}

function refusal(kind: string, reason: string): TypeError {
  return new TypeError(`Cannot restore the ${kind}: ${reason}`);
}
