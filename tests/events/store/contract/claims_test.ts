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
