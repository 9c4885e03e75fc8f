/** Workers of several processes on one store, over every engine, in a simulation: a process can be cut off. */
import {
  type EventHandler,
  type EventStore,
  startWorker,
  type WorkerOptions,
} from "../../../events/mod.ts";
import { testWith } from "../../_permissions.ts";
import { later } from "../store/_events.ts";
import type { SimulatedPlace } from "./_simulated_place.ts";
import { Simulation } from "./_simulation.ts";
import { SIMULATED } from "./_worker.ts";

/** A process with a worker. */
export interface WorkingProcess {
  readonly store: EventStore;
  /** Cuts the process off, as if it had died: nothing that it begins reaches the database. */
  die(): void;
}

/** The processes of a test. All that run when it ends are stopped. */
export interface Processes {
  readonly place: SimulatedPlace;
  /** Store of a process without a worker. */
  readonly store: EventStore;
  /** Starts a process with a worker. */
  start(handler: EventHandler, options?: WorkerOptions): Promise<WorkingProcess>;
}

/** Registers a test for each engine. Its clock turns by itself. */
export function testProcesses(name: string, test: (processes: Processes) => Promise<void>): void {
  for (const engine of SIMULATED) {
    testWith(engine.shared.needs, `${name} [${engine.name}]`, async () => {
      using simulation = new Simulation(1);
      await using place = await engine.openSimulated(simulation);
      await simulation.run(running(place, test));
    });
  }
}

async function running(place: SimulatedPlace, test: (processes: Processes) => Promise<void>) {
  const { store } = await place.process();
  await using stack = new AsyncDisposableStack();
  await test({
    ...{ place, store },
    async start(handler, options) {
      const { store, cut: die } = await place.process();
      const log = () => {};
      const worker = startWorker(store, handler, { log, leaseMs: 1_000, pollMs: 20, ...options });
      stack.defer(() => worker.stop({ graceMs: 0 }));
      return { store, die };
    },
  });
}

/** Waits until a condition holds; the clock of the simulation turns by itself. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await later(20);
}

/** Waits until events are settled, and returns their states. */
export async function settled(store: EventStore, ...ids: string[]): Promise<string[]> {
  return await Promise.all(ids.map(async (id) => {
    await until(async () => (await store.get(id))?.settledAt != null);
    return (await store.get(id))!.state;
  }));
}
