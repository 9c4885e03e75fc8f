import type { EventRecord, EventState, StoredEvent } from "../events/mod.ts";

/**
 * A number of events in a state. Beyond 10,000 nothing is counted.
 */
export interface Count {
  /** Number of events, at most 10,000. */
  readonly count: number;
  /** True if there are more, or may be: below 10,000, the count was cut short. */
  readonly isMore: boolean;
}

/** Counts of all instances during a span of time, for one bar or point of a chart. */
export interface ActivitySlot {
  /** Beginning, milliseconds since the epoch. */
  readonly at: number;
  /** Number of deliveries stored. */
  readonly received: number;
  /** Number of deliveries refused. */
  readonly refused: number;
  /** Number of events handled. */
  readonly handled: number;
  /** Number of attempts that failed. */
  readonly failed: number;
}

/** Numbers of a type of event. */
export interface TypeNumbers {
  /** Number of deliveries stored. */
  readonly received: number;
  /** Number of events handled. */
  readonly handled: number;
  /** Number of attempts that failed. */
  readonly failed: number;
}

/** Activity of all instances, from their records of each minute. */
export interface Activity {
  /** Length of a slot, in milliseconds: a minute for an hour, 15 minutes for a day. */
  readonly slotMs: number;
  /** Slots in their order, those without activity among them. */
  readonly slots: readonly ActivitySlot[];
  /** Numbers of refused deliveries by error code, the largest first. */
  readonly refusedBy: readonly { readonly code: string; readonly count: number }[];
  /**
   * Numbers by source and type of event, those with most received first, at most 20. The source is the name
   * of a platform or of the app's own. It is empty for the rest, whose type is `other`.
   */
  readonly types: readonly ({ readonly source: string; readonly type: string } & TypeNumbers)[];
  /** Number of the types that are not among those, and their sums; undefined if all are. */
  readonly moreTypes?: ({ readonly count: number } & TypeNumbers) | undefined;
  /**
   * Times from the receipt of an event until it was handled, without planned waits, in milliseconds; null
   * without any. They are right to 9 %.
   */
  readonly latency: { readonly p50: number; readonly p99: number } | null;
}

/** Period of the charts. */
export type Period = "hour" | "day";

/** State of the store and activity of the app, for the first page. */
export interface Overview {
  /** Numbers of events by state; null while they are counted for the first time. */
  readonly counts: Readonly<Record<EventState, Count>> | null;
  /** Time at which they were counted, milliseconds since the epoch. */
  readonly countedAt: number | null;
  /** Time at which those that are done were counted, which takes longer; null while that is done first. */
  readonly doneCountedAt: number | null;
  /** Time at which the longest-waiting due event became due; null if none is due. */
  readonly oldestDueAt: number | null;
  /** Number of instances whose worker has written a record in the last two minutes; null while it is not read. */
  readonly workers: number | null;
  /** Activity; null while it is read for the first time. */
  readonly activity: Activity | null;
}

/** Choice of deliveries. All conditions that are given must hold. */
export interface DeliveryQuery {
  /** State. */
  readonly state?: StoredEvent["state"] | undefined;
  /** Type of event. */
  readonly type?: string | undefined;
  /** Name of the source: of a platform, or of the app's own. */
  readonly source?: string | undefined;
  /** Full name of the repository, or id of the chat. */
  readonly place?: string | undefined;
  /** Ordering key. */
  readonly group?: string | undefined;
  /** Earliest time of receipt, milliseconds since the epoch. */
  readonly from?: number | undefined;
  /** Time of receipt before which they came. */
  readonly before?: number | undefined;
}

/** Page of deliveries, the newest first. */
export interface DeliveryPage {
  /** Events found, at most 50. */
  readonly events: readonly StoredEvent[];
  /** Cursor for the next page; undefined if everything was searched. */
  readonly cursor: string | undefined;
  /** True if the search ended before the last event, and has found fewer than a page shows. */
  readonly isCut: boolean;
  /** Time of receipt back to which was searched then; undefined where events do not come in that order. */
  readonly searchedTo: number | undefined;
  /** False if more events are open than a page sorts: they come in the order of the store's indexes. */
  readonly isSorted: boolean;
}

/** Delivery with what surrounds it. */
export interface DeliveryDetails {
  /** Record of the event. */
  readonly event: StoredEvent;
  /** Number of events that wait before it in its ordering group, if it waits in one. */
  readonly before: Count | undefined;
  /** First event of that group. */
  readonly first: EventRecord | undefined;
  /** Ids of the events that its handlers emitted, as far as they are found, at most 50. */
  readonly emitted: readonly string[];
  /** Records of the first ones of those and of the one that caused it, by their ids, to name them. */
  readonly related: ReadonlyMap<string, EventRecord>;
}

/** Kind of act. */
export type ActKind = "replay" | "cancel" | "purge";

/** Kept record of an act: who did what, when, and to how many. */
export interface Act {
  /** Id, which begins with the time of the question that was asked before. */
  readonly id: string;
  /** Kind. */
  readonly kind: ActKind;
  /** Time at which it began, milliseconds since the epoch. */
  readonly at: number;
  /** Session and address of who did it, for people: `operator 3f2a from 203.0.113.7`. */
  readonly by: string;
  /** Event that it was done to; undefined for all that match. */
  readonly eventId?: string | undefined;
  /** Type of that event, and the repository or chat that it belongs to, for people. */
  readonly about?: string | undefined;
  /** Choice of events, of an act on many. */
  readonly query?: DeliveryQuery | undefined;
  /** Number of events changed so far. */
  readonly changed: number;
  /** Number of events of the batch that was cancelled with its first one, which is the one that was changed. */
  readonly batch?: number | undefined;
  /**
   * Number of further events that are being changed. Of an act that failed or was interrupted, they may be
   * changed or not.
   */
  readonly underway?: number | undefined;
  /** Number of events that cannot be replayed, since they are done and their payloads are not kept. */
  readonly notKept?: number | undefined;
  /** Number of events read so far: those that the question was about. */
  readonly seen: number;
  /** State: an act whose process has died is `interrupted`. */
  readonly state: "running" | "finished" | "failed" | "interrupted" | "stopped";
  /** Session and address of who stopped it. */
  readonly stoppedBy?: string | undefined;
  /** Error, if it failed. */
  readonly error?: string | undefined;
}

/** Page of acts, the newest first. */
export interface ActPage {
  /** Acts, at most 50. */
  readonly acts: readonly Act[];
  /** Cursor for the next page; undefined if there is none. */
  readonly cursor: string | undefined;
}

/** Number of events that an act would change: the exact one, or how far the count has come. */
export interface ActCount {
  /** Number of events. */
  readonly count: number;
  /** True while it is being counted. */
  readonly isMore: boolean;
  /** Time of the question, to which the act keeps: it has begun with the count. */
  readonly askedAt: number;
  /** Number of further events that match and cannot be replayed, since their payloads are not kept. */
  readonly notKept?: number | undefined;
}

/** Data that the console's pages show, and the acts that they offer. */
export interface ConsoleData {
  /** Reads the first page. */
  overview(period: Period): Promise<Overview>;
  /** Searches deliveries, the newest first. Reads at most 2,000 records. */
  search(query: DeliveryQuery, cursor?: string): Promise<DeliveryPage>;
  /** Reads a delivery; null if there is none of this id. */
  details(id: string): Promise<DeliveryDetails | null>;
  /** Finds the ids of the events that have a delivery id, as their senders' pages show it. */
  withDeliveryId(deliveryId: string): Promise<readonly string[]>;
  /** Reads the bytes of a payload; null if it is not kept any more. */
  payload(event: EventRecord): Promise<Uint8Array<ArrayBuffer> | null>;
  /**
   * Counts the events that an act on a choice would change, in the background: who asks again learns how far that
   * has come. It ends if nobody asks for ten seconds. Once it has ended, only a page that refreshes gets it.
   */
  countFor(kind: ActKind, query: DeliveryQuery, isPoll?: boolean): Promise<ActCount>;
  /**
   * Acts on one event, and keeps a record if it was changed. `changed` is 0 if its state does not allow it. If
   * an act with the id has begun before, that one is returned.
   */
  act(kind: ActKind, eventId: string, by: string, id?: string): Promise<Act>;
  /**
   * Begins to act on all events of a choice, paced, and keeps a record. Those are left alone that came after
   * the time of the question, which the id has, or were settled after it. If an act with the id has begun
   * before, that one is returned.
   */
  actOnAll(kind: ActKind, query: DeliveryQuery, by: string, id?: string): Promise<Act>;
  /** Has an act on many stop after the step that it is at, whatever instance runs it. */
  stopAct(id: string, by: string): Promise<void>;
  /** Reads an act, with its progress; null if there is none. */
  getAct(id: string): Promise<Act | null>;
  /** Lists acts, the newest first. */
  acts(cursor?: string): Promise<ActPage>;
}
