import { consoleSink, type LogSink, writeLog } from "../middleware/mod.ts";
import type { EventHandler } from "./event.ts";

/**
 * Makes a handler that writes one record per event and does nothing else: what an app starts with.
 *
 * @param sink Where the records go.
 * @returns The handler.
 */
export function createEventLogger(sink: LogSink = consoleSink): EventHandler {
  return ({ id, deliveryId, platform, type, attempt, requestId }) => {
    const event = { platform, type, id, deliveryId, attempt, requestId };
    writeLog(sink, "info", "event handled", event);
  };
}
