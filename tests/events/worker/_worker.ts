/** A worker for a test, and ways to wait for what it does. */
import {
  type EventHandler,
  type EventState,
  type EventStore,
  startWorker,
  type WorkerOptions,
} from "../../../events/mod.ts";
import { recordKey } from "../store/_events.ts";
import type { StoreUnderTest } from "../store/_stores.ts";

/** Longest time that a test waits for a condition: a loaded machine takes its time. */
const PATIENCE_MS = 60_000;

/** Waits until a condition holds. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`Waited ${PATIENCE_MS} ms in vain`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Waits until an event has a state. */
export async function reach(store: EventStore, id: string, state: EventState): Promise<void> {
  await until(async () => (await store.get(id))?.state === state);
}

/** Runs a worker while `fn` runs, then stops it and closes the KV. */
export async function withWorker(
  { kv, store }: Pick<StoreUnderTest, "kv" | "store">,
  handler: EventHandler,
  options: WorkerOptions,
  fn: () => Promise<void>,
): Promise<void> {
  const worker = startWorker(store, handler, { log: () => {}, pollMs: 50, ...options });
  try {
    await fn();
  } finally {
    await worker.stop();
    kv.close();
  }
}

/** Has another worker own the lease of an event. */
export async function stealLease({ kv, store }: Pick<StoreUnderTest, "kv" | "store">, id: string) {
  const lease = { owner: "other", until: 0, ms: 1 };
  await kv.set(await recordKey(kv, id), { ...await store.get(id), lease });
}
