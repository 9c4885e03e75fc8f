/** Handlers that were told to end and do not: their process says in its note which places they hold. */
import { assertEquals } from "@std/assert";
import { type EventStore, startWorker } from "../../../events/mod.ts";
import type { ProcessNote } from "../../../events/store/mod.ts";
import { delivery } from "../store/_events.ts";
import { type OpenedStore, reach, testSimulated } from "./_worker.ts";

/** Waits for a condition; the clock of the simulation turns by itself. */
async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 50));
}

const turn = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Lists the ids of the events that the only process has noted as hung. */
async function hungIn(store: EventStore): Promise<string[]> {
  const [note] = await store.processes() as ProcessNote[];
  return (note?.hung ?? []).map(({ id }) => id);
}

/** Runs a worker whose handlers end when their events' ids are released, or soon if they heed their signals. */
function run({ store }: OpenedStore) {
  const held = new Map<string, () => void>();
  const noted: ProcessNote[] = [];
  const noteProcess = store.noteProcess.bind(store);
  store.noteProcess = (note) => {
    noted.push(note);
    return noteProcess(note);
  };
  const worker = startWorker(store, ({ id }, { signal }) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    held.set(id, resolve);
    if (id.startsWith("heeds")) {
      signal.addEventListener("abort", () => setTimeout(resolve, 500));
    }
    return promise;
  }, { log: () => {}, pollMs: 1_000, leaseMs: 5_000 });
  const begun = async (id: string) => {
    await store.accept(delivery(id));
    await until(() => held.has(id));
  };
  return {
    ...{ held, noted, begun },
    async [Symbol.asyncDispose]() {
      for (const end of held.values()) end();
      await worker.stop();
    },
  };
}

testSimulated(
  "a cancelled handler that does not end is in the note of its process until it ends, for other processes",
  async (sut) => {
    await using running = run(sut);
    const other = await sut.place.open();
    await running.begun("d1");
    await running.begun("d2");
    // By another process: the worker finds it when it renews the lease.
    const before = Date.now();
    await other.cancel("d1");
    await until(async () => (await hungIn(other)).length > 0);
    const [note] = await other.processes() as ProcessNote[];
    assertEquals(note!.hung!.map(({ id }) => id), ["d1"]);
    assertEquals(note!.hung![0]!.since >= before, true);
    running.held.get("d1")!();
    await reach(sut.store, "d1", "dead");
    await until(async () => (await hungIn(other)).length === 0);
  },
);

testSimulated("a handler that has lost its lease is noted as long as it runs", async (sut) => {
  await using running = run(sut);
  const { recover, renew } = sut.store;
  sut.store.renew = sut.store.recover = () => Promise.resolve(null);
  await running.begun("d1");
  await until(async () => (await hungIn(sut.store)).includes("d1"));
  Object.assign(sut.store, { recover, renew });
  running.held.get("d1")!();
  await until(async () => (await hungIn(sut.store)).length === 0);
});

testSimulated(
  "one that heeds its signal is not noted, and one that hangs is noted once",
  async (sut) => {
    await using running = run(sut);
    for (const id of ["heeds1", "heeds2"]) {
      await running.begun(id);
      await sut.store.cancel(id);
      await reach(sut.store, id, "dead");
    }
    await turn(5_000);
    assertEquals(running.noted.map(({ hung }) => hung), [undefined]);
    await running.begun("d1");
    await sut.store.cancel("d1");
    await turn(20_000);
    assertEquals(running.noted.map(({ hung }) => hung?.length), [undefined, 1]);
  },
);
