/** Ordering groups with several places, that two processes change at once. */
import { assert, assertEquals } from "@std/assert";
import { until } from "../../../../dev/harness/until.ts";
import type { Change, Stored } from "../../../../events/store/engine.ts";
import type { EventRecord } from "../../../../events/store/event_record.ts";
import { needsOf } from "../../../../events/store/postgres/_needs.ts";
import { claimAll, claimOne, delivery } from "../_events.ts";
import { testPostgres } from "./_stores.ts";

/** Longest time until a statement waits for a row, in milliseconds. */
const SOON_MS = 5_000;

Deno.test("as many events of a group are read as may leave it, also by a move", () => {
  const before = {
    record: { id: "d1", group: { key: "key", position: 1 } },
    version: "1",
  } as Stored;
  const put = { before, after: null };
  const unreadable = { before: { id: "d2", receivedAt: 0, version: "1" }, after: null };
  const leave = { head: (record: EventRecord) => record };
  const move = (leavesGroup: boolean) => ({
    ...{ event: { id: "d3", receivedAt: 0 }, afterMs: null, leavesGroup },
  });
  const changes = [{ puts: [put], leave }, { moves: [move(true), move(false)], leave }];
  const { groups } = needsOf([...changes, { puts: [unreadable], leave }] as unknown as Change[], {
    ...{ groups: new Set<string>(), lost: new Set<string>() },
  });
  assertEquals(groups.get("key")?.leaving, 3);
});

testPostgres(
  "a step of an event that waits stays forgotten if another one ends meanwhile",
  async ({ store, place }) => {
    const other = await place.open();
    const { db } = await place.openDatabase();
    const { schema } = JSON.parse(place.address);
    const accept = (id: string) => store.accept({ ...delivery(id, "{}", "key"), places: 2 });
    const areWaiting = (count: number) => async () => {
      const sql = `select pid from pg_stat_activity
        where wait_event_type = 'Lock' and position($1 in query) > 0`;
      return (await db.all(sql, schema)).length === count;
    };
    await accept("waiting");
    const noted = await store.note(await claimOne(store), { is: "step", name: "s", json: "1" });
    assert(await store.bury(noted!, new Error("no")));
    for (const id of ["d0", "d1"]) await accept(id);
    const [lease] = await claimAll(store);
    assert(await store.replay("waiting"));
    // Both wait for the row, in this order.
    const changes = await db.transaction(async (tx) => {
      await tx.all("select 1 from @event where id = 'waiting' for update");
      const forgetting = other.forgetStep("waiting", "s");
      await until(areWaiting(1), SOON_MS);
      const ending = store.complete(lease!);
      await until(areWaiting(2), SOON_MS);
      return { both: Promise.all([forgetting, ending]) };
    });
    assertEquals(await changes.both, [true, true]);
    assertEquals((await claimOne(store)).record.id, "waiting");
    assertEquals(await store.steps("waiting"), []);
  },
);
