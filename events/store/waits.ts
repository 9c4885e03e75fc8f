/**
 * The waits of events for something from outside: a name is waited for by one event at a time, and whoever
 * knows the name wakes the event with a value.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { checkOptions, met, wholeNumber } from "../../core/check_options.ts";
import type { SettlementRoom } from "./engine.ts";
import type { EventRecord } from "./event_record.ts";

/** Largest number of characters of a name. */
const MAX_NAME_LENGTH = 256;

/** Time that an event waits unless its handler says otherwise, in milliseconds: seven days. */
export const DEFAULT_TIMEOUT_MS = 604_800_000;

/** Longest time that an event waits, in milliseconds: a year. */
export const MAX_TIMEOUT_MS = 31_536_000_000;

/** Largest number of bytes of the value that an event is woken with. */
export const MAX_WAKE_BYTES = 8_192;

/**
 * Options of `waitFor`.
 *
 * @category Flows
 */
export interface WaitOptions {
  /**
   * Longest time to wait, in milliseconds: from 1 to 31,536,000,000, which is a year.
   *
   * @default {604_800_000} 7 days.
   */
  readonly timeoutMs?: number | undefined;
}

/** Wait for a name. */
export interface Wait {
  /** The name. */
  readonly name: string;
  /** The longest time to wait, in milliseconds. */
  readonly timeoutMs: number;
}

/** Name that is woken, with a value. */
export interface Wake {
  /** The name. */
  readonly name: string;
  /** The value, as JSON; undefined for none. */
  readonly value?: string | undefined;
  /** The person or the tool that wakes it; undefined for a handler or a route. */
  readonly by?: string | undefined;
}

/**
 * A value that a name was woken with, and that no event has taken yet.
 *
 * @category Flows
 */
export interface UntakenAnswer {
  /** The name. */
  readonly name: string;
  /** The time at which it was woken, milliseconds since the epoch. */
  readonly at: number;
  /** The value; undefined for none. */
  readonly value: unknown;
  /** The person or the tool that has woken it; undefined for a handler, a route or a sender. */
  readonly by?: string | undefined;
  /** The id of the parked event that takes it when it is claimed; undefined if no event waits. */
  readonly eventId: string | undefined;
  /** The time until which it is kept, milliseconds since the epoch; undefined if an event takes it. */
  readonly keptUntil: number | undefined;
  /**
   * Deletes it, so that another value can be given.
   *
   * @returns False if an event takes it, or has taken it meanwhile.
   */
  delete(): Promise<boolean>;
}

/**
 * Thrown if an event cannot wait for a name: another one does, or the event is not alone in its batch.
 *
 * @category Flows
 */
export class WaitRefusedError extends Error {
  /** The class's name. */
  override readonly name = "WaitRefusedError";
}

/**
 * Refuses to let an event wait that is handled together with others: these would have to wait with it.
 *
 * @param record The record of the event.
 * @throws {WaitRefusedError} If it is.
 */
export function checkIsAlone({ batch }: Pick<EventRecord, "batch">): void {
  if (!batch || batch.events < 2) return;
  throw new WaitRefusedError(
    "Cannot wait: the event is handled together with others. " +
      "Emit an event, and ask or wait in the handler of that one",
  );
}

/**
 * Checks what is to be waited for.
 *
 * @param name The name.
 * @param options The longest time to wait.
 * @returns The wait.
 * @throws {TypeError} If the name or the options are something else.
 * @throws {RangeError} If the time is out of range.
 */
export function waitOf(name: string, options: WaitOptions = {}): Wait {
  checkName("wait", name);
  const doing = `wait for ${met(name)}`;
  checkOptions(doing, options, { timeoutMs: wholeNumber({ max: MAX_TIMEOUT_MS }) });
  const { timeoutMs = DEFAULT_TIMEOUT_MS } = options;
  return { name, timeoutMs };
}

/**
 * Checks what is to be woken, and writes its value as JSON.
 *
 * @param name The name.
 * @param value The value.
 * @returns The name and the value.
 * @throws {TypeError} If the name is something else, or the value cannot be written as JSON.
 * @throws {RangeError} If the value is too large.
 */
export function wakeOf(name: string, value: unknown): Wake {
  checkName("wake an event", name);
  if (value === undefined) return { name };
  const json = jsonOf(name, value);
  const bytes = Buffer.byteLength(json);
  if (bytes <= MAX_WAKE_BYTES) return { name, value: json };
  throw new RangeError(
    `Cannot wake ${met(name)}: the value takes ${bytes} bytes as JSON, over ${MAX_WAKE_BYTES}`,
  );
}

/**
 * Adds a name to those that one settlement wakes. Of two values for a name, the first one counts.
 *
 * @param wakes The names so far.
 * @param wake The name, with its value.
 * @param room The room for them.
 * @returns All of them.
 * @throws {RangeError} If there are too many.
 */
export function withWake(
  wakes: readonly Wake[] = [],
  wake: Wake,
  { wakes: max }: SettlementRoom,
): Wake[] {
  if (wakes.some(({ name }) => name === wake.name)) return [...wakes];
  if (wakes.length < max) return [...wakes, wake];
  throw new RangeError(
    `Cannot wake ${met(wake.name)}: a commit wakes ${max} names at most`,
  );
}

function jsonOf(name: string, value: unknown): string {
  let cause: unknown;
  try {
    const json: string | undefined = JSON.stringify(value);
    if (json !== undefined) return json;
  } catch (error) {
    cause = error;
  }
  throw new TypeError(
    `Cannot wake ${met(name)}: the value must be one that JSON has, got ${met(value)}`,
    { cause },
  );
}

/**
 * Checks a name that a store keeps: of a wait, or of a step.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param name The name.
 * @param maxLength The largest number of characters.
 * @throws {TypeError} If it is something else, or malformed: an engine may store half of a surrogate pair as another
 * character.
 */
export function checkName(
  doing: string,
  name: unknown,
  maxLength: number = MAX_NAME_LENGTH,
): asserts name is string {
  const isName = typeof name === "string" && name.length > 0 && name.length <= maxLength;
  if (isName && name.isWellFormed()) return;
  throw new TypeError(
    `Cannot ${doing}: the name must be a well-formed text of 1 to ${maxLength} characters, got ${
      met(name)
    }`,
  );
}

/**
 * Makes the name of a wait that no other event has, and no later run of this one that begins anew. It has 22 letters
 * and digits, so it fits the data of a button, of which Telegram takes 64 bytes, and is a plain word in a terminal.
 *
 * @param record The record of the event.
 * @param purpose What the event waits for, with the name of its handler.
 */
export function ownName(
  { id, keyRun }: Pick<EventRecord, "id" | "keyRun">,
  purpose: string,
): string {
  const hash = createHash("sha256").update(JSON.stringify([id, keyRun ?? 0, purpose]));
  // 43 characters, of which one or two are others.
  return hash.digest("base64url").replaceAll(/[-_]/g, "").slice(0, 22);
}
