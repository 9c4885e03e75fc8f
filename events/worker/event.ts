import { createHash } from "node:crypto";
import { checkOptions, met } from "../../core/check_options.ts";
import type { LogSink } from "../../core/mod.ts";
import { type JsonObject, parseJsonObject } from "../../core/parse_json.ts";
import type {
  EventChat,
  EventRecord,
  EventRepository,
  EventSender,
  EventStore,
  HandledEvents,
  WaitOptions,
} from "../store/mod.ts";
import type { AnswerResult } from "../store/questions.ts";
import type { Ask } from "./questions.ts";
import { PUT_OFF_CHECKS, putOffDelay, type StepContext, type TakeStep } from "./step.ts";

/**
 * An event, as a handler gets it.
 *
 * @category Handlers
 */
export interface WebhookEvent<TPayload = JsonObject> {
  /**
   * Its id, the same in each attempt: the intake's name and the sender's delivery id, `forge:72d3162e`,
   * or a UUID if the sender gives none. Events that are handled together have the id of the first one.
   */
  readonly id: string;
  /** The sender's delivery id, of the same event as `id`; undefined if the sender gives none. */
  readonly deliveryId: string | undefined;
  /** The name of the intake that accepted it. */
  readonly intake: string | undefined;
  /** The kind of platform it came from: `forge`, `messenger`, or one of your own. Its name is the `intake`. */
  readonly platform: string;
  /** The product that sent it: `github`, `forgejo`, `telegram`, ... */
  readonly source: string;
  /** The type of the event: `push`, `message`, ... */
  readonly type: string;
  /** The action, for types that have several: `opened`, `closed`, ... */
  readonly action: string | undefined;
  /** The JSON document, parsed. */
  readonly payload: TPayload;
  /** The JSON document, byte for byte. */
  readonly body: Uint8Array<ArrayBuffer>;
  /**
   * The events that are handled together, in the order received, each with its own id: this event alone, unless
   * `groupBy` or `emit` has given it a `quietMs`, or newer ones are heard. Of several, this event is the latest one, with the id of the first.
   */
  readonly batch: readonly WebhookEvent<TPayload>[];
  /** Time at which it was accepted, in milliseconds since the epoch. */
  readonly receivedAt: number;
  /** The id of the request that brought it, as in that request's log record. */
  readonly requestId: string | undefined;
  /** Number of the attempt, from 1. After an attempt that was put off, the next one has its number again. */
  readonly attempt: number;
  /** The repository it concerns; undefined if there is none. */
  readonly repository: EventRepository | undefined;
  /** The chat it concerns; undefined if there is none. */
  readonly chat: EventChat | undefined;
  /** The user who caused it; undefined if the payload names none. */
  readonly sender: EventSender | undefined;
  /**
   * Makes a key for a call to a service that recognizes repeated calls by one (`Idempotency-Key`). It is
   * the same in each attempt, when the delivery is sent again, and when the event is replayed after it has
   * died. It is another one when the event is replayed after it was done: the work is to be done again. Events that
   * are handled together have the key of the first one.
   *
   * @param call A name for the call, if the handler makes several.
   * @returns The key, in the form of a UUID.
   */
  idempotencyKey(call?: string): string;
}

/**
 * The second argument of a handler.
 *
 * @typeParam TTx What the functions of `settleWith` get: the store's commit, or its transaction.
 * @typeParam TReader The reader of the store, `db`.
 * @category Handlers
 */
export interface HandlerContext<TTx = unknown, TReader = unknown> extends StepContext<TTx> {
  /**
   * The worker's log, for records of the handler: `writeLog(log, "info", "labelled")`. It adds the id of
   * the event, as `eventId`. `console.log` would block the process when nobody reads its output.
   */
  readonly log: LogSink;
  /**
   * The database of the event store, for reading what `settleWith` committed, see
   * {@linkcode StoreDefinition}.
   */
  readonly db: TReader;
  /**
   * Takes a step: work that is done once, with a result that is kept. The result is stored in one commit, and later
   * attempts of the event get it, in whatever process or version, and do not call the function. So a model is paid
   * once, and a comment is written once.
   *
   * A step is known by its name and by its handler, so versions may add, remove and move steps. Steps may run beside
   * each other: one that fails leaves the others stored. What the function adds with the context that it gets is
   * committed with the result. If a state that it has changed was changed by another meanwhile, the result is stored
   * all the same, without the states of the step, and the attempt fails.
   *
   * An event that is parked, or dead and put back, keeps its steps. One that is replayed after it was done begins
   * anew, and so does a batch.
   *
   * @typeParam T The result.
   * @param name The name: 1 to 200 characters, once in an attempt.
   * @param fn Does the work. It returns JSON, of up to 524,288 bytes, or nothing.
   * @param options What is done if it is not known whether the step has happened.
   * @returns The result, as its JSON has it.
   * @throws {TypeError} If the name is malformed or was used in this attempt, or the handler has ended.
   * @throws {GiveUpError} If the result is not JSON, or too large, or there is no room for it, since each attempt would
   * do the work again: the names of the steps and handlers of an event take up to 32,768 bytes, and a result has to fit
   * one commit with the events of its step. Or if it is not known whether the step has happened, and the options say
   * `"fail"`.
   * @throws {Error} If the event was cancelled or lost to another worker, what the step has added cannot be committed,
   * or the store does not answer: then the next attempt finds the step if it was stored.
   */
  readonly step: TakeStep<TTx>;
  /**
   * Asks somebody a question, and waits for the answer: `send` is called once, as a step, with a name of 22 letters
   * and digits that goes into a button or a link. The event is parked until another handler calls
   * {@linkcode HandlerContext.answer} with that name, or the time has passed. Then its handler runs again from its
   * beginning, and this returns the answer.
   *
   * Who may answer is stored before the question is sent, and checked when the answer comes.
   *
   * @typeParam TValue The value of the answer. It is not checked.
   * @typeParam TSent The result of `send`.
   * @param name The name of the step.
   * @param send Sends the question. What it returns is kept if it is JSON, for later: the id of the message.
   * @param options Who may answer, the longest time to wait, and what is done if it is not known whether the question
   * was sent: by default it is sent again.
   * @returns The answer, and who has given it, or that the time has passed.
   * @throws {ParkedError} If there is no answer yet. Let it pass.
   * @throws {WaitRefusedError} If this event is handled together with others: nothing is sent.
   * @throws {TypeError} If an argument is something else, or the handler has ended.
   * @throws {RangeError} If the time is out of range.
   */
  readonly ask: Ask<TTx>;
  /**
   * Answers a question that another event waits for. The sender of this event answers: it is checked that they may.
   * That is done now, and not with the commit that settles this event. A later attempt of this event gets the same
   * result.
   *
   * @param name The name that `send` of the question got. Any other value is the name of no question.
   * @param value A value that can be written as JSON, of up to 8,000 bytes.
   * @returns What becomes of the answer.
   * @throws {TypeError} If the value cannot be written as JSON, or the handler has ended.
   * @throws {RangeError} If the value is too large.
   */
  answer(name: string | undefined, value?: unknown): Promise<AnswerResult>;
  /**
   * Waits for a time, as {@linkcode HandlerContext.waitFor} does: the event is parked, and its handler runs again from
   * its beginning when the time has passed.
   *
   * @param name The name: each wait of the handler has its own.
   * @param ms The time, in milliseconds: from 1 to 31,536,000,000, which is a year.
   * @throws {ParkedError} If the time has not passed yet. Let it pass.
   * @throws {TypeError} If the name is malformed, or the handler has ended.
   * @throws {RangeError} If the time is out of range.
   */
  sleep(name: string, ms: number): Promise<void>;
  /**
   * Waits until a name is woken: by another handler's `wake`, by `store.wake` or by the tool (`events wake`).
   * That may take up to a year, and processes may end meanwhile. Without a result yet, this rejects
   * with a {@linkcode ParkedError}, and the event is parked once its handler has ended, however it ends. When
   * the name is woken or the time has passed, the handler runs again from its beginning, and this returns the
   * result. Take as a `step` what must not be done twice.
   *
   * A parked event has left its ordering group, so later events of its repository or chat are handled
   * meanwhile. The attempt does not count, and what the run has added outside of its steps is dropped.
   *
   * An answer that came before is kept for seven days, and taken at once. So use a name that no other question
   * has, such as `event.idempotencyKey("approval")`: the second press of a button would answer the next one.
   *
   * One event at a time waits for a name. Names belong to the whole store and not to an intake: a button
   * in a chat can answer an event of a forge. A name is answered once for each event: the same call returns
   * the same result in each later attempt, so each round needs another name. An event waits for one
   * name at a time. If another of its handlers fails or puts it off meanwhile, that counts, and the event waits
   * in a later attempt.
   *
   * @typeParam TValue The value that the name is woken with.
   * @param name The name, a text of 1 to 256 characters.
   * @param options The longest time to wait.
   * @returns The value, or that the time has passed.
   * @throws {ParkedError} If the result is not there yet. Let it pass.
   * @throws {WaitRefusedError} If another event waits for the name, another handler of this event waits for
   * another one, or this event is handled together with others.
   * @throws {TypeError} If the name or the options are something else, the name is that of a question (`ask/...`),
   * or the handler has ended.
   * @throws {RangeError} If the time is out of range, or the results of the event's waits would take more than
   * 18,432 bytes.
   * @throws {Error} If the event was cancelled or lost to another worker.
   */
  waitFor<TValue = unknown>(name: string, options?: WaitOptions): Promise<WaitResult<TValue>>;
  /**
   * Takes the newer events of the ordering group that have come while the handler runs, if the group has
   * `newer: "steer"` ({@linkcode NewerOptions}): an agent calls it between two turns. They become part of the event's
   * `batch`, which is committed before this returns. So each further attempt has them in its `batch` from the beginning,
   * and they are settled with the event. What is not taken comes next. A batch has up to 100 events and 8 MB of payloads.
   *
   * If there are several handlers for the event none can take others, which the rest would miss.
   *
   * @returns The events, in the order received; none if nothing has come. That takes one read.
   * @throws {TypeError} If the group has another rule, the event has several handlers, or the handler has ended.
   * @throws {Error} If the event was cancelled or lost to another worker, or the store does not answer: then the next
   * attempt has the events if they were taken.
   */
  takeNewer(): Promise<WebhookEvent[]>;
  /**
   * The store as routes have it, for what does not wait for the handler's end: it reads other events, and emits, wakes
   * and cancels at once. All of that stays so if this handler fails, and happens again in its next attempt. For what
   * belongs to this event, use `emit` and `wake` of the context.
   */
  readonly store: HandlerStore;
  /**
   * Cancels another event of the store, as `store.cancel` does: one that waits is dead at once. The signal of a handler
   * that runs is aborted, in this process at once and in another one at the lease's next renewal, and its event is dead
   * once it has ended. That happens now, and not with the commit that settles this event: it stays so if this handler
   * fails.
   *
   * @param id The event's id.
   * @returns True if it is cancelled; false if the event does not exist, or is settled already.
   */
  cancel(id: string): Promise<boolean>;
}

/**
 * The part of a store that handlers work with, beside what is committed with their event. Its calls act at once. They
 * reject if the store has not answered within the length of a lease: then it is not known whether it has acted.
 *
 * @category Handlers
 */
export type HandlerStore = Pick<EventStore, "get" | "list" | "emit" | "wake" | "cancel">;

/**
 * Result of {@linkcode HandlerContext.waitFor}.
 *
 * @typeParam TValue The value that the name is woken with.
 * @category Flows
 */
export type WaitResult<TValue = unknown> =
  | {
    /** Value that the name was woken with; undefined if it was woken without one. */
    readonly value: TValue;
    /** False: the name was woken. */
    readonly timedOut: false;
  }
  | {
    /** No value. */
    readonly value: undefined;
    /** True: the time has passed. */
    readonly timedOut: true;
  };

/**
 * Handles an event. The event is done once this returns or resolves, and tried again later if it throws
 * or rejects: {@linkcode GiveUpError} and {@linkcode RetryLaterError} say otherwise.
 *
 * An event is handled at least once: after a crash the same event comes again. Make sure that effects
 * outside the store's database can be repeated; {@linkcode WebhookEvent.id} identifies a repetition.
 *
 * @typeParam TPayload The type of the payload.
 * @typeParam TContext The context. By default it is that of any store.
 * @category Handlers
 */
export type EventHandler<TPayload = JsonObject, TContext extends HandlerContext = HandlerContext> =
  (
    event: WebhookEvent<TPayload>,
    // What it takes has the payload of its events. The first of two signatures counts.
    context: { takeNewer(): Promise<WebhookEvent<TPayload>[]> } & TContext,
  ) => unknown;

/** Key of a {@linkcode DescribedHandler}. */
export const HANDLES = Symbol("handles");

/** Key of the function of a {@linkcode DescribedHandler} that lists its handlers of an event. */
export const HANDLERS = Symbol("handlers");

/** The part of an event by which a router and an app find its handlers. */
export type NamedEvent = Pick<EventRecord, "intake" | "platform" | "type" | "action">;

/** A handler of a router or an app, which lists the events that it has handlers for. */
export interface DescribedHandler extends EventHandler {
  /** Lists the events. */
  readonly [HANDLES]?: (() => readonly HandledEvents[]) | undefined;
  /** Lists the handlers of an event, the same objects for each event that they take. */
  readonly [HANDLERS]?: ((event: NamedEvent) => readonly unknown[]) | undefined;
}

/**
 * Lists the handlers of an event.
 *
 * @param handler The handler of all events.
 * @param event The event.
 * @returns Its handlers, if it is a router or an app; else itself.
 */
export function handlersOf(handler: EventHandler, event: NamedEvent): readonly unknown[] {
  return (handler as DescribedHandler)[HANDLERS]?.(event) ?? [handler];
}

/**
 * Thrown by a handler to give its event up at once. The event is then dead: it is kept with its payload
 * and the reason, and not tried again until somebody replays it.
 *
 * @example
 * ```ts
 * import { type EventHandler, GiveUpError } from "@org/edge-base";
 *
 * export const handler: EventHandler = ({ payload }) => {
 *   if (payload.repository === undefined) throw new GiveUpError("Not of a repository");
 * };
 * ```
 *
 * @category Handlers
 */
export class GiveUpError extends Error {
  /** The class's name. */
  override readonly name = "GiveUpError";
}

/**
 * Thrown by a handler to put its event off, such as until a rate limit is over or a lock is free. This does
 * not count as a failure or an attempt, and the event is due again after the delay. It keeps its place in its
 * ordering group, which waits for it.
 *
 * Its steps stay stored, and effects of `settleWith` are not committed. Seven days after
 * the handler has put its event off for the first time, this error counts as any other. The days begin anew
 * once the event has waited for a name, or is replayed.
 *
 * Of several handlers of a router, those that have succeeded do not run again. The event is put off for the
 * longest delay, so that no handler is called too early. If another handler fails with an ordinary error,
 * that counts as a failed attempt, and the next one comes no earlier than after that delay.
 *
 * @example
 * ```ts
 * import { type EventHandler, RetryLaterError } from "@org/edge-base";
 * import { retryAtOf } from "@org/edge-base/events";
 *
 * export const handler: EventHandler = async (_event, { signal }) => {
 *   const response = await fetch("https://api.example.com/labels", { method: "POST", signal });
 *   const now = Date.now();
 *   const retryAt = retryAtOf(response, now);
 *   if (retryAt) throw new RetryLaterError("Rate limit", { afterMs: retryAt - now });
 * };
 * ```
 *
 * @category Handlers
 */
export class RetryLaterError extends Error {
  /** The class's name. */
  override readonly name = "RetryLaterError";
  /** Delay until the event is due again, in milliseconds. */
  readonly afterMs: number;

  /**
   * Creates the error.
   *
   * @param reason The reason, which the log and the event's record name.
   * @param options `afterMs` is the delay until the event is due again, in milliseconds, from 0 on. More than
   * 604,800,000, which is seven days, counts as that, since a service may ask for more, and less than 100 as 100.
   * `cause` is the error's cause.
   * @throws {TypeError} If the options are not an object, or have an unknown member.
   * @throws {RangeError} If the delay is not a finite number from 0 on.
   */
  constructor(
    reason: string,
    options: { readonly afterMs: number; readonly cause?: unknown },
  ) {
    checkOptions("put the event off", options, PUT_OFF_CHECKS, ["afterMs"]);
    const { afterMs, cause } = options;
    super(reason, cause === undefined ? undefined : { cause });
    this.afterMs = putOffDelay(afterMs);
  }
}

/**
 * Reason for which the `signal` of a handler is aborted because a newer event of its ordering group has come
 * ({@linkcode NewerOptions}). A handler that ends by it, or by an error that has it as its cause, runs anew with the newer
 * event in its batch, and no attempt is counted. So let it pass: `signal.throwIfAborted()` throws it, and so does `fetch`.
 *
 * @category Flows
 */
export class NewerEventError extends Error {
  /** The class's name. */
  override readonly name = "NewerEventError";
  /** The id of the newer event. */
  readonly eventId: string;

  /**
   * Creates the error.
   *
   * @param eventId The id of the newer event.
   */
  constructor(eventId: string) {
    super(`The event ${met(eventId)} is newer`);
    this.eventId = eventId;
  }
}

/**
 * Thrown by `waitFor` to end the handler, because its event has to wait. The attempt has not failed. Code that catches
 * errors should let it pass; if it does not, the event is parked all the same.
 *
 * @category Flows
 */
export class ParkedError extends Error {
  /** The class's name. */
  override readonly name = "ParkedError";

  /**
   * Creates the error.
   *
   * @param waitName The name that the event waits for.
   */
  constructor(waitName: string) {
    super(`The event waits for ${met(waitName)}`);
  }
}

/** Replaces an error that puts an event off before any handler has begun with it. */
export class PutOffUnbegun extends RetryLaterError {
  /** @param error The error. */
  constructor(error: RetryLaterError) {
    super(error.message, { afterMs: error.afterMs, cause: error });
  }
}

/** Thrown by a router if some of its handlers have put the event off, and others have failed. */
export class FailedAndPutOff extends AggregateError {
  /** Longest delay that the others have asked for, in milliseconds. */
  readonly afterMs: number;

  /**
   * Creates the error.
   *
   * @param errors The errors of the handlers.
   * @param message The message.
   * @param afterMs The longest delay.
   */
  constructor(errors: readonly unknown[], message: string, afterMs: number) {
    super(errors, message);
    this.afterMs = afterMs;
  }
}

/**
 * Thrown by a router that has no handler for an event. If another process has one, the event is put off. Otherwise
 * it is done then, as ignored; if its handling has begun before, by a version that had a handler, or the router is
 * strict, it is given up.
 */
export class NoHandler extends GiveUpError {
  /** True if a middleware has kept the event from its handlers, so that no other process is to look at it. */
  readonly isLeftOut: boolean;
  /** True if the event is to be given up, and not ignored. */
  readonly isStrict: boolean;
  readonly #eventName: string;
  readonly #reason: string | undefined;

  /**
   * @param eventName The event's name.
   * @param options The reason why none was called, if there may be one, and whether the event is given up.
   */
  constructor(
    eventName: string,
    { reason, isStrict = false }: {
      readonly reason?: string | undefined;
      readonly isStrict?: boolean;
    } = {},
  ) {
    super(`No handler for ${eventName}${reason === undefined ? "" : `: ${reason}`}`);
    this.#eventName = eventName;
    this.#reason = reason;
    this.isLeftOut = reason !== undefined;
    this.isStrict = isStrict;
  }

  /** Makes the same error of a strict app, which gives the event up. */
  strictly(): NoHandler {
    return new NoHandler(this.#eventName, { reason: this.#reason, isStrict: true });
  }
}

/** Thrown by an app for an event of a platform that it does not have: a failure, unless another process has it. */
export class NoSource extends Error {}

/** Checks whether an event has failed only because this version of the code has no handler for it. */
export function isUnhandled(error: unknown): error is NoHandler | NoSource {
  return error instanceof NoSource || (error instanceof NoHandler && !error.isLeftOut);
}

/** Replaces that error to put the event off, because another process has a handler for it. */
export class HandledElsewhere extends RetryLaterError {
  /**
   * @param cause The error.
   * @param afterMs The time for which the event is put off, in milliseconds.
   */
  constructor(cause: NoHandler | NoSource, afterMs: number) {
    super(`${cause.message}, another process may have one`, { afterMs, cause });
  }
}

/**
 * Makes the event that a handler gets.
 *
 * @param record The event's record.
 * @param body The event's payload.
 * @param payload The same, parsed.
 * @returns The event, alone in its batch.
 */
export function toEvent(
  record: EventRecord,
  body: Uint8Array<ArrayBuffer>,
  payload: JsonObject = parseJsonObject(body),
): WebhookEvent {
  const { id, deliveryId, intake, platform, source, type, requestId, attempt } = record;
  const { action, receivedAt, repository, chat, sender, keyRun } = record;
  const batch: WebhookEvent[] = [];
  const event: WebhookEvent = {
    id,
    deliveryId,
    intake,
    platform,
    source,
    type,
    payload,
    body,
    batch,
    receivedAt,
    requestId: requestId ?? undefined,
    attempt,
    action,
    repository,
    chat,
    sender,
    idempotencyKey: (call = "") => idempotencyKeyOf({ platform, source, id, body }, call, keyRun),
  };
  batch.push(event);
  return event;
}

/**
 * Makes the event that a handler gets of several ones: the latest, identified by the first. Only the first one cannot
 * leave the batch between two attempts.
 *
 * @param batch The events, in the order received.
 * @returns The event.
 */
export function toBatch(batch: readonly WebhookEvent[]): WebhookEvent {
  const [first, latest] = [batch[0]!, batch.at(-1)!];
  if (first === latest) return first;
  const { id, deliveryId, idempotencyKey } = first;
  return { ...latest, id, deliveryId, idempotencyKey, batch };
}

/**
 * Makes a key for a call, in the form of a UUID (version 8, RFC 9562). The body is part of it: two bots
 * of a messenger have updates of the same number. So is the run of an event that was replayed after it was
 * done.
 */
function idempotencyKeyOf(
  { platform, source, id, body }: Pick<WebhookEvent, "platform" | "source" | "id" | "body">,
  call: string,
  run: number | undefined,
): string {
  const hash = createHash("sha256").update(
    JSON.stringify([platform, source, id, call, ...(run === undefined ? [] : [run])]),
  );
  const bytes = hash.update(body).digest();
  bytes[6] = (bytes[6]! & 0x0f) | 0x80;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = bytes.toString("hex");
  const groups = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20)];
  return [...groups, hex.slice(20, 32)].join("-");
}
