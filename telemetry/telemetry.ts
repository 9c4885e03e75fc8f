/** Delivery that is being stored. */
export type StoredDelivery = Parameters<Telemetry["storing"]>[0];

/** Delivery with its outcome. */
export type CountedDelivery = Parameters<Telemetry["countDelivery"]>[0];

/** End of an attempt at handling an event. */
export type AttemptOutcome = Parameters<Attempt["settled"]>[0];

/**
 * Step in the life of events that is neither a delivery nor an attempt.
 *
 * @category Log and telemetry
 */
export type CountedStep =
  | {
    /** An event that a handler emitted was stored. One whose id is known is not. */
    readonly is: "emitted";
    /** Its source. */
    readonly source: string;
    /** Its type. */
    readonly type: string;
  }
  | {
    /** Events were cancelled that waited, or whose process was gone: no attempt has told it. */
    readonly is: "cancelled";
    /** Platform that sent them. */
    readonly platform: string;
    /** Name of the intake that accepted them, or of the source that emitted them. */
    readonly intake?: string | undefined;
    /** Type of the first one. */
    readonly type: string;
    /** Their number: that of a batch, or 1. */
    readonly count: number;
  }
  | {
    /** The wait of an event for a name has ended. */
    readonly is: "wait_ended";
    /** Platform that sent the event. */
    readonly platform: string;
    /** Its end: it was woken, had the value from before it waited, or its time has passed. */
    readonly outcome: "woken" | "early" | "timed_out";
  }
  | {
    /** A call, or the beginning of an event, has had to wait for room under a limit of a service. */
    readonly is: "limited";
    /** Name of the limit, without its key. */
    readonly limit: string;
    /** Outcome: it had room after a while, or there was none in time, so its event is put off. */
    readonly outcome: "waited" | "put_off";
  }
  | {
    /** Slots of a schedule became events, or were left out. */
    readonly is: "slots";
    /** Name of the schedule. */
    readonly schedule: string;
    /** Outcome. Slots that are made over two minutes late are made up. */
    readonly outcome: "made" | "made_up" | "left_out";
    /** Their number. */
    readonly count: number;
  }
  | {
    /** Payloads that were kept of done events were dropped. */
    readonly is: "payloads_dropped";
    /** Reason: they were too old, took too much together, or no payloads are kept any more. */
    readonly reason: "age" | "size" | "off";
    /** Their number. */
    readonly count: number;
  }
  | {
    /** A check of the whole store has ended. */
    readonly is: "checked";
    /** Number of values that could not be decoded. */
    readonly unreadable: number;
  }
  | {
    /** An event that nothing led to was put back. */
    readonly is: "put_back";
  }
  | {
    /** A run of `catchUp` has ended. */
    readonly is: "caught_up";
    /** Kind of deliveries that it has found, as the members of its result are named. */
    readonly outcome: "asked" | "failed" | "stored" | "refused" | "too_old" | "left";
    /** Their number. */
    readonly count: number;
  };

/** Event that is being handled. */
export type AttemptedEvent = Parameters<Telemetry["attempt"]>[0];

/** Measures the time since an event was received, in milliseconds, without that for which it was to wait. */
export function takenMs({ receivedAt, plannedMs = 0, quiet }: AttemptedEvent): number {
  return Math.max(0, Date.now() - receivedAt - plannedMs - (quiet?.waitedMs ?? 0));
}

/**
 * One attempt to handle an event.
 *
 * @category Log and telemetry
 */
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
   * @param outcome The end of the attempt: the event is handled, was ignored without a handler, waits for another
   * attempt, is dead, was cancelled while its handler ran, was given back, put off or
   * parked or interrupted without counting the attempt, or belongs to another worker now.
   * @param failure The thrown value, if the attempt failed. Its name is reported, never its message.
   * @param joined The number of newer events that have joined its batch since it began, and are settled with it.
   */
  settled(
    outcome:
      | "handled"
      | "ignored"
      | "retried"
      | "dead"
      | "cancelled"
      | "returned"
      | "put_off"
      | "parked"
      | "interrupted"
      | "lost",
    failure?: { readonly error: unknown },
    joined?: number,
  ): void;
}

/**
 * Receiver of an app's traces and metrics. {@linkcode openTelemetry} opens one. Give the same one to the
 * app, its intake and its worker. Its methods accept any values without throwing.
 *
 * @category Log and telemetry
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
   * Stores a delivery within a span.
   *
   * @param delivery The delivery.
   * @param store The function that stores it, with the trace that its handling will be part of.
   * @returns The function's result.
   */
  storing<T>(
    delivery: {
      /** Platform that sent the delivery. */
      readonly platform: string;
      /** Size of its payload, in bytes. */
      readonly bytes: number;
    },
    store: (traceparent: string | undefined) => Promise<T>,
  ): Promise<T>;
  /**
   * Counts a delivery.
   *
   * @param delivery The delivery, with its outcome.
   */
  countDelivery(delivery: {
    /** Platform that sent the delivery. */
    readonly platform: string;
    /** Outcome. */
    readonly outcome: "accepted" | "duplicate" | "rejected" | "ignored";
    /** Name of the intake that it came to. */
    readonly intake?: string | undefined;
    /** Type of its event, once the delivery is verified. */
    readonly type?: string | undefined;
    /** Error code of a rejection. */
    readonly code?: string | undefined;
    /** True if a rejected delivery had passed its verification. */
    readonly verified?: boolean | undefined;
    /**
     * Reads the request of a rejection: its headers, which may have secrets in them, and the address of the client.
     * It is called at once, if at all.
     *
     * @returns The headers and the address, undefined if that is not known.
     */
    readonly request?:
      | (() => { readonly headers: Headers; readonly address: string | undefined })
      | undefined;
  }): void;
  /**
   * Counts a step in the life of events that is neither a delivery nor an attempt.
   *
   * @param step The step.
   */
  countStep(step: CountedStep): void;
  /**
   * Begins an attempt to handle an event.
   *
   * @param event The event: a part of its record.
   * @returns The attempt.
   */
  attempt(event: {
    /** Id of the event. */
    readonly id: string;
    /** Platform that sent the delivery. */
    readonly platform: string;
    /** Name of the intake that accepted it, or of the source that emitted it. */
    readonly intake?: string | undefined;
    /** Type of the event. */
    readonly type: string;
    /** Number of times it was put back after it was settled; undefined before the first. */
    readonly run?: number | undefined;
    /** Number of the attempt, from 1. */
    readonly attempt: number;
    /** Time of receipt, in milliseconds since the epoch. */
    readonly receivedAt: number;
    /** Sum of the times for which it was to wait, in milliseconds: these do not count as handling. */
    readonly plannedMs?: number | undefined;
    /** Rule of its batch, with the time for which it has waited until its group was quiet. */
    readonly quiet?: { readonly waitedMs: number } | undefined;
    /** Batch that is handled together, if it is the first event of one. */
    readonly batch?: { readonly events: number } | undefined;
    /** Trace of its delivery, in the form of the header `traceparent` of W3C Trace Context. */
    readonly traceparent?: string | undefined;
  }): Attempt;
  /**
   * Reports how long the next event has been due, whenever metrics are collected.
   *
   * @param read A function that reads the time at which it became due, in milliseconds since the epoch;
   * null if nothing is due.
   * @returns A function that ends the reports.
   */
  watchOldestDue(read: () => Promise<number | null>): () => void;
}
