/** What became of a delivery. */
export type DeliveryOutcome = "accepted" | "duplicate" | "rejected" | "ignored";

/**
 * How an attempt at handling an event ended: the event is handled, waits for another attempt, is dead, was
 * given back without that the attempt counts, or is another worker's.
 */
export type AttemptOutcome = "handled" | "retried" | "dead" | "returned" | "lost";

/** A delivery that is being stored. */
export interface StoredDelivery {
  /** The platform it came from. */
  readonly platform: string;
  /** How many bytes its payload has. */
  readonly bytes: number;
}

/** A delivery, and what became of it. */
export interface CountedDelivery {
  /** The platform it came from. */
  readonly platform: string;
  /** What became of it. */
  readonly outcome: DeliveryOutcome;
  /** The type of its event, once it is proved. */
  readonly type?: string | undefined;
  /** The code it was rejected with. */
  readonly code?: string | undefined;
}

/** An event that is being handled: a part of its record. */
export interface AttemptedEvent {
  /** The event's id. */
  readonly id: string;
  /** The platform it came from. */
  readonly platform: string;
  /** The type of the event. */
  readonly type: string;
  /** Which attempt it is, from 1. */
  readonly attempt: number;
  /** When it was taken in, milliseconds since the epoch. */
  readonly receivedAt: number;
  /** The trace of its delivery, as the header `traceparent` of W3C Trace Context has it. */
  readonly traceparent?: string | undefined;
}

/** One attempt at handling an event. */
export interface Attempt {
  /**
   * Runs a part of the attempt: spans and log records made in it become part of its trace.
   *
   * @param part The part.
   * @returns What it returns.
   */
  run<T>(part: () => T): T;
  /** The handler has returned or thrown. */
  handlerEnded(): void;
  /**
   * The event is settled, or somebody else's.
   *
   * @param outcome How the attempt ended.
   * @param failure What was thrown, if the attempt failed. Only its name is told, never its message.
   */
  settled(outcome: AttemptOutcome, failure?: { readonly error: unknown }): void;
}

/**
 * What an app reports to: {@linkcode openTelemetry} makes one. Give the same one to the app, its intake
 * and its worker. No method throws for what it is given.
 */
export interface Telemetry {
  /**
   * Names the span of the request that is being answered.
   *
   * @param method The request's method: any, as the sender wrote it.
   * @param route The route, as the app has it: `/webhook`, `/users/:id`; undefined if none takes it.
   */
  nameRequest(method: string, route: string | undefined): void;
  /**
   * Stores a delivery within a span of its own.
   *
   * @param delivery The delivery.
   * @param store Stores it, together with the trace that its handling is to be part of.
   * @returns What that returns.
   */
  storing<T>(
    delivery: StoredDelivery,
    store: (traceparent: string | undefined) => Promise<T>,
  ): Promise<T>;
  /**
   * Counts a delivery.
   *
   * @param delivery The delivery, and what became of it.
   */
  countDelivery(delivery: CountedDelivery): void;
  /**
   * Begins an attempt at handling an event.
   *
   * @param event The event.
   * @returns The attempt.
   */
  attempt(event: AttemptedEvent): Attempt;
  /**
   * Reports for how long the next event has been due, whenever metrics are collected.
   *
   * @param read Reads since when that is, milliseconds since the epoch; null if nothing is due.
   * @returns Ends it.
   */
  watchOldestDue(read: () => Promise<number | null>): () => void;
}
