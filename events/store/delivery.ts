import type { JsonObject } from "../../core/parse_json.ts";

/** The repository that a forge's event is of. */
export interface EventRepository {
  /** Its id at the forge. */
  readonly id: number;
  /** Its owner and name: `octocat/hello-world`; at GitLab with all groups. */
  readonly fullName: string;
  /** What is before its name. */
  readonly owner: string;
  /** Its name. */
  readonly name: string;
}

/** The chat that a messenger's update is of. */
export interface EventChat {
  /** Its id. */
  readonly id: number;
  /** `private`, `group`, `supergroup` or `channel`. */
  readonly type: string | undefined;
}

/** Who has brought an event about. */
export interface EventSender {
  /** The user's id. */
  readonly id: number;
  /** The login or user name, else a messenger's first name. */
  readonly name: string | undefined;
  /** Whether it is known to be a bot: one that answers itself never ends. */
  readonly isBot: boolean;
}

/** A platform: each has an app and secrets of its own. */
export type PlatformName = "forge" | "messenger";

/** A delivery that was proved genuine and parsed, ready for the event store. */
export interface Delivery {
  /** The platform it came from. */
  readonly platform: PlatformName;
  /** The product that sent it, as its headers tell: `forge`, `github`, `telegram`, ... */
  readonly source: string;
  /** The type of the event: `push`, `message`, ... */
  readonly type: string;
  /** The sender's id of it, the same when it is sent again; undefined where the sender gives none. */
  readonly deliveryId: string | undefined;
  /**
   * The intake that has taken it. Delivery ids, ordering keys and documents of different intakes are
   * told apart by it, so that several can share a store.
   */
  readonly intake?: string | undefined;
  /** Events with the same key are handled one at a time, in the order received. */
  readonly orderingKey?: string | undefined;
  /** The trace that its handling is to be part of, as W3C Trace Context has it. Any other text is dropped. */
  readonly traceparent?: string | undefined;
  /** What happened, where the event's type leaves that open: `opened`, `closed`, ... */
  readonly action?: string | undefined;
  /** The repository that it is of. */
  readonly repository?: EventRepository | undefined;
  /** The chat that it is of. */
  readonly chat?: EventChat | undefined;
  /** The user who brought it about. */
  readonly sender?: EventSender | undefined;
  /** The id of the request that brought it, for the logs. */
  readonly requestId?: string | undefined;
  /** The JSON document, byte for byte. */
  readonly body: Uint8Array<ArrayBuffer>;
  /** The JSON document, parsed. */
  readonly payload: JsonObject;
}

/**
 * Tells the id of the event that a delivery becomes.
 *
 * @param delivery The delivery.
 * @returns The intake's name and the delivery id, `forge:72d3162e`; the delivery id alone where no intake
 * is named. Where there is no delivery id, a UUID takes its place: another one at each call.
 */
export function eventIdOf({ intake, deliveryId }: Delivery): string {
  return inIntake(intake, deliveryId ?? crypto.randomUUID());
}

/**
 * Tells a name apart from the same name of another intake.
 *
 * @param intake The intake's name; undefined or null for none.
 * @param name The name.
 * @returns Both, with a colon between.
 */
export function inIntake(intake: string | null | undefined, name: string): string {
  return intake == null ? name : `${intake}:${name}`;
}
