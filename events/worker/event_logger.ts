import { checkFunctions, checkObject } from "../../core/check_options.ts";
import { type LogSink, writeLog } from "../../core/mod.ts";
import type { EventHandler } from "./event.ts";

const DOING = "create the event logger";

/** Options of {@linkcode createEventLogger}. */
export interface EventLoggerOptions {
  /**
   * Destination of the records.
   *
   * @default {undefined} The worker's own log.
   */
  readonly log?: LogSink | undefined;
}

/**
 * Creates a handler that writes one log record per event and does nothing else: a start for an app.
 *
 * @param options The log.
 * @returns The handler.
 * @throws {TypeError} If `log` is not a function.
 */
export function createEventLogger(options: EventLoggerOptions = {}): EventHandler {
  checkObject(DOING, options);
  checkFunctions(DOING, { log: options.log });
  return ({ id, deliveryId, platform, type, attempt, requestId }, { log }) => {
    const event = { platform, type, id, deliveryId, attempt, requestId };
    writeLog(options.log ?? log, "info", "event handled", event);
  };
}
