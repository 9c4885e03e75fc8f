/**
 * The id that an event gets, and the changes of its record when it is stored or comes back: pure functions, record in
 * and record out, in the order of the table in ARCHITECTURE.md. Only they, `claims.ts` and `settlement.ts` set a
 * record's state. An engine stores what they return, together with all that follows from it.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { met, numberFrom } from "../../core/check_options.ts";
import { parseTraceparent } from "../../telemetry/traceparent.ts";
import { plannedDelay } from "./claims.ts";
import type { Delivery } from "./delivery.ts";
import { type Emission, isReported, OWN } from "./emission.ts";
import type { EventRecord, PayloadRef } from "./event_record.ts";
import type { PortableRecord } from "./portable_event.ts";
import { hasBeenAnswered, isCancelRequested } from "./record_notes.ts";
import { MAX_ID_LENGTH, MAX_ORDERING_KEY_LENGTH } from "./record_shape.ts";
import { cancelled, released } from "./settlement.ts";

/** Length of the digest with which a key ends that was cut: 128 bits, no two keys will ever share one. */
const DIGEST_LENGTH = 32;

/** Longest wait for quiet, in quiet times, unless a delivery says otherwise. */
const MAX_WAITS = 10;

/** Parts of a delivery that a record does not hold. */
const NO_BODY = { body: new Uint8Array(), payload: {} };

/**
 * Checks a replay window. A document whose event is forgotten and one that was never stored look the same.
 *
 * @param doing The action that fails otherwise, for the message.
 * @param windowMs The window, in milliseconds.
 * @param retentionMs The retention of the store.
 * @throws {RangeError} If the window is out of range.
 */
export function checkReplayWindow(doing: string, windowMs: number, retentionMs: number): void {
  const check = numberFrom(1, retentionMs, ", the store's 'retentionMs'");
  check(doing, "replayWindowMs", windowMs);
}

/**
 * Makes the id of the event that a delivery becomes.
 *
 * @param delivery The delivery.
 * @returns The intake's name and the delivery id, `forge:72d3162e`; the delivery id alone if no intake
 * is named. Without a delivery id, it ends with a UUID: another one at each call.
 * @throws {TypeError} If the id holds half of a surrogate pair.
 * @throws {RangeError} If the id has over 600 characters.
 */
export function eventIdOf({ intake, deliveryId }: Delivery): string {
  const id = inIntake(intake, deliveryId ?? crypto.randomUUID());
  // Engines like a KV store half of a surrogate pair as another character, and would take two ids for one.
  if (!id.isWellFormed()) {
    throw new TypeError(
      `Cannot store the event: its id must be a well-formed text, got ${met(id)}`,
    );
  }
  if (id.length <= MAX_ID_LENGTH) return id;
  throw new RangeError(`Cannot store the event: its id has over ${MAX_ID_LENGTH} characters`);
}

/** Checks whether an event keeps the same delivery from being accepted again. */
export function isLive(record: EventRecord | undefined): boolean {
  return record !== undefined && record.state !== "dead" && record.outcome !== "ignored";
}

/**
 * Keeps a name apart from the same name of another intake.
 *
 * @param intake The intake's name; undefined or null for none.
 * @param name The name.
 * @returns Both, with a colon between.
 */
export function inIntake(intake: string | null | undefined, name: string): string {
  return intake == null ? name : `${intake}:${name}`;
}

/** Takes the name of the intake or source from the id of its event; undefined if there is none. */
export function sourceIn(id: string): string | undefined {
  const colon = id.indexOf(":");
  return colon < 0 ? undefined : id.slice(0, colon);
}

/**
 * Makes an ordering key one that every engine stores as it is. It comes from a payload, so none is refused. A key that
 * is too long, or holds half a surrogate pair (a KV would store another character), ends with a digest of the whole:
 * two keys are never one group.
 *
 * @param orderingKey The ordering key.
 * @returns The key, of up to 256 characters.
 */
export function cutKey(orderingKey: string): string {
  if (orderingKey.length <= MAX_ORDERING_KEY_LENGTH && orderingKey.isWellFormed()) {
    return orderingKey;
  }
  // As JSON: that escapes half a pair.
  const digest = createHash("sha256").update(JSON.stringify(orderingKey)).digest("hex")
    .slice(0, DIGEST_LENGTH);
  const beginning = orderingKey.slice(0, MAX_ORDERING_KEY_LENGTH - DIGEST_LENGTH - 1)
    .toWellFormed();
  return `${beginning}~${digest}`;
}

/**
 * Makes the record of a delivery: due at once, and in no ordering group.
 *
 * @param delivery The delivery.
 * @param id The event's id.
 * @param payload The place of its payload.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function accepted(
  delivery: Delivery,
  id: string,
  payload: PayloadRef,
  now: number,
): EventRecord {
  const { platform, source, type, intake, deliveryId, traceparent } = delivery;
  const { action, repository, chat, sender, requestId, quietMs } = delivery;
  // What is undefined is not stored, and one shape of all records is copied faster.
  return {
    id,
    intake,
    deliveryId,
    platform,
    source,
    type,
    action,
    repository: repository ?? undefined,
    chat: chat ?? undefined,
    sender: sender ?? undefined,
    requestId: requestId ?? null,
    receivedAt: now,
    state: "queued",
    attempt: 0,
    dueAt: now,
    orderingKey: null,
    group: null,
    quiet: quietMs === undefined ? undefined : quietRuleOf(delivery, quietMs, now),
    lease: null,
    settledAt: null,
    payload,
    attempts: [],
    traceparent: traceparent && parseTraceparent(traceparent) ? traceparent : undefined,
  };
}

/**
 * Makes the record of an event that an app emits: due after its delay, and in no ordering group before it is
 * claimed.
 *
 * @param emission The event that was emitted.
 * @param id The event's id.
 * @param payload The place of its payload.
 * @param now The time, milliseconds since the epoch.
 * @param parent The record of the event whose handler emitted it; undefined if none did.
 * @returns The record.
 */
export function emitted(
  { source, type, action, id: deliveryId, delayMs, group }: Emission,
  id: string,
  payload: PayloadRef,
  now: number,
  parent?: EventRecord,
): EventRecord {
  const delivery = { platform: OWN, intake: source, source, type, action, deliveryId };
  const { traceparent, id: causedBy } = parent ?? {};
  const record = accepted({ ...delivery, traceparent, ...NO_BODY }, id, payload, now);
  return {
    ...record,
    dueAt: now + delayMs,
    ...(delayMs > 0 && { delayMs, plannedMs: delayMs }),
    ...(group !== undefined && { orderingKey: group, joinsLater: true }),
    ...(causedBy !== undefined && { causedBy }),
    ...(parent && !isReported(parent) && { isUnreported: true }),
  };
}

/**
 * Puts a settled event back, as if it had just been received. A dead one goes on with the run that did not
 * end: what it has noted as done stays so. A done one begins anew, and its calls get other idempotency keys.
 * So does a dead one that has had an answer: the answer is dropped, so the question must be asked again.
 *
 * @param record The record.
 * @param now The time, milliseconds since the epoch.
 * @param payload The payload. The record of a done event does not name it.
 * @returns The record.
 */
export function replayed(
  record: EventRecord,
  now: number,
  payload: PayloadRef | null = record.payload,
): EventRecord {
  const { outcome: _outcome, cancelRequestedAt: _request, putOff: _putOff, ...open } = record;
  const { joinsLater: _later, batch: _batch, handledWith: _with, woken: _woken, ...kept } = open;
  const run = nextRun(record);
  const again: EventRecord = {
    ...anewQuiet(kept, now),
    state: "queued",
    run,
    attempt: 0,
    dueAt: now,
    delayMs: 0,
    plannedMs: Math.max(0, now - record.receivedAt),
    lease: null,
    settledAt: null,
    payload,
  };
  if (record.state !== "done" && !hasBeenAnswered(record)) return again;
  const { progress: _progress, isBegun: _begun, ...anew } = again;
  return { ...anew, keyRun: run };
}

/**
 * Replaces a dead event, or one that was ignored, by a new delivery of the same id. Keeps the old event's progress,
 * key run and id counter.
 *
 * @param record The record of the new delivery.
 * @param dead The record of the dead event.
 * @returns The record.
 */
export function redelivered(record: EventRecord, dead: EventRecord): EventRecord {
  const { emitted } = dead;
  const run = nextRun(dead);
  const { progress, keyRun }: Pick<EventRecord, "progress" | "keyRun"> = hasBeenAnswered(dead)
    ? { keyRun: run }
    : dead;
  return {
    ...record,
    run,
    ...(keyRun !== undefined && { keyRun }),
    ...(progress && { progress }),
    ...(emitted !== undefined && { emitted }),
  };
}

/**
 * Makes the record of an event that comes from another store. It keeps all but what belongs to that: a
 * running one is queued, as if its worker had given it back, and a delay goes on.
 *
 * @param record The record there. One that was cancelled while it ran is dead here.
 * @param payload The place of its payload here.
 * @param now The time, milliseconds since the epoch.
 * @returns The record, in no ordering group.
 */
export function imported(
  record: PortableRecord,
  payload: PayloadRef | null,
  now: number,
): EventRecord {
  const here: EventRecord = { ...anewQuiet(record, now), group: null, lease: null, payload };
  if (here.settledAt !== null) return { ...here, dueAt: null };
  if (isCancelRequested(here)) return cancelled(here, now);
  if (here.state === "running") return released(here, { isBegun: true }, now);
  // Only events that are queued have to be due at some time.
  if (here.dueAt === null && here.state !== "queued") return here;
  const delayMs = Math.max(0, Math.min((here.dueAt ?? now) - now, plannedDelay(here)));
  return { ...here, dueAt: now + delayMs, delayMs };
}

function quietRuleOf(
  { maxWaitMs }: Delivery,
  quietMs: number,
  since: number,
): EventRecord["quiet"] {
  return { quietMs, maxWaitMs: maxWaitMs ?? MAX_WAITS * quietMs, since, waitedMs: 0 };
}

/** Lets an event wait anew until it is quiet: it joins the end of its group. */
function anewQuiet<TRecord extends Pick<EventRecord, "quiet">>(
  record: TRecord,
  now: number,
): TRecord {
  const { quiet } = record;
  if (!quiet) return record;
  return { ...record, quiet: { ...quiet, since: now, waitedMs: 0, next: undefined } };
}

/** Counts runs: leases of an earlier run are void. */
function nextRun({ run = 0 }: EventRecord): number {
  return run + 1;
}
