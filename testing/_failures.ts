import type { LogRecord, LogSink } from "../core/mod.ts";

/** Messages of the worker's records about an event whose handler failed. They hold its error. */
const FAILED: ReadonlySet<string> = new Set([
  "event failed, to be tried again",
  "event failed for the last time, now dead",
  "event given up, now dead",
]);

/** Message of the intake's record about a delivery that `groupBy` has thrown for. It holds the error. */
const NOT_GROUPED = "event not grouped";

/** Call of the test bot that waits for handlers. */
export interface WaitingCall {
  /** Its beginning, for the message. */
  readonly text: string;
  /** Set if handlers may fail meanwhile. */
  readonly expectFailure: boolean;
  /** Set if it is there for retries, of whichever events. */
  readonly hasRetries?: boolean;
  /** The id of the event that it has made, once that is known. */
  eventId?: string | undefined;
  /** The id of the request that it has sent; null until that is known. */
  requestId?: string | null | undefined;
}

/** Finds the id of the event whose handler emitted an event; undefined if none did. */
export type CauseOf = (eventId: string) => Promise<string | undefined>;

/**
 * Failures of handlers and of `groupBy`, until a call of the test bot reports them. They are read from the log,
 * since it says which errors count, and has the error as it was thrown.
 *
 * Each failure is reported once. It belongs to the call whose event it goes back to, through the events
 * that handlers emit. If there is none, it belongs to the next call that ends: the event was woken,
 * batched, or stored by a route. But a retry then waits for `advance`, since retries also come due while
 * a slow test runs, during a delivery that has nothing to do with them.
 */
export class Failures {
  readonly #log: LogSink;
  readonly #calls = new Set<WaitingCall>();
  #unreported: LogRecord[] = [];

  /**
   * Creates an empty list.
   *
   * @param log The log that the app's records go on to.
   */
  constructor(log: LogSink) {
    this.#log = log;
  }

  /** Log for the app. */
  readonly log: LogSink = (record) => {
    const { message } = record;
    const isFailure = FAILED.has(message) || message === NOT_GROUPED;
    if (isFailure && "error" in record) this.#unreported.push(record);
    this.#log(record);
  };

  /**
   * Runs a call. At its end it forgets the failures that belong to it, and throws the first of them unless
   * they are expected.
   *
   * @param call The call.
   * @param causeOf Looks into the store.
   * @param run Does what the call is there for, and waits for the handlers.
   * @returns The result of `run`.
   * @throws {Error} If there is a failure and none is expected.
   */
  async during<TResult>(
    call: WaitingCall,
    causeOf: CauseOf,
    run: () => Promise<TResult>,
  ): Promise<TResult> {
    this.#calls.add(call);
    try {
      const result = await run();
      report(call, await this.#take(call, causeOf));
      return result;
    } finally {
      this.#calls.delete(call);
    }
  }

  /** Takes the failures that belong to a call. */
  async #take(
    call: WaitingCall,
    causeOf: CauseOf,
  ): Promise<LogRecord[]> {
    const chosen = new Set<LogRecord>();
    for (const failure of [...this.#unreported]) {
      if (await this.#belongs(failure, call, causeOf)) chosen.add(failure);
    }
    // Another call may have taken some of them meanwhile.
    const taken = this.#unreported.filter((failure) => chosen.has(failure));
    this.#unreported = this.#unreported.filter((failure) => !chosen.has(failure));
    return taken;
  }

  async #belongs(
    { message, eventId, attempt, requestId }: LogRecord,
    call: WaitingCall,
    causeOf: CauseOf,
  ): Promise<boolean> {
    if (message === NOT_GROUPED) {
      const isAnothers = (each: WaitingCall) =>
        each.requestId === requestId || each.requestId === null;
      return call.requestId === requestId || ![...this.#calls].some(isAnothers);
    }
    const isForAny = attempt === 1 || call.hasRetries === true;
    // A long chain of events takes long to go back through.
    if (isForAny && this.#calls.size === 1) return true;
    const seen = new Set<string>();
    for (let id = eventId as string | undefined; id !== undefined && !seen.has(id);) {
      if (id === call.eventId) return true;
      if ([...this.#calls].some(({ eventId }) => eventId === id)) return false;
      seen.add(id);
      id = await causeOf(id);
    }
    return isForAny;
  }
}

function report(call: WaitingCall, [first, ...others]: readonly LogRecord[]): void {
  if (!first || call.expectFailure) return;
  const more = others.length === 0 ? "" : `, the first of ${others.length + 1} failures`;
  throw new Error(
    `${inWords(first)}${more}: see the cause. ` +
      `If the test expects this, call ${call.text}, { expectFailure: true })`,
    { cause: first.error },
  );
}

function inWords({ message, eventId, type, attempt, deliveryId }: LogRecord): string {
  return message === NOT_GROUPED
    ? `'groupBy' failed for the delivery ${deliveryId} (${type}), whose event has no group`
    : `The handler of event ${eventId} (${type}) failed in attempt ${attempt}`;
}
