import { type LogSink, writeLog } from "../core/mod.ts";
import { meantBy } from "../events/router/event_names.ts";
import type { HandledEvents } from "../events/store/mod.ts";
import { type Platform, productOf } from "../webhook/platform.ts";

/**
 * Warns of handlers for events that their platform does not send, if their names resemble one that it sends. A check of
 * types finds them, but `deno run` makes none. An error would keep an app from handling an event that is new.
 *
 * @param handled The events that the app has handlers for.
 * @param platforms The platforms of the app.
 * @param name The app's name.
 * @param log The log.
 */
export function warnOfMisspeltNames(
  handled: readonly HandledEvents[],
  platforms: readonly Platform[],
  name: string,
  log: LogSink,
): void {
  const products = new Map(platforms.map((platform) => [platform.name, productOf(platform)]));
  for (const { names, intake = "" } of handled) {
    const product = products.get(intake);
    for (const event of names) {
      const didYouMean = product === undefined ? undefined : meantBy(product, event);
      if (didYouMean === undefined) continue;
      writeLog(log, "warn", "no such event", { name, platform: intake, event, didYouMean });
    }
  }
}
