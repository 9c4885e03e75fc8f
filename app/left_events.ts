import { type LogSink, writeLog } from "../core/mod.ts";
import type { Database } from "../events/store/store_definition.ts";

/** Remedy for events that an app has left behind, for the log. */
const TAKE_OVER =
  "if this app had another name, give defineApp the option 'namespace' with that name";

/**
 * Logs that an app's database holds open events of other namespaces: if the app was renamed, they are never handled.
 * It warns if the app itself has none: otherwise they more likely belong to another app. It reads little, and
 * logs its failure.
 *
 * @param database The database.
 * @param app The app.
 * @param app.name Its name.
 * @param app.namespace Its namespace.
 * @param app.log Its log.
 * @param app.stopping A promise that resolves when it stops. Nothing is logged after that.
 * @returns A promise that resolves when the database has been looked at, and never rejects.
 */
export async function warnOfLeftEvents(
  database: Pick<Database, "leftBy">,
  { name, namespace, log, stopping }: {
    readonly name: string;
    readonly namespace: string;
    readonly log: LogSink;
    readonly stopping: Promise<unknown>;
  },
): Promise<void> {
  try {
    const none = stopping.then(() => undefined);
    const found = await Promise.race([database.leftBy(namespace), none]);
    if (!found || found.others.length === 0) return;
    const { others, hasOwn } = found;
    const fields = { name, namespace, others, remedy: TAKE_OVER };
    const level = hasOwn ? "info" : "warn";
    writeLog(log, level, "other events in the database", fields);
  } catch (error) {
    writeLog(log, "warn", "other events not looked for", { name, error });
  }
}
