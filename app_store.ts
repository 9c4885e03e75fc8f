import { withDeadline } from "./webhook/deadline.ts";
import { type EventStore, type EventStoreOptions, openEventStore } from "./webhook/mod.ts";

/** A remote KV that does not answer is tried for ever: an app that cannot store must not start. */
const KV_TIMEOUT_MS = 10_000;

/**
 * Opens the KV of an app, and the event store in it.
 *
 * @param kvUrl The path or URL of the KV; undefined for Deno's default database.
 * @param options The store's options.
 * @returns The KV and the store.
 * @throws {Error} If they cannot be used within 10 s. The message does not quote the URL.
 */
export async function openAppStore(
  kvUrl: string | undefined,
  options: EventStoreOptions,
): Promise<{ kv: Deno.Kv; store: EventStore }> {
  const opening = (async () => {
    if (typeof Deno.openKv !== "function") throw new Error("Deno has to run with --unstable-kv");
    const kv = await Deno.openKv(kvUrl);
    return { kv, store: await openEventStore(kv, options) };
  })();
  try {
    return await withDeadline(opening, KV_TIMEOUT_MS);
  } catch (error) {
    const where = kvUrl === undefined ? "the default database" : "the KV that KV_URL names";
    // The reason may quote the URL, which may hold a password.
    const reason = kvUrl === undefined
      ? reasonOf(error)
      : reasonOf(error).replaceAll(kvUrl, "KV_URL").replaceAll(/\/\/\S*@/g, "//");
    throw new Error(`${where} cannot be used: ${reason}`, { cause: error });
  }
}

/**
 * Tells what a person can act on of an error.
 *
 * @param error The error.
 * @returns Its message, without a stack, and in one line.
 */
export function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.replaceAll(/\s+/g, " ").slice(0, 500);
}
