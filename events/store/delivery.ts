import type { JsonObject } from "../../core/parse_json.ts";

/**
 * The repository of a forge's event.
 *
 * @category Handlers
 */
export interface EventRepository {
  /** Its id at the forge. */
  readonly id: number;
  /** Its owner and name: `octocat/hello-world`; at GitLab with all groups. */
  readonly fullName: string;
  /** The part before its name. */
  readonly owner: string;
  /** Its name. */
  readonly name: string;
}

/**
 * The chat of a messenger's update.
 *
 * @category Handlers
 */
export interface EventChat {
  /** Its id. */
  readonly id: number;
  /** `private`, `group`, `supergroup` or `channel`. */
  readonly type: string | undefined;
}

/**
 * The user who caused an event.
 *
 * @category Handlers
 */
export interface EventSender {
  /** The user's id. */
  readonly id: number;
  /** The login or user name, else a messenger's first name. */
  readonly name: string | undefined;
  /** Set if it is known to be a bot: one that answers itself never ends. */
  readonly isBot: boolean;
}

/**
 * A delivery that was verified and parsed, ready for the event store.
 *
 * @category Event store and worker
 */
export interface Delivery {
  /** The kind of platform it came from: `forge`, `messenger`, or one of your own. */
  readonly platform: string;
  /** The product that sent it, taken from its headers: `forge`, `github`, `telegram`, ... */
  readonly source: string;
  /** The type of the event: `push`, `message`, ... */
  readonly type: string;
  /** The sender's id of it, the same when it is sent again; undefined if the sender gives none. */
  readonly deliveryId: string | undefined;
  /**
   * The intake that accepted it. It keeps delivery ids, ordering keys and documents of different intakes
   * apart, so that several can share a store.
   */
  readonly intake?: string | undefined;
  /** Events with the same key are handled one at a time, in the order received. */
  readonly orderingKey?: string | undefined;
  /**
   * Time without a new event of the same ordering key after which those that wait are handled together, in
   * milliseconds. Undefined if each is handled by itself.
   */
  readonly quietMs?: number | undefined;
  /** Longest time that the first of them waits for that, in milliseconds: ten times as long by default. */
  readonly maxWaitMs?: number | undefined;
  /** The trace that its handling becomes part of, as W3C Trace Context has it. Any other text is dropped. */
  readonly traceparent?: string | undefined;
  /** The action, for types that have several: `opened`, `closed`, ... */
  readonly action?: string | undefined;
  /** The repository that it belongs to. */
  readonly repository?: EventRepository | undefined;
  /** The chat that it belongs to. */
  readonly chat?: EventChat | undefined;
  /** The user who caused it. */
  readonly sender?: EventSender | undefined;
  /** The id of the request that brought it, for the logs. */
  readonly requestId?: string | undefined;
  /** The JSON document, byte for byte. */
  readonly body: Uint8Array<ArrayBuffer>;
  /** The JSON document, parsed. */
  readonly payload: JsonObject;
}
