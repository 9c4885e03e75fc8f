/**
 * The id that an event gets, and the changes of its record from its receipt to the lease of a worker: when it is stored
 * or comes back, joins its ordering group, and is leased. They are pure functions, record in and record out, in the order
 * of the table in ARCHITECTURE.md. Only they and `settlement.ts` set a record's state. An engine stores what they
 * return, together with all that follows from it.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { met, numberFrom } from "../../core/check_options.ts";
import { CLOCK_SLACK_MS } from "../../core/timeouts.ts";
import { parseTraceparent } from "../../telemetry/traceparent.ts";
import { type BatchOptions, DEFAULT_MAX_INTERRUPTS } from "./batch_options.ts";
import { type Emission, isReported, OWN } from "./emission.ts";
import {
  type Delivery,
  type EventRecord,
  type GroupPosition,
  MAX_DESCRIPTION_LENGTH,
  MAX_ID_LENGTH,
  MAX_ORDERING_KEY_LENGTH,
  type PayloadRef,
} from "./event_record.ts";
import type { PortableRecord } from "./portable_event.ts";
import type { HeadAt } from "./engine.ts";
import { cancelled, isCancelRequested, problemOf, released, withAttempt } from "./settlement.ts";

/** Length of the digest with which a key ends that was cut: 128 bits, no two keys will ever share one. */
const DIGEST_LENGTH = 32;

/** Longest wait for quiet, in quiet times, unless a delivery says otherwise. */
const MAX_WAITS = 10;

/** Parts of a delivery that a record does not hold. */
const NO_BODY = { body: new Uint8Array(), payload: {} };

/** The error of an attempt whose worker neither settled its event nor renewed its lease. */
const LEASE_EXPIRED = "Lease expired: the process died, was frozen, or lost the database";

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
  // An engine may store half of a surrogate pair as another character, and would take two ids for one.
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
 * is too long, or holds half a surrogate pair (an engine may store another character), ends with a digest of the whole:
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

/** The characters of a description that are looked at: behind much white space, there is nothing worth a line. */
const MAX_READ = 4 * MAX_DESCRIPTION_LENGTH;

/** White space and control characters, each of which ends or bends a line. */
// deno-lint-ignore no-control-regex -- it finds control characters
const BREAKS = /[\s\u0000-\u001f\u007f-\u009f]+/g;

/**
 * Makes a description that a record keeps: on one line, well-formed, and of up to 120 characters.
 *
 * @param text The text.
 * @returns The description; undefined if nothing is left of it.
 */
export function cutDescription(text: string): string | undefined {
  const line = text.slice(0, MAX_READ).replace(BREAKS, " ").trim();
  // Half a pair at the cut would be shown as another character.
  const cut = line.length > MAX_DESCRIPTION_LENGTH
    ? `${line.slice(0, MAX_DESCRIPTION_LENGTH - 1).replace(/[\ud800-\udbff]$/, "")}…`
    : line;
  return cut === "" ? undefined : cut.toWellFormed();
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
  const { action, repository, chat, sender, requestId, quietMs, newer, places = 1 } = delivery;
  const { description } = delivery;
  const isHeard = newer !== undefined && newer !== "wait";
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
    description: description ? cutDescription(description) : undefined,
    receivedAt: now,
    state: "queued",
    attempt: 0,
    dueAt: now,
    orderingKey: null,
    places: places > 1 ? places : undefined,
    group: null,
    quiet: quietMs === undefined && !isHeard ? undefined : quietRuleOf(delivery, isHeard, now),
    newer: isHeard ? newerRuleOf(delivery, newer) : undefined,
    interrupts: newer === "interrupt" || undefined,
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
  emission: Emission,
  id: string,
  payload: PayloadRef,
  now: number,
  parent?: EventRecord,
): EventRecord {
  const { source, type, action, id: deliveryId, delayMs, group } = emission;
  const { quietMs, maxWaitMs, together, newer, interrupt, maxInterrupts, places } = emission;
  const [steps, interrupts] = interrupt === true ? [undefined, true] : [interrupt, false];
  const own = { platform: OWN, intake: source, source, type, action, deliveryId };
  const { traceparent, id: causedBy } = parent ?? {};
  const heard = { newer, interrupt: steps, maxInterrupts, places };
  const delivery = { ...own, quietMs, maxWaitMs, together, ...heard, traceparent, ...NO_BODY };
  const record = accepted(delivery, id, payload, now);
  return {
    ...record,
    dueAt: now + delayMs,
    ...(delayMs > 0 && { delayMs, plannedMs: delayMs }),
    ...(group !== undefined && { orderingKey: group, joinsLater: true }),
    ...(interrupts && { interrupts }),
    ...(causedBy !== undefined && { causedBy }),
    ...(parent && !isReported(parent) && { isUnreported: true }),
  };
}

/**
 * Puts a settled event back, as if it had just been received. A dead one goes on with the run that did not
 * end: what it has noted as done, its steps and the answers that it has had stay so. A done one begins anew, and its
 * calls get other idempotency keys. A batch has other events when it is handled again, so its steps are dropped.
 *
 * @param record The record.
 * @param now The time, milliseconds since the epoch.
 * @param options The payload, since the record of a done event does not name it, and whether a dead one begins anew.
 * @returns The record.
 */
export function replayed(
  record: EventRecord,
  now: number,
  { payload = record.payload, isFresh = record.state === "done" }: {
    readonly payload?: PayloadRef | null | undefined;
    readonly isFresh?: boolean | undefined;
  } = {},
): EventRecord {
  const { outcome: _outcome, cancelRequestedAt: _request, putOff: _putOff, ...open } = record;
  const { joinsLater: _later, batch: _batch, handledWith: _with, ...closed } = open;
  // Only what comes in interrupts, and not what comes back.
  const { problem: _problem, failing: _failing, interrupts: _mark, ...past } = closed;
  const { interrupted: _interrupted, ...kept } = past;
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
  if (!isFresh) return record.batch ? { ...again, steps: ownSteps(record) } : again;
  const { progress: _progress, isBegun: _begun, woken: _woken, ...anew } = withoutSteps(again);
  return { ...anew, keyRun: run };
}

/**
 * Reads the steps of an event, without those of a batch: it has other events when it is handled again.
 *
 * @param record The record.
 * @returns The steps; undefined if there are none.
 */
export function ownSteps({ batch, steps }: EventRecord): EventRecord["steps"] {
  return batch && batch.events > 1 ? undefined : steps;
}

function withoutSteps({ steps: _, ...record }: EventRecord): EventRecord {
  return record;
}

/**
 * Replaces a dead event, or one that was ignored, by a new delivery of the same id. Keeps what is done of the old
 * event's handling, but for the steps of a batch, its answers, key run and id counter.
 *
 * @param record The record of the new delivery.
 * @param dead The record of the dead event.
 * @returns The record.
 */
export function redelivered(record: EventRecord, dead: EventRecord): EventRecord {
  const { progress, woken, keyRun, emitted } = dead;
  const steps = ownSteps(dead);
  return {
    ...record,
    run: nextRun(dead),
    ...(keyRun !== undefined && { keyRun }),
    ...(progress && { progress }),
    ...(steps && { steps }),
    ...(woken && { woken }),
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
  const here: EventRecord = {
    ...anewQuiet(record, now),
    ...(record.interrupts && { interrupts: undefined }),
    ...{ group: null, lease: null, payload },
  };
  if (here.settledAt !== null) return { ...here, dueAt: null };
  if (isCancelRequested(here)) return cancelled(here, now);
  if (here.state === "running") return released(here, { isBegun: true }, now);
  // Only events that are queued have to be due at some time.
  if (here.dueAt === null && here.state !== "queued") return here;
  const delayMs = Math.max(0, Math.min((here.dueAt ?? now) - now, plannedDelay(here)));
  return { ...here, dueAt: now + delayMs, delayMs };
}

/** Makes the rule of a batch. Newer events that are heard, and those that they join, are always handled together. */
function quietRuleOf(
  { quietMs = 0, maxWaitMs, together }: BatchOptions,
  isHeard: boolean,
  since: number,
): EventRecord["quiet"] {
  const rule = { quietMs, maxWaitMs: maxWaitMs ?? MAX_WAITS * quietMs, since, waitedMs: 0 };
  return together || isHeard ? { ...rule, together: "all" } : rule;
}

function newerRuleOf(
  { interrupt, maxInterrupts = DEFAULT_MAX_INTERRUPTS }: Delivery,
  mode: "interrupt" | "steer",
): EventRecord["newer"] {
  return mode === "steer" ? { mode } : { mode, steps: interrupt!.steps, maxInterrupts };
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

/** The holder of a lease, and its length. */
export interface LeaseRequest {
  /** The worker that leases the event. */
  readonly owner: string;
  /** The length of the lease, in milliseconds. */
  readonly leaseMs: number;
}

/**
 * Finds how many events of an ordering group are handled at a time once an event has joined it.
 *
 * @param record The record of the event.
 * @returns The number.
 */
export function placesOf({ quiet, places = 1 }: EventRecord): number {
  return quiet ? 1 : places;
}

/**
 * Gives an event its position in its ordering group. It is on the schedule only if there is a place for it. An
 * event that is handled together with the next ones is due once it may be quiet.
 *
 * @param record The record.
 * @param orderingKey The ordering key.
 * @param group The position.
 * @param hasPlace Set if it can be handled beside the others in the group.
 * @returns The record.
 */
export function joined(
  record: EventRecord,
  orderingKey: string,
  group: GroupPosition,
  hasPlace: boolean,
): EventRecord {
  const after = { ...record, orderingKey, group, dueAt: hasPlace ? record.dueAt : null };
  const { quiet, dueAt, delayMs = 0 } = after;
  if (!quiet || dueAt === null) return after;
  const waitMs = firstWaitOf(after);
  // After a delay that it has brought along from another store.
  return { ...waiting(after, waitMs, group.position + 1, dueAt), delayMs: delayMs + waitMs };
}

/**
 * Gives an event that joins late its position in its ordering group. If there is a place for it, it can
 * be leased, or waits until it is quiet if it is handled together with the next ones; otherwise it waits at the end of
 * the group, off the schedule.
 *
 * @param record The record.
 * @param group The position.
 * @param hasPlace Set if it can be handled beside the others in the group.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function joinedLate(
  { joinsLater: _, ...record }: EventRecord,
  group: GroupPosition,
  hasPlace: boolean,
  now: number,
): EventRecord {
  // It waits from the time at which it became due: claims may come later.
  const since = Math.min(now, record.dueAt ?? now);
  const after = { ...anewQuiet(record, since), group };
  if (!hasPlace) return { ...after, dueAt: null, delayMs: 0 };
  return beginsBatch(after) ? waiting(after, firstWaitOf(after), group.position + 1, since) : after;
}

/** Calculates the time after which an event may be quiet that has just joined its empty group, in milliseconds. */
function firstWaitOf({ quiet }: EventRecord): number {
  return Math.min(quiet!.quietMs, quiet!.maxWaitMs);
}

/**
 * Lets the first event of a group wait, because others have joined a short time ago.
 *
 * @param record The record.
 * @param delayMs The time until it may be quiet, in milliseconds.
 * @param next The position that the next event of the group will take.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function waiting(
  record: EventRecord,
  delayMs: number,
  next: number,
  now: number,
): EventRecord {
  const quiet = { ...record.quiet!, waitedMs: record.quiet!.waitedMs + delayMs, next };
  return { ...record, quiet, dueAt: now + delayMs, delayMs };
}

/**
 * Determines the events that are handled together with the first one of a group. What joins later is not
 * among them.
 *
 * @param record The record of the first event.
 * @param batch The last of them, and their number.
 * @returns The record.
 */
export function batched(
  record: EventRecord,
  batch: NonNullable<EventRecord["batch"]>,
): EventRecord {
  return { ...record, batch };
}

/**
 * Checks whether an event is to begin a batch when it is leased.
 *
 * @param record The record.
 * @returns True if it is handled together with the next ones of its group, and they are not determined yet.
 */
export function beginsBatch({ quiet, batch, group }: EventRecord): boolean {
  return quiet !== undefined && batch === undefined && group !== null;
}

/**
 * Makes an event due that has got a place in its ordering group.
 *
 * @param record The record.
 * @param now The time, milliseconds since the epoch.
 * @param at Its rank. An event that is handled together with the next ones has to be the first one.
 * @returns The record; null if it waits still.
 */
export function movedUp(record: EventRecord, now: number, { isFirst }: HeadAt): EventRecord | null {
  return record.quiet && !isFirst ? null : { ...record, dueAt: now, delayMs: 0 };
}

/**
 * Puts an open event back that nothing leads to. With a time it is to be on the schedule again at that time.
 * Without one its position in its ordering group is lost: it is due now, and joins the end of its group
 * when it is claimed.
 *
 * @param record The record.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function foundAgain(record: EventRecord, now: number): EventRecord {
  if (record.dueAt !== null) return record;
  const due = { ...record, dueAt: now, delayMs: 0, group: null };
  return record.orderingKey === null ? due : { ...due, joinsLater: true };
}

/**
 * Schedules an event anew that would wait for longer than was planned, because a clock was wrong. Whoever
 * holds its lease has its whole length to renew it by the clock as it is now.
 *
 * @param record The record.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function rescheduled(record: EventRecord, now: number): EventRecord {
  const delayMs = plannedDelay(record);
  const dueAt = now + delayMs;
  const { waitingFor } = record;
  if (waitingFor) return { ...record, dueAt, delayMs, waitingFor: { ...waitingFor, until: dueAt } };
  if (!record.lease) return { ...record, dueAt, delayMs };
  return { ...record, dueAt, lease: { ...record.lease, until: dueAt } };
}

/**
 * Schedules an event anew if it would wait for longer than was planned.
 *
 * @param record The record.
 * @param now The time, milliseconds since the epoch.
 * @returns The record; null if its time is right.
 */
export function corrected(record: EventRecord, now: number): EventRecord | null {
  const waitMs = (record.dueAt ?? now) - now;
  return waitMs > plannedDelay(record) + CLOCK_SLACK_MS ? rescheduled(record, now) : null;
}

/**
 * Reads for how long an event was to wait when it was last scheduled.
 *
 * @param record The record.
 * @returns The delay in milliseconds; the length of its lease while it runs.
 */
export function plannedDelay({ state, lease, delayMs = 0 }: EventRecord): number {
  return state === "running" && lease ? lease.ms : delayMs;
}

/**
 * Leases an event. If it runs already, its lease has expired and that attempt is over.
 *
 * @param record The record.
 * @param request The holder and the length of the lease.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function leased(
  record: EventRecord,
  { owner, leaseMs }: LeaseRequest,
  now: number,
): EventRecord {
  const until = now + leaseMs;
  const after: EventRecord = {
    ...record,
    state: "running",
    attempt: record.attempt + 1,
    lease: { owner, until, ms: leaseMs, startedAt: now },
    dueAt: until,
  };
  if (record.state !== "running") return after;
  const attempts = withAttempt(record, "expired", now, LEASE_EXPIRED);
  return { ...after, attempts, problem: problemOf(record, LEASE_EXPIRED) };
}

/**
 * Renews a lease.
 *
 * @param record The record.
 * @param leaseMs The length of the lease from now on, in milliseconds.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function renewed(record: EventRecord, leaseMs: number, now: number): EventRecord {
  const { owner = "", startedAt = now } = record.lease ?? {};
  const until = now + leaseMs;
  return { ...record, lease: { owner, until, ms: leaseMs, startedAt }, dueAt: until };
}

/**
 * Checks whether a record is still leased as it was, whatever else of it has changed.
 *
 * @param held The record under the lease.
 * @param record The record now; undefined if there is none.
 * @returns True if it is the same attempt under the same lease.
 */
export function isSameLease(
  held: EventRecord,
  record: EventRecord | undefined,
): record is EventRecord {
  return record?.state === "running" &&
    record.run === held.run && record.attempt === held.attempt &&
    record.lease?.owner === held.lease?.owner &&
    record.lease?.startedAt === held.lease?.startedAt &&
    // An event that was purged and sent again within a millisecond has the same key.
    record.payload?.id === held.payload?.id;
}
