import type { LogRecord, LogSink } from "../core/mod.ts";

/** Messages of the worker's records about an event whose handler failed. They hold its error. */
const FAILED: ReadonlySet<string> = new Set([
  "event failed, to be tried again",
  "event failed for the last time, now dead",
  "event given up, now dead",
]);

/**
 * Failures of handlers, until a call of the test bot reports them. They are read from the worker's log,
 * since it says which errors count, and has the error as it was thrown.
 */
export class Failures {
  readonly #log: LogSink;
  #unreported: LogRecord[] = [];

  /**
   * Creates an empty list.
   *
   * @param log The log that the worker's records go on to.
   */
  constructor(log: LogSink) {
    this.#log = log;
  }

  /** Log for the worker. */
  readonly log: LogSink = (record) => {
    if (FAILED.has(record.message) && "error" in record) this.#unreported.push(record);
    this.#log(record);
  };

  /**
   * Forgets failures, and throws the first of them unless they are expected.
   *
   * @param call The beginning of the call, for the message.
   * @param expectFailure True if they are expected.
   * @param isMeant Chooses the failures, by the worker's record of them.
   * @throws {Error} If there is one and none is expected.
   */
  report(
    call: string,
    expectFailure: boolean,
    isMeant: (record: LogRecord) => boolean = () => true,
  ): void {
    const [first, ...others] = this.#unreported.filter(isMeant);
    this.#unreported = this.#unreported.filter((record) => !isMeant(record));
    if (!first || expectFailure) return;
    const { eventId, type, attempt, error } = first;
    const more = others.length === 0 ? "" : `, the first of ${others.length + 1} failures`;
    throw new Error(
      `The handler of event ${eventId} (${type}) failed in attempt ${attempt}${more}: see the cause. ` +
        `If the test expects this, call ${call}, { expectFailure: true })`,
      { cause: error },
    );
  }
}
