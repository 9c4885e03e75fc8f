import { type LogSink, writeLog } from "../../core/mod.ts";
import type { EventHandler } from "./event.ts";

/**
 * Makes a handler that writes one record per event and does nothing else: what an app starts with.
 *
 * @param sink Where the records go. By default where the worker's own go.
 * @returns The handler.
 */
export function createEventLogger(sink?: LogSink): EventHandler {
  return ({ id, deliveryId, platform, type, attempt, requestId }, { log }) => {
    const event = { platform, type, id, deliveryId, attempt, requestId };
    writeLog(sink ?? log, "info", "event handled", event);
  };
}
