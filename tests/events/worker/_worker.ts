/** A worker for a test, and ways to wait for what it does. */
import {
  createEventRouter,
  type EventHandler,
  type EventState,
  type EventStore,
  type EventStoreOptions,
  type HandlerContext,
  type JsonObject,
  openEventStore,
  startWorker,
  type WorkerOptions,
} from "../../../events/mod.ts";
import type { LogRecord } from "../../../middleware/mod.ts";
import { ON_DENO_2_5 } from "../../_deno_version.ts";
import { testWith } from "../../_permissions.ts";
import { delivery } from "../store/_events.ts";
import type { EngineUnderTest, Place } from "../store/engines/_engine.ts";
import { KV } from "../store/engines/kv.ts";
import { IN_PROCESSES } from "../store/engines/mod.ts";
import { recordKey } from "../store/kv/_keys.ts";
import type { StoreUnderTest } from "../store/kv/_stores.ts";
import { simulateKv } from "./_simulated_kv.ts";
import type { PlainEffects } from "./_simulated_place.ts";
import { Simulation } from "./_simulation.ts";
import { changeValue } from "../store/kv/_values.ts";
import type { KvStore } from "../../_kv_handlers.ts";

/** A store, and the place that it is in. */
export interface OpenedStore {
  readonly store: EventStore;
  readonly place: StorePlace;
}

/** A place of stores, also of those in a simulation. */
export interface StorePlace extends Pick<Place, "close"> {
  readonly effects: PlainEffects;
  /** Opens the store of another process. */
  open(options?: Pick<EventStoreOptions, "log">): Promise<EventStore>;
}

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

/** Runs a worker while `fn` runs, then stops it and closes the store's place. */
export async function withWorker<TTx, TReader>(
  { store, place }: {
    readonly store: EventStore<TTx, TReader>;
    readonly place: Pick<Place, "close">;
  },
  handler: EventHandler<JsonObject, HandlerContext<NoInfer<TTx>, NoInfer<TReader>>>,
  options: WorkerOptions,
  fn: () => Promise<void>,
): Promise<void> {
  const worker = startWorker(store, handler, { log: () => {}, pollMs: 50, ...options });
  try {
    await fn();
  } finally {
    await worker.stop();
    place.close();
  }
}

/** Handles the event `d1` and what it emits, until nothing is due any more; returns what was logged. */
export async function handle<TTx, TReader>(
  { store }: { readonly store: EventStore<TTx, TReader> },
  handler: EventHandler<JsonObject, HandlerContext<NoInfer<TTx>, NoInfer<TReader>>>,
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
export const WAYS: Readonly<Record<string, (handler: EventHandler) => EventHandler>> = {
  "a handler": (handler) => handler,
  "one of two handlers": (handler) =>
    createEventRouter().onAny(handler).onAny(() => {}, { id: "other" }).handle,
};

/** Has another worker own the lease of an event. */
export async function stealLease({ kv }: Pick<StoreUnderTest, "kv">, id: string) {
  const lease = { owner: "other", until: 0, ms: 1, startedAt: 0 };
  await changeValue(kv, await recordKey(kv, id), { lease });
}

/** Engines of the simulations: with the oldest Deno, of which a turn takes more than a millisecond, it is one. */
export const SIMULATED = ON_DENO_2_5 ? [KV] : IN_PROCESSES;

/**
 * Registers a test that runs in a simulation, for each engine: its clock turns by itself, so that leases of any length
 * pass at once, and no load of the machine lets one expire. Wake-ups are heard.
 */
export function testSimulated(
  name: string,
  fn: (sut: OpenedStore) => Promise<void>,
  missing?: string,
): void {
  for (const engine of SIMULATED) {
    const { needs, missing: unusable } = engine.kinds[0];
    const reason = missing ?? unusable;
    testWith(needs, `${name} [${engine.name}]`, () => simulate(engine, fn), reason);
  }
}

async function simulate(
  engine: EngineUnderTest,
  test: (sut: OpenedStore) => Promise<void>,
): Promise<void> {
  const simulation = new Simulation(1, 1);
  await using real = await engine.openSimulated(simulation);
  const place: StorePlace = {
    effects: real.effects,
    open: async (options) => (await real.process(options)).store,
    close() {},
  };
  try {
    await simulation.run(place.open().then((store) => test({ store, place })));
  } finally {
    simulation[Symbol.dispose]();
  }
}

/** A store in a KV, in a simulation. */
interface SimulatedKvStore {
  readonly kv: Deno.Kv;
  readonly store: KvStore;
  readonly place: Omit<StorePlace, "effects">;
}

/** Makes a test of what only the keys of a KV show. It runs in a simulation. */
export function simulatedKv(test: (sut: SimulatedKvStore) => Promise<void>): () => Promise<void> {
  return async () => {
    using real = await Deno.openKv(":memory:");
    using simulation = new Simulation(1);
    const { kv } = simulateKv(real, simulation, 0, new Set());
    const open = (options: EventStoreOptions = {}) =>
      openEventStore(kv, { notifier: "watch", log: () => {}, ...options });
    const place = { open, close: () => {} } as SimulatedKvStore["place"];
    await simulation.run(open().then((store) => test({ kv, store, place })));
  };
}
