import { assertEquals } from "@std/assert";
import { createEventStore } from "../../../../events/store/open_store.ts";
import { openSqliteFile } from "../../../../events/store/sqlite/_file.ts";
import { openSqliteEngine } from "../../../../events/store/sqlite/sqlite_engine.ts";
import { claimAll, delivery, idsOf } from "../_events.ts";
import { repairTimes } from "../_tidying.ts";

Deno.test("tidy() loses no event that was put off because it could not be leased", async () => {
  const file = await openSqliteFile(":memory:");
  const engine = openSqliteEngine(file);
  const store = createEventStore(engine, { log: () => {} });
  await store.accept(delivery("d1"));
  const { events: [due] } = await engine.due({ until: Date.now(), limit: 1 });
  const moves = [{ event: due!, afterMs: 60_000, via: due! }];
  assertEquals((await engine.apply({ moves, urgency: "work" })).ok, true);
  await repairTimes(store);
  // By its record it is due now.
  assertEquals(idsOf(await claimAll(store)), ["d1"]);
  await file.close();
});
