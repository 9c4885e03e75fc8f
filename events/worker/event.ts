import type { LogSink } from "../../core/mod.ts";
import type {
  CommitEffects,
  EventChat,
  EventRecord,
  EventRepository,
  EventSender,
} from "../store/mod.ts";
import { idempotencyKeyOf } from "./_idempotency_key.ts";
import { type JsonObject, parseJsonObject } from "../../core/parse_json.ts";

/** An event, as a handler gets it. */
export interface WebhookEvent<TPayload = JsonObject> {
  /**
   * Its id, the same in each attempt: the intake's name and the sender's delivery id, `forge:72d3162e`,
   * or a UUID where the sender gives none.
   */
  readonly id: string;
  /** The sender's delivery id; undefined where the sender gives none. */
  readonly deliveryId: string | undefined;
  /** The name of the intake that has taken it. */
  readonly intake: string | undefined;
  /** The platform it came from: `forge` or `messenger`. */
  readonly platform: string;
  /** The product that sent it: `github`, `forgejo`, `telegram`, ... */
  readonly source: string;
  /** The type of the event: `push`, `message`, ... */
  readonly type: string;
  /** What happened, where the type leaves that open: `opened`, `closed`, ... */
  readonly action: string | undefined;
  /** The JSON document, parsed. */
  readonly payload: TPayload;
  /** The JSON document, byte for byte. */
  readonly body: Uint8Array<ArrayBuffer>;
  /** When it was taken in, ISO 8601 in UTC. */
  readonly receivedAt: string;
  /** The id of the request that brought it, as in that request's log record. */
  readonly requestId: string | undefined;
  /** Which attempt this is, from 1. */
  readonly attempt: number;
  /** The repository that it is of; undefined where it is of none. */
  readonly repository: EventRepository | undefined;
  /** The chat that it is of; undefined where it is of none. */
  readonly chat: EventChat | undefined;
  /** Who has brought it about; undefined where that is not told. */
  readonly sender: EventSender | undefined;
  /**
   * Makes a key for a call that the handler makes, for a service that knows repeated calls by one
   * (`Idempotency-Key`). It is the same in each attempt, and when the delivery is sent again.
   *
   * @param call What is called, where the handler makes several calls.
   * @returns The key, in the form of a UUID.
   */
  idempotencyKey(call?: string): string;
}

/** What a handler gets beside the event. */
export interface HandlerContext {
  /** Aborted when the event was lost to another worker, or the worker stops: give up then. */
  readonly signal: AbortSignal;
  /**
   * Where the worker logs, for records of the handler's own: `writeLog(log, "info", "labelled", { id })`.
   * `console.log` in its place holds the process up when nobody reads its output.
   */
  readonly log: LogSink;
  /** The KV that the event is in: for reading what was committed with `settleWith` or `checkpoint`. */
  readonly kv: Deno.Kv;
  /**
   * Adds mutations to the commit that settles the event as done, for effects that live in the same
   * KV: they happen exactly once, and not at all when the handler fails. A check of theirs that does
   * not hold fails the attempt.
   *
   * A commit holds 1,000 mutations; settling takes up to 8, and one for each 65,000 bytes of the payload.
   *
   * @param effects Called with the commit once the handler is through. It must be synchronous.
   * @throws {TypeError} If the handler has ended.
   */
  settleWith(effects: CommitEffects): void;
  /** The parts of the handling that are done already, by the names they were noted under. */
  readonly progress: readonly string[];
  /**
   * Notes durably that a part of the handling is done, for an attempt after this one. The effects are
   * committed with that, exactly once, whatever becomes of the other parts.
   *
   * @param part The part's name. It is kept in the event's record, where all names may take 32,768 bytes:
   * 8 for each and one for each character, so 1,600 names of 12.
   * @param effects Called at once with the commit. It must be synchronous.
   * @returns A promise that resolves once it is stored.
   * @throws {RangeError} If the names would take more.
   * @throws {Error} If the event was lost to another worker, or the effects cannot be committed.
   * @throws {TypeError} If the handler has ended.
   */
  checkpoint(part: string, effects?: CommitEffects): Promise<void>;
}

/**
 * Handles an event. It is handled once this returns or resolves, and tried again later when it throws
 * or rejects.
 *
 * An event is handled at least once: after a crash the same event comes again. What a handler does
 * elsewhere should bear repeating; {@linkcode WebhookEvent.id} is the key to know a repetition by.
 */
export type EventHandler<TPayload = JsonObject> = (
  event: WebhookEvent<TPayload>,
  context: HandlerContext,
) => unknown;

/**
 * Makes the event that a handler gets.
 *
 * @param record The event's record.
 * @param body The event's payload.
 * @param payload The same, parsed.
 * @returns The event.
 */
export function toEvent(
  record: EventRecord,
  body: Uint8Array<ArrayBuffer>,
  payload: JsonObject = parseJsonObject(body),
): WebhookEvent {
  const { id, deliveryId, intake, platform, source, type, requestId, attempt } = record;
  const { action, repository, chat, sender } = record;
  return {
    id,
    deliveryId,
    intake,
    platform,
    source,
    type,
    payload,
    body,
    receivedAt: new Date(record.receivedAt).toISOString(),
    requestId: requestId ?? undefined,
    attempt,
    action,
    repository,
    chat,
    sender,
    idempotencyKey: (call = "") => idempotencyKeyOf({ platform, source, id, body }, call),
  };
}
