/** Outcome of a delivery. */
export type DeliveryOutcome = "accepted" | "duplicate" | "rejected" | "ignored";

/**
 * End of an attempt at handling an event: the event is handled, was ignored because there is no handler for
 * it, waits for another attempt, is dead, was cancelled while its handler ran, was given back without
 * counting the attempt, or is another worker's.
 */
export type AttemptOutcome =
  | "handled"
  | "ignored"
  | "retried"
  | "dead"
  | "cancelled"
  | "returned"
  | "lost";

/** Delivery that is being stored. */
export interface StoredDelivery {
  /** Platform that sent the delivery. */
  readonly platform: string;
  /** Size of its payload, in bytes. */
  readonly bytes: number;
}

/** Delivery with its outcome. */
export interface CountedDelivery {
  /** Platform that sent the delivery. */
  readonly platform: string;
  /** Outcome. */
  readonly outcome: DeliveryOutcome;
  /** Type of its event, once the delivery is verified. */
  readonly type?: string | undefined;
  /** Error code of a rejection. */
  readonly code?: string | undefined;
}

/** Event that is being handled: a part of its record. */
export interface AttemptedEvent {
  /** Id of the event. */
  readonly id: string;
  /** Platform that sent the delivery. */
  readonly platform: string;
  /** Type of the event. */
  readonly type: string;
  /** Number of the attempt, from 1. */
  readonly attempt: number;
  /** Time of receipt, in milliseconds since the epoch. */
  readonly receivedAt: number;
  /** Trace of its delivery, in the form of the header `traceparent` of W3C Trace Context. */
  readonly traceparent?: string | undefined;
}

/** One attempt to handle an event. */
export interface Attempt {
  /**
   * Runs a function within the attempt: its spans and log records become part of the trace.
   *
   * @param part The function.
   * @returns The function's result.
   */
  run<T>(part: () => T): T;
  /** Notes that the handler has returned or thrown. */
  handlerEnded(): void;
  /**
   * Notes that the event is settled, or lost to another worker.
   *
   * @param outcome The outcome of the attempt.
   * @param failure The thrown value, if the attempt failed. Its name is reported, never its message.
   */
  settled(outcome: AttemptOutcome, failure?: { readonly error: unknown }): void;
}

/**
 * Receiver of an app's traces and metrics. {@linkcode openTelemetry} opens one. Give the same one to the
 * app, its intake and its worker. Its methods accept any values without throwing.
 */
export interface Telemetry {
  /**
   * Names the span of the request that is being answered.
   *
   * @param method The method of the request, as the sender wrote it.
   * @param route The route in the app, such as `/webhook` or `/users/:id`; undefined if none matches.
   */
  nameRequest(method: string, route: string | undefined): void;
  /**
   * Stores a delivery within a span of its own.
   *
   * @param delivery The delivery.
   * @param store The function that stores it, with the trace that its handling will be part of.
   * @returns The function's result.
   */
  storing<T>(
    delivery: StoredDelivery,
    store: (traceparent: string | undefined) => Promise<T>,
  ): Promise<T>;
  /**
   * Counts a delivery.
   *
   * @param delivery The delivery, with its outcome.
   */
  countDelivery(delivery: CountedDelivery): void;
  /**
   * Begins an attempt to handle an event.
   *
   * @param event The event.
   * @returns The attempt.
   */
  attempt(event: AttemptedEvent): Attempt;
  /**
   * Reports how long the next event has been due, whenever metrics are collected.
   *
   * @param read A function that reads the time at which it became due, in milliseconds since the epoch;
   * null if nothing is due.
   * @returns A function that ends the reports.
   */
  watchOldestDue(read: () => Promise<number | null>): () => void;
}
