/**
 * The changes of an event's record from its lease to its end, and its cancelling: pure functions, record in and
 * record out. A record that was flagged by `cancelRequested` leads to `dead` only: every function that settles it or
 * gives it back cancels it instead.
 *
 * The notes of a record about the handling of its event follow: the parts that are done, the attempts, the results of
 * its waits, the time of its first put-off, and that it was cancelled. Each change of an event writes its record anew,
 * and a record takes up to 64 KiB in every engine, so each note has its room.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { textOf } from "../../core/text_of.ts";
import { met } from "../../core/check_options.ts";
import type {
  EndedWait,
  EventRecord,
  EventStep,
  Intervention,
  InterventionKind,
  RecordedAttempt,
} from "./event_record.ts";
import { problemIdOf } from "./problem.ts";
import type { ReleaseOptions } from "./store_core.ts";
import { MAX_WAKE_BYTES, type Wait } from "./waits.ts";

/** The number of attempts that a record keeps. */
const MAX_ATTEMPTS = 10;

/** The number of characters of an attempt's error that a record keeps. */
const MAX_ERROR_LENGTH = 1000;

/** The time for which its handler can put an event off, from the first time in its run, in milliseconds. */
export const MAX_PUT_OFF_MS = 604_800_000;

/**
 * Time without a put-off after which nobody has looked at an event without a handler: its time begins anew, since a
 * process with a handler may just be starting. It is put off for a minute at most.
 */
const UNSEEN_MS = 300_000;

/** The number of bytes that the names of an event's done handlers and its steps take in its record, at most. */
const MAX_PROGRESS_BYTES = 32_768;

/** The number of bytes that the results of an event's waits take in its record, at most, with their names. */
const MAX_WOKEN_BYTES = 18_432;

/** Largest number of bytes of all of these notes: a record takes up to 64 KiB, and the rest of it up to 8. */
const MAX_NOTES_BYTES = 57_344;

/** Bytes of an attempt beside its error, as JSON. */
const ATTEMPT_BYTES = 112;

/** The number of bytes of an error that is kept in brief: a hundred events of a batch may die in one commit. */
export const BRIEF_BYTES = 600;

/** The number of bytes of an error and a reason in the shortest form of a record. */
const LEAST_BYTES = 100;

/** Bytes of the result of a wait beside its name, its value and who has given it. */
const WOKEN_BYTES = 64;

/** The number of interventions that a record keeps, and of the bytes of each text in one. */
const MAX_INTERVENTIONS = 5;
const INTERVENTION_BYTES = 80;

/**
 * Settles an event as done. Its payload is needed no more.
 *
 * @param record The record.
 * @param now The time, milliseconds since the epoch.
 * @param outcome Its end: it was handled, or nobody wanted it.
 * @returns The record.
 */
export function completed(
  record: EventRecord,
  now: number,
  outcome: "handled" | "ignored" = "handled",
): EventRecord {
  if (isCancelRequested(record)) return cancelled(record, now);
  const attempts = withAttempt(record, outcome, now);
  const end = { state: "done", outcome, payload: null, attempts } as const;
  return settled(withoutProblem(record), now, end);
}

/**
 * Gives an event back whose attempt failed, to be tried again later.
 *
 * @param record The record.
 * @param delayMs The delay until then, in milliseconds.
 * @param error The error.
 * @param now The time, milliseconds since the epoch.
 * @param options The reason why one of its handlers has put it off, if one has, and the handler that has failed, if it is
 * known.
 * @returns The record.
 */
export function retried(
  record: EventRecord,
  delayMs: number,
  error: unknown,
  now: number,
  { reason, handler }: { readonly reason?: unknown; readonly handler?: string | undefined } = {},
): EventRecord {
  if (isCancelRequested(record)) return cancelled(record, now, error);
  const noted = reason === undefined ? withHandler(record) : withPutOff(record, reason, now);
  const attempts = withAttempt(noted, "failed", now, error);
  const problem = problemOf(record, error, handler);
  const again = { state: "queued", lease: null, dueAt: now + delayMs, delayMs } as const;
  return { ...noted, ...again, attempts, problem };
}

/**
 * Finds the problem by which an attempt has failed.
 *
 * @param record The record of its event.
 * @param thrown The error.
 * @param handler The handler that has failed; undefined if it is not known.
 * @returns The id of the problem.
 */
export function problemOf(
  { intake, source, type }: EventRecord,
  thrown: unknown,
  handler?: string,
): string {
  const origin = { source: intake ?? source, handler: handler ?? type };
  return problemIdOf(origin, textOf(thrown));
}

/** Takes an event out of the problem by which it had failed. */
export function withoutProblem(record: EventRecord): EventRecord {
  if (record.problem === undefined) return record;
  const { problem: _, ...rest } = record;
  return rest;
}

/**
 * Gives an event back that was not tried to its end, or that its handler puts off. The attempt does not
 * count.
 *
 * @param record The record.
 * @param options The delay, whether a handler had begun with it, and why it puts the event off.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function released(
  record: EventRecord,
  { delayMs = 0, isBegun = false, isLimited = false, limit, reason, isUnhandled }: ReleaseOptions,
  now: number,
): EventRecord {
  if (isCancelRequested(record)) return cancelled(record, now, reason);
  const attempt = Math.max(0, record.attempt - 1);
  const dueAt = now + delayMs;
  const after: EventRecord = { ...record, state: "queued", lease: null, attempt, dueAt, delayMs };
  if (isLimited) return limited(after, limit);
  const begun = isBegun ? withHandler({ ...after, isBegun }) : after;
  if (reason === undefined) return begun;
  const putOff = planning(withPutOff(begun, reason, now, isUnhandled), delayMs);
  return isUnhandled && !hasBegun(record) ? unbatched(putOff) : putOff;
}

/** Notes that an event waits for the runs of a handler, or for room under a limit. */
function limited({ limitedBy: _, ...record }: EventRecord, limit: string | undefined): EventRecord {
  const by = limit === undefined ? {} : { limitedBy: limit };
  return { ...record, limitedAttempt: record.attempt, ...by };
}

/** Checks whether an event waits for a handler that has as many runs as it may, or for room under a limit. */
export function waitsForLimit(
  { state, limitedAttempt, attempt, delayMs = 0, putOff, dueAt }: EventRecord,
): boolean {
  if (state !== "queued" || limitedAttempt !== attempt || dueAt === null) return false;
  return delayMs > 0 && (putOff?.at ?? -Infinity) < dueAt - delayMs;
}

/**
 * Gives an event back whose handler was interrupted by a newer one of its group. The attempt does not count. Its batch is
 * made anew, out of the same events and the newer ones, once its group has been quiet. But if one of its handlers has
 * ended meanwhile, the others go on with the same events, and the newer ones wait.
 *
 * @param record The record.
 * @param by The id of the newer event.
 * @param now The time, milliseconds since the epoch.
 * @returns The record, with the steps that the next run gets.
 */
export function interrupted(record: EventRecord, by: string, now: number): EventRecord {
  const after = released(record, { isBegun: true }, now);
  if (after.state !== "queued" || record.progress?.length) return after;
  const { quiet, newer, interrupted: before } = record;
  const steps = after.steps?.filter((step) =>
    step.isBegun || (step.keep ?? newer?.steps === "keep")
  );
  return {
    ...planning(unbatched(after), quiet?.waitedMs ?? 0),
    ...(quiet && { quiet: { ...quiet, since: now, waitedMs: 0, next: undefined } }),
    ...(steps && { steps }),
    interrupted: { times: (before?.times ?? 0) + 1, by, at: now },
  };
}

/**
 * Checks whether newer events interrupt the handler of an event: not for ever, and not once a part of it is done, since
 * the newer ones would miss that part.
 *
 * @param record The record of the event.
 * @returns True if they do.
 */
export function canBeInterrupted(
  { newer, quiet, group, progress, interrupted }: EventRecord,
): boolean {
  if (newer?.mode !== "interrupt" || !quiet || !group || progress?.length) return false;
  return (interrupted?.times ?? 0) < (newer.maxInterrupts ?? 0);
}

/** Forgets which events are handled together with one: nobody has begun with them, or they begin anew. */
function unbatched({ batch: _, ...record }: EventRecord): EventRecord {
  return record;
}

/**
 * Parks an event until it is woken, or its time has passed. The attempt does not count. It leaves its
 * ordering group, or an answer from the same chat could never come, and joins it again when it is claimed.
 *
 * @param record The record.
 * @param wait The name that it waits for, and for how long.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function parked(record: EventRecord, { name, timeoutMs }: Wait, now: number): EventRecord {
  if (isCancelRequested(record)) return cancelled(record, now);
  const after = released(record, { delayMs: timeoutMs, isBegun: true }, now);
  const { quiet, batch: _batch, putOff: _putOff, problem: _problem, ...rest } = after;
  return {
    ...planning(rest, quiet?.waitedMs ?? 0),
    state: "parked",
    waitingFor: { name, since: now, until: now + timeoutMs },
    group: null,
    ...(record.orderingKey !== null && { joinsLater: true }),
  };
}

/**
 * Wakes a parked event: it is due at once.
 *
 * @param record The record.
 * @param result The result of its wait; undefined if it has none, and its handler waits anew.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function unparked(
  { waitingFor, ...record }: EventRecord,
  result: EndedWait | undefined,
  now: number,
): EventRecord {
  const { since = now, until = now } = waitingFor ?? {};
  const after = planning(record, Math.max(0, Math.min(result?.at ?? now, until) - since));
  const due: EventRecord = { ...after, state: "queued", dueAt: now, delayMs: 0 };
  return result ? waited(due, result) : due;
}

/**
 * Gives an event up that has failed.
 *
 * @param record The record.
 * @param error The error.
 * @param now The time, milliseconds since the epoch.
 * @param handler The handler that has failed; undefined if it is not known.
 * @returns The record.
 */
export function buried(
  record: EventRecord,
  error: unknown,
  now: number,
  handler?: string,
): EventRecord {
  if (isCancelRequested(record)) return cancelled(record, now, error);
  const attempts = withAttempt(record, "failed", now, error);
  const problem = problemOf(record, error, handler);
  return settled(record, now, { state: "dead", outcome: "failed", attempts, problem });
}

/**
 * Settles an event as cancelled.
 *
 * @param record The record.
 * @param now The time, milliseconds since the epoch.
 * @param error The error that ended its attempt, if it ran.
 * @returns The record.
 */
export function cancelled(record: EventRecord, now: number, error?: unknown): EventRecord {
  const attempts = record.state === "running"
    ? withAttempt(record, "cancelled", now, error)
    : record.attempts;
  const { waitingFor: _, ...rest } = withoutProblem(record);
  return settled(rest, now, { state: "dead", outcome: "cancelled", attempts });
}

/**
 * Settles an event together with the first one of its batch, and in the same way. One that
 * dies takes over what is done of the handling.
 *
 * @param record The record.
 * @param first The record of the first one, settled.
 * @returns The record.
 */
export function settledWith(record: EventRecord, first: EventRecord): EventRecord {
  const { id, state, outcome, attempt, attempts } = first;
  // The first one has all of the error.
  const last = attempts.slice(-1).map((each) => shortened(each, BRIEF_BYTES));
  const ended = { state, outcome, attempt, attempts: last, handledWith: id };
  if (state === "done") {
    // The notes of a hundred events would not fit the commit, and a replay of a done event begins anew.
    const { progress: _, steps: _steps, ...rest } = withoutProblem(record);
    return settled(rest, first.settledAt!, { ...ended, payload: null });
  }
  const { problem } = first;
  const dead = problem === undefined ? withoutProblem(record) : { ...record, problem };
  return settled(inBatchOf(dead, first), first.settledAt!, ended);
}

/**
 * Settles an event as cancelled that leaves its batch by that. It takes over what is done of the handling, like
 * one that dies with the first one.
 *
 * @param record The record.
 * @param first The record of the first one. It is open.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function cancelledAlone(record: EventRecord, first: EventRecord, now: number): EventRecord {
  return cancelled(inBatchOf(record, first), now);
}

/**
 * Copies the batch's progress from its first event.
 *
 * @param record The record.
 * @param first The record of the first one.
 * @returns The record.
 */
export function inBatchOf(record: EventRecord, first: EventRecord): EventRecord {
  const { progress } = first;
  return progress ? { ...record, progress } : record;
}

/** Notes a planned wait. */
function planning<TRecord extends Pick<EventRecord, "plannedMs">>(
  record: TRecord,
  ms: number,
): TRecord {
  return ms > 0 ? { ...record, plannedMs: (record.plannedMs ?? 0) + ms } : record;
}

function settled(record: EventRecord, now: number, end: Partial<EventRecord>): EventRecord {
  return { ...record, ...end, dueAt: null, lease: null, group: null, settledAt: now };
}

/** Creates the error of a part that is noted after the event was cancelled. */
export function cancelledProgress(): Error {
  return new Error("Cannot note progress: the event was cancelled");
}

/**
 * Notes that a handler of an event is done.
 *
 * @param record The record.
 * @param name The name of the handler.
 * @returns The record.
 * @throws {RangeError} If the names would take more than 32,768 bytes.
 * @throws {Error} If the event was cancelled.
 */
export function progressed(record: EventRecord, name: string): EventRecord {
  return noted({ ...record, progress: [...record.progress ?? [], name] }, name);
}

/** Finds a step of an event by its name. */
export function stepOf({ steps }: Pick<EventRecord, "steps">, name: string): EventStep | undefined {
  return steps?.find((step) => step.name === name);
}

/**
 * Notes a step of an event, or that it has begun.
 *
 * @param record The record.
 * @param step The step. It replaces one of the same name.
 * @returns The record.
 * @throws {RangeError} If the steps would take more than 32,768 bytes.
 * @throws {Error} If the event was cancelled.
 */
export function withStep(record: EventRecord, step: EventStep): EventRecord {
  const { steps = [] } = withoutStep(record, step.name);
  return noted({ ...record, steps: [...steps, step] }, step.name);
}

/** Takes a step out of a record. */
export function withoutStep(record: EventRecord, name: string): EventRecord {
  const steps = record.steps?.filter((step) => step.name !== name);
  return steps ? { ...record, steps } : record;
}

/** Thrown if there is no room for a part of the handling: there is none in a later attempt either. */
export class NoRoomError extends RangeError {}

/** Checks a record in which a part of the handling was noted. */
function noted(record: EventRecord, name: string): EventRecord {
  if (isCancelRequested(record)) throw cancelledProgress();
  const bytes = partsBytes(record);
  if (bytes <= MAX_PROGRESS_BYTES) return record;
  throw new NoRoomError(
    `Cannot store the step ${
      met(name)
    }: with it, the event's steps and handlers would take ${bytes} bytes, over ` +
      `${MAX_PROGRESS_BYTES}. Take larger steps, or keep a counter in a state`,
  );
}

/**
 * Adds the attempt that ends to a record's last ten, and fewer if the record has no room for them.
 *
 * @param record The record.
 * @param outcome The way in which the attempt ended.
 * @param endedAt The time, milliseconds since the epoch.
 * @param thrown The error with which it ended, if it did.
 * @returns The attempts.
 */
export function withAttempt(
  record: EventRecord,
  outcome: RecordedAttempt["outcome"],
  endedAt: number,
  thrown?: unknown,
): RecordedAttempt[] {
  const { putOff, woken } = record;
  let room = MAX_NOTES_BYTES - partsBytes(record) - ATTEMPT_BYTES;
  if (woken) room -= wokenBytes(woken);
  if (putOff) room -= textBytes(putOff.reason) + ATTEMPT_BYTES;
  if (record.interventions) room -= jsonBytes(record.interventions);
  const startedAt = record.lease?.startedAt ?? endedAt;
  const ended = { attempt: record.attempt, startedAt, endedAt, outcome };
  const error = thrown === undefined ? undefined : errorWithin(room, thrown);
  const kept: RecordedAttempt[] = [error === undefined ? ended : { ...ended, error }];
  room -= textBytes(error ?? "");
  for (const earlier of record.attempts.slice(1 - MAX_ATTEMPTS).reverse()) {
    room -= textBytes(earlier.error ?? "") + ATTEMPT_BYTES;
    if (room < 0) break;
    kept.unshift(earlier);
  }
  return kept;
}

/**
 * Notes the result of a wait.
 *
 * @param record The record.
 * @param result The result.
 * @returns The record.
 */
export function waited(record: EventRecord, result: EndedWait): EventRecord {
  return { ...record, woken: [...record.woken ?? [], result] };
}

/**
 * Notes that somebody has done something to an event from outside. The earliest such note makes room.
 *
 * @param record The record.
 * @param intervention The kind and the time, and who has done it. Its texts are cut.
 * @returns The record.
 */
export function intervened(
  record: EventRecord,
  intervention: Intervention & { readonly is: InterventionKind },
): EventRecord {
  const { is, at, by, step } = intervention;
  const noted: Intervention = {
    ...{ is, at },
    ...(by !== undefined && { by: whoOf(by) }),
    ...(step !== undefined && { step: whoOf(step) }),
  };
  const earlier = record.interventions?.slice(1 - MAX_INTERVENTIONS) ?? [];
  return { ...record, interventions: [...earlier, noted] };
}

/** Cuts the name of who has done something, so that it fits a record. */
export function whoOf(by: string): string {
  return cutTo(by.toWellFormed(), INTERVENTION_BYTES);
}

/**
 * Checks that an event's record has room for the result of a wait, whatever that is.
 *
 * @param record The record.
 * @param name The name that the event waits for.
 * @throws {RangeError} If it has not.
 */
export function checkRoomFor({ woken = [] }: EventRecord, name: string): void {
  const bytes = wokenBytes(woken);
  if (bytes + wokenBytes([{ name, at: 0 }]) + MAX_WAKE_BYTES <= MAX_WOKEN_BYTES) return;
  throw new RangeError(
    `Cannot wait: the results of the event's ${woken.length} waits take ${bytes} bytes, and with a ` +
      `value of ${MAX_WAKE_BYTES} they would take over ${MAX_WOKEN_BYTES}. Wake it with smaller ones`,
  );
}

/**
 * Notes that an event is put off. The first time is not in the future, even if a clock was ahead.
 *
 * @param record The record.
 * @param reason The reason.
 * @param now The time, milliseconds since the epoch.
 * @param isUnhandled Set if there was no handler for it.
 * @returns The record.
 */
function withPutOff(
  record: EventRecord,
  reason: unknown,
  now: number,
  isUnhandled = false,
): EventRecord {
  const { since = now, times = 0 } = record.putOff ?? {};
  const text = textOf(reason).slice(0, MAX_ERROR_LENGTH);
  const putOff = { since: Math.min(since, now), at: now, times: times + 1, reason: text };
  if (!isUnhandled) return { ...record, putOff };
  return { ...record, putOff: { ...putOff, unhandledSince: unhandledSince(record, now) ?? now } };
}

/**
 * Finds the time since which an event is put off for want of a handler.
 *
 * @param record The record.
 * @param now The time, milliseconds since the epoch.
 * @returns The time; undefined if it is not, or nobody has looked at it for five minutes.
 */
export function unhandledSince({ putOff }: EventRecord, now: number): number | undefined {
  const { unhandledSince: since, at = 0 } = putOff ?? {};
  return since === undefined || now - at > UNSEEN_MS ? undefined : Math.min(since, now);
}

/**
 * Notes that an event has met a handler: its time without one begins anew.
 *
 * @param record The record.
 * @returns The record.
 */
export function withHandler(record: EventRecord): EventRecord {
  if (record.putOff?.unhandledSince === undefined) return record;
  const { unhandledSince: _, ...putOff } = record.putOff;
  return { ...record, putOff };
}

/**
 * Checks whether a handler can still put an event off: its ordering group waits, so that has an end.
 *
 * @param record The record.
 * @param now The time, milliseconds since the epoch.
 * @returns False once seven days have passed since it was put off first, in its current run.
 */
export function canBePutOff({ putOff }: EventRecord, now: number): boolean {
  return putOff === undefined || now - putOff.since < MAX_PUT_OFF_MS;
}

/**
 * Flags an event as cancelled while it runs. Its lease stays, so that its ordering group goes on only
 * when its handler has ended or its lease has expired.
 *
 * @param record The record.
 * @param now The time, milliseconds since the epoch.
 * @returns The record.
 */
export function cancelRequested(record: EventRecord, now: number): EventRecord {
  return { ...record, cancelRequestedAt: now };
}

/**
 * Checks whether an event was cancelled while it ran.
 *
 * @param record The record.
 * @returns True if it was, and is not settled yet.
 */
export function isCancelRequested({ cancelRequestedAt, settledAt }: EventRecord): boolean {
  return cancelRequestedAt !== undefined && settledAt === null;
}

/**
 * Checks whether the handling of an event has begun before, so that something is left to do: it is not ignored then,
 * even if its handler is gone.
 *
 * @param record The record.
 * @returns True if an attempt has ended since it was done last, a part is done, or a handler had begun.
 */
export function hasBegun(
  { attempts, progress = [], steps = [], isBegun = false }: EventRecord,
): boolean {
  const last = attempts.at(-1)?.outcome;
  const isOver = last === undefined || last === "handled" || last === "ignored";
  return isBegun || !isOver || progress.length + steps.length > 0;
}

function errorWithin(room: number, thrown: unknown): string {
  return cutTo(textOf(thrown).slice(0, MAX_ERROR_LENGTH), room);
}

/**
 * Shortens the error of an attempt.
 *
 * @param attempt The attempt.
 * @param bytes The number of bytes that stay of it, at most.
 * @returns The attempt.
 */
export function shortened(attempt: RecordedAttempt, bytes: number): RecordedAttempt {
  const { error } = attempt;
  return error === undefined ? attempt : { ...attempt, error: cutTo(error, bytes) };
}

/**
 * Makes the shortest form of a record, for a commit that the whole one is too large for: with its last attempt only,
 * and the beginnings of the error and of the reason to put it off.
 *
 * @param record The record.
 * @returns The record.
 */
export function inBrief(record: EventRecord): EventRecord {
  const { putOff } = record;
  return {
    ...record,
    attempts: record.attempts.slice(-1).map((attempt) => shortened(attempt, LEAST_BYTES)),
    ...(putOff && { putOff: { ...putOff, reason: cutTo(putOff.reason, LEAST_BYTES) } }),
  };
}

/** Cuts a text so that it takes no more bytes in a record. */
function cutTo(text: string, bytes: number): string {
  if (textBytes(text) <= bytes) return text;
  let [taken, length] = [0, 0];
  for (const character of text) {
    taken += textBytes(character);
    if (taken > bytes) break;
    length += character.length;
  }
  return text.slice(0, length);
}

/** Counts the bytes that the done handlers and the steps of an event take in its record. */
function partsBytes({ progress = [], steps = [] }: EventRecord): number {
  const names = progress.length === 0 ? 2 : jsonBytes(progress);
  return steps.length === 0 ? names : names + jsonBytes(steps);
}

function wokenBytes(woken: readonly EndedWait[]): number {
  return woken.reduce(
    (sum, { name, value = "", by = "" }) =>
      sum + textBytes(name) + textBytes(value) + textBytes(by) + WOKEN_BYTES,
    0,
  );
}

/** Counts the bytes that a text takes in a record, without its quotes. */
function textBytes(text: string): number {
  return text === "" ? 0 : jsonBytes(text) - 2;
}

/**
 * Counts the bytes of a value's JSON.
 *
 * @param value The value.
 * @returns The number of bytes.
 */
export function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}
