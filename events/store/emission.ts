/**
 * Emissions: events of a handler or a program, before a store makes records of them.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { checkFilled, checkOptions, met, numberFrom } from "../../core/check_options.ts";
import { type JsonObject, parseJsonObject } from "../../core/parse_json.ts";
import {
  type BatchOptions,
  groupRule,
  type InterruptRule,
  type NewerOptions,
  type PlacesOptions,
} from "./batch_options.ts";
import type { SettlementRoom } from "./engine.ts";
import type { EventChat, EventRecord, EventRepository, EventSender } from "./event_record.ts";
import { isAction } from "./processes.ts";

/** The platform of the events that an app emits, in their records and metrics. */
export const OWN = "events";

/** The source of the events that report dead ones, and their type. */
export const DEAD = "dead";

/** The source of the events that report failing ones, and their type. */
export const FAILING = "failing";

/** The platform, intake and source of the events that schedules make. */
export const SCHEDULE = "schedule";

/** The longest delay of an event, in milliseconds: a year. */
const MAX_DELAY_MS = 365 * 86_400_000;

/** Overhead of an event beside its payload, and number of places that hold its id, in bytes. */
const [EVENT_BYTES, ID_BYTES] = [1_024, 6] as const;

/** Overhead of an id, and length of a generated one, in bytes. */
const [KEY_BYTES, GENERATED_BYTES] = [32, 65] as const;

/** Longest id: with the name of its source it is the id of an event, of up to 600 characters. */
const MAX_ID_LENGTH = 500;

/**
 * Longest id of an event that the ids of its follow-ups hold as it is, in bytes. A chain of them would grow and grow.
 */
const MAX_PARENT_LENGTH = 57;

/** Names of sources and platforms, which share one namespace: they begin the ids of events, up to the first colon. */
const NAME = /^[a-z][a-z0-9_-]{0,31}$/i;

/** Names of the package's platforms: the ids of their deliveries begin with them. */
const PLATFORMS: ReadonlySet<string> = new Set([
  ...["forge", "github", "gitlab", "gitea", "messenger", "telegram"],
]);

/** Sources whose events only the package makes, each with what to do instead. */
const MADE: ReadonlyMap<string, string> = new Map([
  [DEAD, "whose events report dead ones: register a handler for them with onDead()"],
  [FAILING, "whose events report failing ones: register a handler for them with onFailing()"],
  [SCHEDULE, "whose events schedules make: run one at once with runSchedule()"],
]);

const TYPE = /^[\w.:-]{1,100}$/;

/** The digits of the first 9,999 numbers. */
const DIGITS = 4;

/** The end of ids that are made by counting, and of some more. */
const COUNTED = /\/[a-l]?\d{4,}$/;

const DOING = "emit the event";

const encoder = new TextEncoder();

/**
 * A source of events that an app emits, with their payloads for the compiler. `events()` makes one.
 *
 * @typeParam TEvents The payloads by type.
 * @category Flows
 */
export interface OwnEvents<TEvents extends object = Readonly<Record<string, JsonObject>>> {
  /** The name, which begins the ids of its events. */
  readonly name: string;
  /** The kind of these sources. It is the `platform` of their events. */
  readonly kind: "events";
  /** The payloads of its events, for the compiler only. */
  readonly events?: TEvents | undefined;
}

/**
 * Options of an event that is emitted.
 *
 * @category Flows
 */
export type EmitOptions =
  & BatchOptions
  & PlacesOptions
  & (NewerOptions | {
    readonly newer?: undefined;
    /**
     * Interrupts the event of the group that runs, if it was emitted with `newer: "interrupt"`. So does an event that is
     * emitted with that rule itself; any other one waits.
     */
    readonly interrupt: true;
    readonly maxInterrupts?: undefined;
  })
  & {
    /**
     * The id, without the name of the source: 1 to 500 characters. An event whose id is known already, in
     * whatever state, is not stored again. It must not end as generated ids do: with a slash and four digits or
     * more, between them a letter at most.
     *
     * @default {undefined} One is generated, so that each call makes an event.
     */
    readonly id?: string | undefined;
    /**
     * The time until it is due, in milliseconds: from 0 to 31,536,000,000, a year.
     *
     * @default {0}
     */
    readonly delayMs?: number | undefined;
    /**
     * The ordering key: events of the source with the same one are handled one at a time, or as `places` says. The event
     * joins the others when it is due, behind those that wait then, and never holds them up before.
     *
     * @default {undefined} None.
     */
    readonly group?: string | undefined;
  };

/**
 * Emits events from a handler. They are stored in the commit that settles the handler's event
 * as done, or with the handler's part if it is one of several: exactly once, and not at all if it fails or
 * the event is cancelled. Of handlers that emit over six ids of their own at once, a remote KV settles one at a time, some
 * 10 a second.
 *
 * @category Flows
 */
export interface Emit {
  /**
   * Emits an event of a typed source.
   *
   * @typeParam TEvents The payloads by type.
   * @typeParam TType The type.
   * @param source The source.
   * @param type The type of the event: up to 100 letters, digits, `_`, `.`, `:` and `-`.
   * @param payload The payload, a JSON object. It is copied.
   * @param options The id, the delay, the ordering key, and the rule for handling events of that key together.
   * @throws {TypeError} If an argument has the wrong type, or the handler has ended.
   * @throws {RangeError} If a time is out of range, or the handler has emitted as much as the store has room
   * for in a commit: in a KV 200 events or 600,000 bytes, 1,024 for each event beside its payload. Ids of your own may
   * take 26,333 bytes, each with 32 more and the source's name: 200 of 90 characters.
   */
  <TEvents extends object, TType extends keyof TEvents & string>(
    source: OwnEvents<TEvents>,
    type: TType,
    payload: TEvents[TType],
    options?: EmitOptions,
  ): void;
  /**
   * Emits an event of a source that is given by its name.
   *
   * @param source The name of the source.
   * @param type The type of the event.
   * @param payload The payload, a JSON object.
   * @param options The id, the delay and the ordering key.
   */
  (source: string, type: string, payload: object, options?: EmitOptions): void;
}

/**
 * An event to be stored, as {@linkcode Emit} or {@linkcode EventStore.emit} makes it of its arguments.
 *
 * @category Flows
 */
export interface Emission extends BatchOptions, PlacesOptions {
  /** The name of its source. */
  readonly source: string;
  /** The type. */
  readonly type: string;
  /** The action, if the payload has one. */
  readonly action?: string | undefined;
  /** The id without the name of the source; undefined for a generated one. */
  readonly id?: string | undefined;
  /** The time until it is due, in milliseconds. */
  readonly delayMs: number;
  /** The ordering key. */
  readonly group?: string | undefined;
  /** Rule for newer events of the group. */
  readonly newer?: "wait" | "interrupt" | "steer" | undefined;
  /** Rule for the steps of a run that is interrupted; true if it only interrupts others itself. */
  readonly interrupt?: InterruptRule | true | undefined;
  /** The number of interrupts after which it is left to finish. */
  readonly maxInterrupts?: number | undefined;
  /** The JSON document. */
  readonly body: Uint8Array<ArrayBuffer>;
}

/**
 * The payload of an event that reports a dead one: its facts, without its payload.
 *
 * @category Flows
 */
export interface DeadEvent {
  /** The id of the dead event. */
  readonly id: string;
  /** The intake or source that it came from. */
  readonly intake?: string | undefined;
  /** Its platform. */
  readonly platform: string;
  /** The product that sent it. */
  readonly source: string;
  /** Its type. */
  readonly type: string;
  /** Its action. */
  readonly action?: string | undefined;
  /** The repository that it concerns. */
  readonly repository?: EventRepository | undefined;
  /** The chat that it concerns. */
  readonly chat?: EventChat | undefined;
  /** The user who caused it. */
  readonly sender?: EventSender | undefined;
  /** The time at which it was accepted, milliseconds since the epoch. */
  readonly receivedAt: number;
  /** The id of the first event of its batch, if it was handled together with others. */
  readonly handledWith?: string | undefined;
  /** Its last attempts, ten at most: the last one has the error that it died of. */
  readonly attempts: EventRecord["attempts"];
}

const OPTIONS = {
  id: checkId,
  delayMs: numberFrom(0, MAX_DELAY_MS),
  group: checkFilled,
  // Together.
  ...{ quietMs: undefined, maxWaitMs: undefined, together: undefined },
  ...{ newer: undefined, interrupt: undefined, maxInterrupts: undefined, places: undefined },
};

/**
 * Makes the event to be stored from the arguments of a call.
 *
 * @param source The source, or its name.
 * @param type The type.
 * @param payload The payload.
 * @param options The id, the delay and the ordering key.
 * @returns The event to be stored.
 * @throws {TypeError} If an argument has the wrong type.
 * @throws {RangeError} If a time is out of range.
 */
export function emissionOf(
  source: OwnEvents<object> | string,
  type: string,
  payload: object,
  options: EmitOptions = {},
): Emission {
  const name = typeof source === "string" ? source : source?.name;
  checkSource(DOING, name);
  if (typeof type !== "string" || !TYPE.test(type)) {
    throw new TypeError(
      `Cannot ${DOING}: 'type' must be 1 to 100 letters, digits, '_', '.', ':' or '-', got ${
        met(type)
      }`,
    );
  }
  checkOptions(DOING, options, OPTIONS);
  const { id, delayMs = 0, group } = options;
  const rule = ruleOf(options);
  if (rule && group === undefined) {
    const { quietMs, newer, interrupt } = options;
    const needs = quietMs !== undefined
      ? "'quietMs' needs a 'group': it is the time without a new event of that"
      : `'${newer ? "newer" : interrupt ? "interrupt" : "places"}' needs a 'group'`;
    throw new TypeError(`Cannot ${DOING}: ${needs}`);
  }
  const body = bodyOf(payload);
  const { action } = payload as { readonly action?: unknown };
  return {
    source: name,
    type,
    ...(isAction(action) && { action }),
    ...(id !== undefined && { id }),
    delayMs: Math.ceil(delayMs),
    ...(group !== undefined && { group }),
    ...rule,
    body,
  };
}

/** Reads the rules of the group from the options of an event. */
function ruleOf(
  { quietMs, maxWaitMs, together, newer, interrupt, maxInterrupts, places }: EmitOptions,
):
  | Pick<Emission, keyof BatchOptions | "newer" | "interrupt" | "maxInterrupts" | "places">
  | undefined {
  if (interrupt !== true || newer !== undefined || maxInterrupts !== undefined) {
    const heard = { newer, interrupt, maxInterrupts };
    return groupRule(DOING, { quietMs, maxWaitMs, together, ...heard, places });
  }
  const batch = { quietMs: quietMs ?? 0, maxWaitMs, together: together ?? "all" } as const;
  const rule = groupRule(DOING, { ...batch, places });
  return { ...rule, interrupt };
}

/**
 * Checks the name of a platform.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param name The name.
 * @throws {TypeError} If it is malformed, or the name of events that only the package makes.
 */
export function checkPlatformName(doing: string, name: unknown): asserts name is string {
  if (typeof name !== "string" || !NAME.test(name)) {
    throw new TypeError(
      `Cannot ${doing}: 'name' must be a letter, then up to 31 letters, digits, _ and -, got ${
        met(name)
      }`,
    );
  }
  if (!MADE.has(name)) return;
  throw new TypeError(
    `Cannot ${doing}: 'name' must not be ${
      met(name)
    }, which is the source of events of the package`,
  );
}

/**
 * Checks the name of a source.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param name The name.
 * @throws {TypeError} If it is malformed, or has another meaning.
 */
export function checkSource(doing: string, name: unknown): asserts name is string {
  if (typeof name !== "string" || !NAME.test(name)) {
    throw new TypeError(
      `Cannot ${doing}: the source must be what events() returns, or a name of a letter, then up to 31 ` +
        `letters, digits, _ and -, got ${met(name)}`,
    );
  }
  if (PLATFORMS.has(name)) throw platformRefused(doing, name);
  const instead = MADE.get(name);
  if (instead === undefined) return;
  throw new TypeError(`Cannot ${doing}: the source must not be ${met(name)}, ${instead}`);
}

/**
 * Makes the error of a source that has the name of a platform: an event of it would replace a delivery with the
 * same id.
 *
 * @param doing The action that fails, for the message.
 * @param name The name.
 * @returns The error.
 */
export function platformRefused(doing: string, name: string): TypeError {
  return new TypeError(
    `Cannot ${doing}: the source must not be ${
      met(name)
    }, which is a platform: only deliveries make its ` +
      'events. Give events of your own another source, such as "jobs"',
  );
}

/** The events of one commit, as far as they have been emitted. */
export class Emissions {
  /** The events, in the order of the calls. */
  readonly all: Emission[] = [];
  readonly #room: SettlementRoom;
  #bytes = 0;
  #idBytes = 0;

  /** @param room The room of the store for the events of one commit. */
  constructor(room: SettlementRoom) {
    this.#room = room;
  }

  /**
   * Adds an event.
   *
   * @throws {RangeError} If the commit would hold too many, or too many bytes, or too long ids.
   */
  add(emission: Emission): void {
    const { events, eventBytes, idBytes: maxIdBytes } = this.#room;
    if (this.all.length >= events) {
      throw new RangeError(
        `Cannot ${DOING}: at most ${events} are stored in one commit. Emit one for each part of the ` +
          "work, whose handler emits the rest",
      );
    }
    const bytes = this.#bytes + bytesOf(emission);
    if (bytes > eventBytes) {
      throw new RangeError(
        `Cannot ${DOING}: the events of one commit may take ${eventBytes} bytes, each of them ` +
          `${EVENT_BYTES} beside its payload, and would take ${bytes}`,
      );
    }
    const idBytes = this.#idBytes + idBytesOf(emission);
    if (idBytes > maxIdBytes) {
      throw new RangeError(
        `Cannot ${DOING}: the ids of the events of one commit may take ${maxIdBytes} bytes, in UTF-8 and ` +
          `${KEY_BYTES} for each event, and would take ${idBytes}. Give shorter ids, or emit fewer events`,
      );
    }
    this.#bytes = bytes;
    this.#idBytes = idBytes;
    this.all.push(emission);
  }
}

/**
 * Makes the event that reports a dead one. Its id is the only one for this death.
 *
 * @param record The record of the dead event.
 * @param isBrief Set if it names neither repository, chat nor sender, because the whole report is too large.
 * @returns The event to be stored; undefined for one that reports a death itself, or comes of
 * such a report.
 */
export function deathOf(record: EventRecord, isBrief = false): Emission | undefined {
  const { id, intake, platform, source, type, action, repository, chat, sender } = record;
  const { receivedAt, attempts, handledWith, run = 0 } = record;
  if (!isReported(record)) return undefined;
  const payload: DeadEvent = {
    ...{ id, intake, platform, source, type, action },
    ...(!isBrief && { repository, chat, sender }),
    ...{ receivedAt, handledWith, attempts },
  };
  return {
    source: DEAD,
    type: DEAD,
    id: `${shortIdOf(id)}/${receivedAt}/${run}`,
    delayMs: 0,
    body: encoder.encode(JSON.stringify(payload)),
  };
}

/** Checks whether it is reported that an event fails or has died: reports of reports would never end. */
export function isReported({ platform, intake, isUnreported = false }: EventRecord): boolean {
  return !isUnreported && !(platform === OWN && (intake === DEAD || intake === FAILING));
}

/**
 * Makes the id of an event that the handler of another one has emitted. Such ids sort by their numbers: a longer
 * number comes after a letter, and letters sort behind all digits.
 *
 * @param source The name of its source.
 * @param parentId The id of the other event.
 * @param number The number among those that it has emitted, from 1.
 * @returns The id, such as `jobs:forge:72d3162e/0001`, and after 9999 `jobs:forge:72d3162e/a10000`.
 */
export function childIdOf(source: string, parentId: string, number: number): string {
  const digits = String(number).padStart(DIGITS, "0");
  const letter = "abcdefghijkl".charAt(digits.length - DIGITS - 1);
  return `${source}:${shortIdOf(parentId)}/${letter}${digits}`;
}

/** Shortens the id of an event for the ids of its follow-ups. */
export function shortIdOf(id: string): string {
  if (Buffer.byteLength(id) <= MAX_PARENT_LENGTH) return id;
  return `~${createHash("sha256").update(id).digest("hex").slice(0, 32)}`;
}

function idBytesOf({ source, id }: Emission): number {
  return KEY_BYTES + source.length + (id === undefined ? GENERATED_BYTES : Buffer.byteLength(id));
}

function bytesOf({ body, id = "", group = "" }: Emission): number {
  return body.byteLength + EVENT_BYTES +
    ID_BYTES * (Buffer.byteLength(id) + Buffer.byteLength(group));
}

function bodyOf(payload: unknown): Uint8Array<ArrayBuffer> {
  const wanted = "'payload' must be a JSON object";
  if (typeof payload !== "object" || payload === null || Array.isArray(payload)) {
    throw new TypeError(`Cannot ${DOING}: ${wanted}, got ${met(payload)}`);
  }
  try {
    const body = encoder.encode(JSON.stringify(payload));
    // Read as it will be for its handler: nothing is stored that could only die.
    parseJsonObject(body);
    return body;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new TypeError(`Cannot ${DOING}: ${wanted}: ${reason}`, { cause });
  }
}

function checkId(doing: string, name: string, id: unknown): void {
  const isText = typeof id === "string" && id.length > 0 && id.length <= MAX_ID_LENGTH;
  if (isText && id.isWellFormed() && !COUNTED.test(id)) return;
  throw new TypeError(
    `Cannot ${doing}: '${name}' must be 1 to ${MAX_ID_LENGTH} characters, and not end with a slash, perhaps ` +
      `a letter, and four digits or more, got ${met(id)}`,
  );
}
