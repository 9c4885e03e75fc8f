import { type LogLevel, type LogSink, writeLog } from "../../core/mod.ts";
import type { Attempt } from "../../telemetry/mod.ts";
import type { EventRecord } from "../store/mod.ts";

/** Facts of a job that its lines tell. */
export interface LoggedJob {
  /** The event's record, as it is now. */
  readonly record: EventRecord;
  /** Time for which the handler has run, in milliseconds; undefined before it was called. */
  readonly durationMs: number | undefined;
  /** Attempt whose trace the lines are part of; undefined without telemetry. */
  readonly attempt: Attempt | undefined;
  /** Other events of the batch that this one is the first of. */
  readonly members: readonly EventRecord[];
}

/** The lines that a job writes about its event. */
export class JobLog {
  readonly #sink: LogSink;
  readonly #job: LoggedJob;

  constructor(sink: LogSink, job: LoggedJob) {
    this.#sink = sink;
    this.#job = job;
  }

  /** Reports something about the event. */
  report(level: LogLevel, message: string, fields?: object): void {
    this.#write(level, message, this.#job.record, fields);
  }

  /** Reports the end of an event and, in a line for each, of those that were handled together with it. */
  reportEnd(level: LogLevel, message: string, fields?: object): void {
    const { record, members } = this.#job;
    this.#write(level, message, record, fields);
    for (const member of members) this.#write(level, message, member, { handledWith: record.id });
  }

  #write(level: LogLevel, message: string, record: EventRecord, fields: object = {}): void {
    const { id, deliveryId, platform, type, requestId } = record;
    const { record: { attempt: number }, durationMs, attempt } = this.#job;
    const event = {
      platform,
      type,
      eventId: id,
      deliveryId,
      attempt: number,
      durationMs,
      requestId: requestId ?? undefined,
    };
    const write = () => writeLog(this.#sink, level, message, { ...event, ...fields });
    if (attempt) attempt.run(write);
    else write();
  }
}
