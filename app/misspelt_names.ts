import { type LogSink, writeLog } from "../core/mod.ts";
import { meantBy } from "../events/router/event_names.ts";
import type { HandledEvents } from "../events/store/mod.ts";

/**
 * Warns of handlers for events that no platform sends, if their names resemble one that is sent. A check of types finds
 * them, but `deno run` makes none. An error would keep an app from handling an event that is new.
 *
 * @param handled The events that the app has handlers for.
 * @param name The app's name.
 * @param log The log.
 */
export function warnOfMisspeltNames(
  handled: readonly HandledEvents[],
  name: string,
  log: LogSink,
): void {
  for (const { names, intake, platform } of handled) {
    for (const event of names) {
      const didYouMean = platform === undefined ? undefined : meantBy(platform, event);
      if (didYouMean === undefined) continue;
      writeLog(log, "warn", "no such event", { name, platform: intake, event, didYouMean });
    }
  }
}
