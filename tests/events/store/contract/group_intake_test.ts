import { assertEquals } from "@std/assert";
import type { EventStore } from "../../../../events/mod.ts";
import { delivery, drain } from "../_events.ts";
import { assertNothingWaits, testStore, testStoreOnce } from "./_contract.ts";

const IDS = Array.from({ length: 60 }, (_, i) => `d${String(i).padStart(2, "0")}`);

function acceptAll(store: EventStore, ids: readonly string[]) {
  return Promise.all(ids.map((id) => store.accept(delivery(id, "{}", "repo"))));
}

testStore(
  "deliveries of a group that come together are stored once each",
  async ({ place, store }) => {
    await acceptAll(store, IDS.slice(5, 8));
    const results = await acceptAll(store, [...IDS, ...IDS]);
    assertEquals(results.filter(({ duplicate }) => !duplicate).length, IDS.length - 3);
    assertEquals((await drain(store)).toSorted(), IDS);
    await assertNothingWaits({ place });
  },
);

testStoreOnce(
  "deliveries of a group that are too large for one commit share several",
  async (sut) => {
    const text = JSON.stringify({ text: "a".repeat(300_000) });
    await Promise.all(IDS.slice(0, 9).map((id) => sut.store.accept(delivery(id, text, "repo"))));
    assertEquals(await drain(sut.store), IDS.slice(0, 9));
  },
);
