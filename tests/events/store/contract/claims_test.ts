import { assertEquals } from "@std/assert";
import type { EventStore, Lease } from "../../../../events/mod.ts";
import { delivery, idsOf } from "../_events.ts";
import { testStoreOnce } from "./_contract.ts";

const claimNext = (store: EventStore): Promise<Lease[]> =>
  store.claim({ limit: 1, owner: "other", leaseMs: 30_000 });

testStoreOnce(
  "an event is leased once by two claims of a worker in the same millisecond",
  async ({ store }) => {
    const { now } = Date;
    const time = now();
    Date.now = () => time;
    try {
      for (const [id, key] of [["d1"], ["d2", "key"]] as const) {
        await store.accept(delivery(id, "{}", key));
        const leases = await Promise.all([claimNext(store), claimNext(store)]);
        assertEquals(idsOf(leases.flat()), [id]);
      }
    } finally {
      Date.now = now;
    }
  },
);

testStoreOnce("an event that a claim moves up is left to the next claim", async ({ store }) => {
  const { now } = Date;
  let time = now();
  Date.now = () => time;
  try {
    for (const id of ["a", "d"]) await store.accept(delivery(id, "{}", "key"));
    await store.claim({ limit: 1, owner: "other", leaseMs: 1_000 });
    assertEquals(await store.cancel("a"), true);
    time += 1_000;
    for (const id of ["b", "c"]) await store.accept(delivery(id));
    const options = {
      limit: 2,
      owner: "other",
      leaseMs: 30_000,
      holds: (id: string) => id === "c",
    };
    assertEquals(idsOf(await store.claim(options)), ["b"]);
    assertEquals((await store.get("a"))?.state, "dead");
    assertEquals(idsOf(await store.claim(options)), ["d"]);
  } finally {
    Date.now = now;
  }
});
