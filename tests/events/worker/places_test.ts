/** Fairness between ordering keys. */
import { assert, assertEquals } from "@std/assert";
import { type EventStore, startWorker } from "../../../events/mod.ts";
import { delivery, later } from "../store/_events.ts";
import { testStoreInOneProcess, testStoreOnce } from "../store/contract/_contract.ts";
import { until } from "./_worker.ts";

/** Events of the key that floods and of the quiet one, and the places of each. */
const [FLOOD, QUIET, PLACES] = [60, 5, 3] as const;

/** Handler times for which an event of the quiet key waits at most. */
const MAX_TURNS = 2;

function accept(store: EventStore, id: string, key: string) {
  return store.accept({ ...delivery(id, "{}", key), places: PLACES });
}

/** Handlers of the flood: all that run end at the same time. */
class Flood {
  readonly begun: string[] = [];
  #running: (() => void)[] = [];
  #isOver = false;

  readonly handle = async ({ id }: { readonly id: string }): Promise<void> => {
    this.begun.push(id);
    if (this.#isOver || !id.startsWith("flood")) return;
    await new Promise<void>((resolve) => this.#running.push(resolve));
  };

  /** Ends those that run, and all that come. */
  end(): void {
    this.#isOver = true;
    for (const end of this.#running) end();
  }

  /** Ends those that run, until all places are taken again or an event has begun. */
  async turn(id: string): Promise<void> {
    const ended = this.#running;
    this.#running = [];
    for (const end of ended) end();
    await until(() => this.#running.length === PLACES || this.begun.includes(id));
  }
}

testStoreInOneProcess(
  "with fewer handlers than places, events begin in their order",
  async ({ store }) => {
    const ids = Array.from({ length: 12 }, (_, i) => `d${10 + i}`);
    for (const id of ids) await accept(store, id, "busy");
    const begun: string[] = [];
    const handler = ({ id }: { readonly id: string }) => (begun.push(id), later(5));
    const worker = startWorker(store, handler, { log: () => {}, concurrency: 1 });
    await until(() => begun.length === ids.length);
    await worker.stop();
    assertEquals(begun, ids);
  },
);

testStoreOnce(
  "what becomes due while all handlers are busy begins once one is free",
  async ({ store, place }) => {
    const ends = new Map<string, () => void>();
    const handler = ({ id }: { readonly id: string }) =>
      new Promise<void>((resolve) => ends.set(id, resolve));
    const worker = startWorker(store, handler, { log: () => {}, concurrency: 2 });
    for (const id of ["long", "short"]) await store.accept(delivery(id));
    await until(() => ends.size === 2);
    // By a store without a worker, so that it is not handed off.
    await (await place.open()).accept(delivery("next"));
    await later(50);
    const start = performance.now();
    ends.get("short")!();
    await until(() => ends.has("next"));
    const ms = performance.now() - start;
    for (const end of ends.values()) end();
    await worker.stop();
    assert(ms < 500, `after ${ms} ms`);
  },
);

// With as many handlers as the flood has places, none is free when the other one comes.
for (const concurrency of [PLACES, PLACES + 1]) {
  testStoreInOneProcess(
    `a flood in one key does not hold up another one, with ${concurrency} handlers`,
    async ({ store }) => {
      const ids = Array.from({ length: FLOOD }, (_, i) => `flood${i}`);
      for (const id of ids) await accept(store, id, "busy");
      const flood = new Flood();
      const worker = startWorker(store, flood.handle, { log: () => {}, concurrency });
      await flood.turn("");
      for (let i = 0; i < QUIET; i++) {
        const id = `quiet${i}`;
        await accept(store, id, "quiet");
        for (let turns = 0; turns < MAX_TURNS && !flood.begun.includes(id); turns++) {
          await flood.turn(id);
        }
        assert(flood.begun.includes(id), `${id} waits for longer`);
      }
      assert(flood.begun.length < FLOOD);
      flood.end();
      await worker.stop();
    },
  );
}
