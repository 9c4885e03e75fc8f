import { createHash } from "node:crypto";
import type { LogSink } from "../../core/mod.ts";
import type {
  CommitEffects,
  EventChat,
  EventRecord,
  EventRepository,
  EventSender,
} from "../store/mod.ts";
import type { Timeout } from "../../core/timeouts.ts";
import { type JsonObject, parseJsonObject } from "../../core/parse_json.ts";

/** An event, as a handler gets it. */
export interface WebhookEvent<TPayload = JsonObject> {
  /**
   * Its id, the same in each attempt: the intake's name and the sender's delivery id, `forge:72d3162e`,
   * or a UUID if the sender gives none.
   */
  readonly id: string;
  /** The sender's delivery id; undefined if the sender gives none. */
  readonly deliveryId: string | undefined;
  /** The name of the intake that accepted it. */
  readonly intake: string | undefined;
  /** The platform it came from: `forge` or `messenger`. */
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
  /** Time at which it was accepted, in milliseconds since the epoch. */
  readonly receivedAt: number;
  /** The id of the request that brought it, as in that request's log record. */
  readonly requestId: string | undefined;
  /** Number of the attempt, from 1. */
  readonly attempt: number;
  /** The repository it concerns; undefined if there is none. */
  readonly repository: EventRepository | undefined;
  /** The chat it concerns; undefined if there is none. */
  readonly chat: EventChat | undefined;
  /** The user who caused it; undefined if the payload names none. */
  readonly sender: EventSender | undefined;
  /**
   * Makes a key for a call to a service that recognizes repeated calls by one (`Idempotency-Key`). It is
   * the same in each attempt, and when the delivery is sent again.
   *
   * @param call A name for the call, if the handler makes several.
   * @returns The key, in the form of a UUID.
   */
  idempotencyKey(call?: string): string;
}

/** The second argument of a handler. */
export interface HandlerContext {
  /**
   * Aborted when the event is cancelled, when its lease is lost to another worker, when the handler has
   * reached its time limit, or when the worker stops: the handler should end then. The next event of the
   * same ordering key waits until it has.
   */
  readonly signal: AbortSignal;
  /**
   * The worker's log, for the handler's own records: `writeLog(log, "info", "labelled")`. It adds the id of
   * the event, as `eventId`. `console.log` would block the process when nobody reads its output.
   */
  readonly log: LogSink;
  /**
   * The KV of the event store, for reading what `settleWith` or `checkpoint` committed.
   *
   * Where the store's notifier is `enqueue`, the queue of this KV is the store's: `enqueue` and
   * `listenQueue` throw a `TypeError`, and so does `enqueue` of an operation or of the commit that effects
   * add to. For a queue of your own, open another KV, with a path of its own.
   */
  readonly kv: Deno.Kv;
  /**
   * Adds mutations to the commit that settles the event as done, for effects in the same KV. They happen
   * exactly once, and not at all if the handler fails or the event is cancelled. If one of their checks
   * does not hold, the attempt fails.
   *
   * A commit holds 1,000 mutations; settling takes up to 8, and one for each 65,000 bytes of the payload.
   *
   * @param effects Called with the commit after the handler has ended. It must be synchronous.
   * @throws {TypeError} If the handler has ended.
   */
  settleWith(effects: CommitEffects): void;
  /** The names of the parts that earlier attempts have noted as done. */
  readonly progress: readonly string[];
  /**
   * Notes durably that a part of the handling is done, so that a later attempt can skip it. The effects
   * are committed with that, exactly once, even if another part fails.
   *
   * @param part The part's name. It is kept in the event's record, where all names may take 32,768 bytes:
   * 8 for each and one for each character, so 1,600 names of 12.
   * @param effects Called at once with the commit. It must be synchronous.
   * @returns A promise that resolves once it is stored.
   * @throws {RangeError} If the names would take more.
   * @throws {Error} If the event was cancelled or lost to another worker, or the effects cannot be
   * committed.
   * @throws {TypeError} If the handler has ended.
   */
  checkpoint(part: string, effects?: CommitEffects): Promise<void>;
}

/**
 * Handles an event. The event is done once this returns or resolves, and tried again later if it throws
 * or rejects.
 *
 * An event is handled at least once: after a crash the same event comes again. Make sure that effects
 * outside the KV can be repeated; {@linkcode WebhookEvent.id} identifies a repetition.
 */
export type EventHandler<TPayload = JsonObject> = (
  event: WebhookEvent<TPayload>,
  context: HandlerContext,
) => unknown;

/** Key of a {@linkcode LimitedContext}. */
export const TIME_LIMIT = Symbol("timeLimit");

/** A handler's context with the time limit of its attempt, for a router whose handlers have their own. */
export interface LimitedContext extends HandlerContext {
  /**
   * The worker's limit in milliseconds, a function that sets another one, counted from now, and one that
   * starts a further timeout, which the job cancels if it is given back.
   */
  readonly [TIME_LIMIT]?: {
    readonly ms: number;
    readonly change: (ms: number) => void;
    readonly start: (ms: number, onLimit: () => void) => Timeout;
  };
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
 */
export class GiveUpError extends Error {
  /** The class's name. */
  override readonly name = "GiveUpError";
}

/**
 * Thrown by a router that has no handler for an event. The event is done then, as ignored; if its handling
 * has begun before, by a version that had a handler, it is given up.
 */
export class NoHandler extends GiveUpError {
  /** @param eventName The event's name. */
  constructor(eventName: string) {
    super(`No handler for ${eventName}`);
  }
}

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
  const { action, receivedAt, repository, chat, sender } = record;
  return {
    id,
    deliveryId,
    intake,
    platform,
    source,
    type,
    payload,
    body,
    receivedAt,
    requestId: requestId ?? undefined,
    attempt,
    action,
    repository,
    chat,
    sender,
    idempotencyKey: (call = "") => idempotencyKeyOf({ platform, source, id, body }, call),
  };
}

/**
 * Makes a key for a call, in the form of a UUID (version 8, RFC 9562). The body is part of it: two bots
 * of a messenger have updates of the same number.
 */
function idempotencyKeyOf(
  { platform, source, id, body }: Pick<WebhookEvent, "platform" | "source" | "id" | "body">,
  call: string,
): string {
  const hash = createHash("sha256").update(
    JSON.stringify([platform, source, id, call]),
  );
  const bytes = hash.update(body).digest();
  bytes[6] = (bytes[6]! & 0x0f) | 0x80;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = bytes.toString("hex");
  const groups = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20)];
  return [...groups, hex.slice(20, 32)].join("-");
}
