/** The attempts of one event, by a worker of its own, over a store of any engine. */
import {
  type EventHandler,
  type EventRecord,
  type EventStore,
  startWorker,
  type WorkerOptions,
} from "../../../events/mod.ts";
import { delivery } from "../store/_events.ts";

/** Handles the event `d1`, which is taken in if it is not there, until it is settled or parked. */
export async function handleAt(
  store: EventStore,
  handler: EventHandler,
  options: WorkerOptions = {},
): Promise<EventRecord> {
  if (!await store.get("d1")) await store.accept(delivery("d1"));
  const worker = startWorker(store, handler, {
    log: () => {},
    retry: { minDelayMs: 0, maxAttempts: 4 },
    ...options,
  });
  do await worker.poll(); while ((await store.get("d1"))?.state === "queued");
  await worker.stop();
  return (await store.get("d1"))!;
}

/** The errors of the event's attempts that have failed. */
export const errorsOf = ({ attempts }: EventRecord): (string | undefined)[] =>
  attempts.filter(({ outcome }) => outcome === "failed").map(({ error }) => error);
