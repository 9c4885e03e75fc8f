/** Events that the worker of their process takes, in the commit that stores them. */
import { assertEquals } from "@std/assert";
import type { EventStore, Lease } from "../../../../events/mod.ts";
import { WallClock } from "../../../_wall_clock.ts";
import { delivery, idsOf, listed } from "../_events.ts";
import { repairTimes } from "../_tidying.ts";
import { type StoreUnderTest, testStoreInOneProcess, testStoreOnce } from "./_contract.ts";

const IDS = ["d1", "d2", "d3", "d4", "d5"];

/** Longer than a loaded machine takes for the commits of a test. Its end comes by the test's clock. */
const LEASE_MS = 20_000;

/** Has deliveries taken, all at once, as a worker of the same process does. */
async function take(
  { store }: StoreUnderTest,
  ids: readonly string[] = IDS,
  leaseMs = 30_000,
): Promise<Lease[]> {
  const leases: Lease[] = [];
  const reservation = { owner: "worker", leaseMs, cancel: () => {} };
  const reserve = () => ({ ...reservation, take: (lease: Lease) => void leases.push(lease) });
  store.listen({ wake: () => {}, reserve }).catch(() => {});
  await Promise.all(ids.map((id) => store.accept(delivery(id, `{"id":"${id}"}`))));
  assertEquals(idsOf(leases).toSorted(), [...ids]);
  return leases;
}

/** Takes over whatever is due, as a worker of another process does. */
function takeOver(store: EventStore, limit = 100): Promise<Lease[]> {
  return store.claim({ limit, owner: "other", leaseMs: 30_000 });
}

testStoreInOneProcess(
  "events that were taken together are taken over in parts where there is no room for all",
  async (sut) => {
    using clock = new WallClock();
    await take(sut, IDS, LEASE_MS);
    clock.advance(LEASE_MS + 100);
    const parts = [await takeOver(sut.store, 2), await takeOver(sut.store, 2)];
    assertEquals(parts.map(({ length }) => length), [2, 2]);
    const rest = await takeOver(sut.store, 2);
    assertEquals(idsOf([...parts.flat(), ...rest]).toSorted(), IDS);
    assertEquals(await takeOver(sut.store), []);
  },
);

testStoreOnce("tidy() makes events due that were taken together by another clock", async (sut) => {
  using clock = new WallClock();
  clock.advance(86_400_000);
  await take(sut, IDS, LEASE_MS);
  clock.advance(-86_400_000);
  assertEquals(await takeOver(sut.store), []);
  assertEquals(await repairTimes(sut.store), 5);
  clock.advance(LEASE_MS + 100);
  assertEquals(idsOf(await takeOver(sut.store)).toSorted(), IDS);
});

testStoreOnce(
  "list() and get() tell the record of a running event without its payload",
  async (sut) => {
    await take(sut, ["d1", "d2"]);
    const listedRecords = await Array.fromAsync(sut.store.list());
    assertEquals(listedRecords.map((record) => "body" in record), [false, false]);
    assertEquals("body" in (await sut.store.get("d1"))!, false);
    assertEquals(await listed(sut.store, { state: "running" }), ["d1", "d2"]);
  },
);
