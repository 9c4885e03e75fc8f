/** A worker for a test, and ways to wait for what it does. */
import {
  type EventState,
  type EventStore,
  openEventStore,
  startWorker,
  type WorkerOptions,
} from "../../../events/mod.ts";
import type { LogRecord } from "../../../middleware/mod.ts";
import { delivery } from "../store/_events.ts";
import { recordKey } from "../store/kv/_keys.ts";
import type { StoreUnderTest } from "../store/kv/_stores.ts";
import { simulateKv } from "./_simulated_kv.ts";
import { Simulation } from "./_simulation.ts";
import { changeValue } from "../store/kv/_values.ts";
import { createKvRouter, type KvHandler } from "../../_kv_handlers.ts";

/** A store, and the KV that it is in. */
export type OpenedStore = Pick<StoreUnderTest, "kv" | "store">;

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
  { kv, store }: OpenedStore,
  handler: KvHandler,
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

/** Handles the event `d1` and what it emits, until nothing is due any more; returns what was logged. */
export async function handle(
  { store }: OpenedStore,
  handler: KvHandler,
  options: WorkerOptions = {},
): Promise<LogRecord[]> {
  const records: LogRecord[] = [];
  const log = (record: LogRecord) => void records.push(record);
  await store.accept(delivery("d1"));
  const worker = startWorker(store, handler, { log, retry: { minDelayMs: 0 }, ...options });
  do await worker.poll(); while ((await store.get("d1"))?.state === "queued");
  await worker.stop();
  return records;
}

/** A handler as it is, and as one of two of a router. */
export const WAYS: Readonly<Record<string, (handler: KvHandler) => KvHandler>> = {
  "a handler": (handler) => handler,
  "one of two handlers": (handler) =>
    createKvRouter().onAny(handler).onAny(() => {}, { id: "other" }).handle,
};

/** Has another worker own the lease of an event. */
export async function stealLease({ kv }: OpenedStore, id: string) {
  const lease = { owner: "other", until: 0, ms: 1, startedAt: 0 };
  await changeValue(kv, await recordKey(kv, id), { lease });
}

/**
 * Makes a test that runs in a simulation: its clock turns by itself, so that leases of any length pass at
 * once, and no load of the machine lets one expire.
 */
export function simulated(test: (sut: OpenedStore) => Promise<void>): () => Promise<void> {
  return async () => {
    using real = await Deno.openKv(":memory:");
    using simulation = new Simulation(1);
    const view = simulateKv(real, simulation, 0, new Set()).kv;
    const kv = Object.assign(view, { close: () => {} });
    const opening = openEventStore(kv, { notifier: "watch", log: () => {} });
    await simulation.run(opening.then((store) => test({ kv, store })));
  };
}
