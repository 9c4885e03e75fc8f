/** Rows that somebody has deleted or changed with a program of their own. */
import { assert, assertEquals } from "@std/assert";
import { createEventStore } from "../../../../events/store/open_store.ts";
import { openSqliteFile } from "../../../../events/store/sqlite/_file.ts";
import { openSqliteEngine } from "../../../../events/store/sqlite/sqlite_engine.ts";
import { claimAll, delivery, drain, idsOf } from "../_events.ts";
import { repairGroups } from "../_tidying.ts";

const IDS = ["a1", "a2", "a3"];

/** Opens a store with the events of a group. */
async function openGroup() {
  const file = await openSqliteFile(":memory:");
  const store = createEventStore(openSqliteEngine(file), { log: () => {} });
  for (const id of IDS) await store.accept(delivery(id, "{}", "key"));
  return { db: file.db, store, [Symbol.asyncDispose]: () => file.close() };
}

Deno.test("tidy() goes on with a group whose first event was deleted by hand", async () => {
  await using sut = await openGroup();
  sut.db.run("delete from event where id = 'a1'");
  assertEquals(await claimAll(sut.store), []);
  assertEquals([await repairGroups(sut.store), await repairGroups(sut.store)], [1, 0]);
  assertEquals(await drain(sut.store), ["a2", "a3"]);
});

Deno.test("tidy() deletes a group whose events were all deleted by hand", async () => {
  await using sut = await openGroup();
  sut.db.run("delete from event");
  assertEquals([await repairGroups(sut.store), await repairGroups(sut.store)], [1, 0]);
  assertEquals(sut.db.all("select * from ordering_group"), []);
});

Deno.test("tidy() keeps the time of a first event that is to be tried again", async () => {
  await using sut = await openGroup();
  const [lease] = await claimAll(sut.store);
  await sut.store.retry(lease!, 3_600_000, "no");
  sut.db.run("update event set own_due_at = null where id = 'a1'");
  assertEquals(await repairGroups(sut.store), 1);
  const { dueAt } = (await sut.store.get("a1"))!;
  assert(dueAt! > Date.now() + 3_000_000);
  assertEquals(await sut.store.oldestDueAt(), null);
  assertEquals(sut.db.all("select id from event where due_at = ?", dueAt), [{ id: "a1" }]);
});

Deno.test("check() leaves an event in its group, and makes the first one due", async () => {
  await using sut = await openGroup();
  sut.db.run("update event set own_due_at = null where id = 'a1'");
  let woken = 0;
  sut.store.listen({ wake: () => void woken++ });
  const pages = await Array.fromAsync(sut.store.check(), ({ findings }) => findings);
  assertEquals(pages.flat(), [{ is: "put_back", eventId: "a1" }]);
  assertEquals(woken, 1);
  assertEquals(await drain(sut.store), IDS);
});

Deno.test("check() has an event that was taken from its group join it again", async () => {
  await using sut = await openGroup();
  sut.db.run("update event set group_key = null, position = null where id = 'a2'");
  const pages = await Array.fromAsync(sut.store.check(), ({ findings }) => findings);
  assertEquals(pages.flat(), [{ is: "put_back", eventId: "a2" }]);
  assertEquals(idsOf(await claimAll(sut.store)), ["a1"]);
});
