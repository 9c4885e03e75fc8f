import { assertEquals, assertStringIncludes } from "@std/assert";
import type { EventStore } from "../../events/mod.ts";
import { testPostgres } from "../events/store/postgres/_stores.ts";
import { claim, delivery, openBoard, storeDead, storeDone, VIEWER } from "./_board.ts";

testPostgres("the console shows what is in a Postgres database, and changes it", async (sut) => {
  const store = sut.store as unknown as EventStore;
  await using board = await openBoard({ store });
  const [dead, done] = [await storeDead(store, "dies"), await storeDone(store, "ends")];
  await store.accept(delivery("waits"));
  const headers = { Cookie: await board.login(VIEWER) };
  const page = async (path: string) => {
    const response = await board.get(path, headers);
    assertEquals([path, response.status], [path, 200]);
    return await response.text();
  };
  const list = await page("/deliveries");
  for (const id of [dead, done, "waits"]) assertStringIncludes(list, id);
  await page("/");
  assertStringIncludes(await page(`/delivery?id=${dead}`), dead);
  assertEquals((await board.act({ kind: "replay", id: dead })).status, 303);
  assertEquals((await store.get(dead))!.state, "queued");
  assertStringIncludes(await page("/acts"), dead);
  assertStringIncludes(await page("/running"), "Nothing runs");
  await claim(store);
  assertStringIncludes(await page("/running"), "issues.opened");
  await store.park(await claim(store), { name: "approval", timeoutMs: 60_000 });
  assertStringIncludes(await page("/parked"), "approval");
  await (await store.state("chat/1")).set(1);
  assertStringIncludes(await page("/states?prefix=chat"), "chat/1");
  await store.scheduleNotes.write("digest", { plan: "0 7 * * * UTC", at: Date.now() }, null);
  assertStringIncludes(await page("/schedules"), "0 7 * * * UTC");
  assertEquals((await board.act({ kind: "purge", id: done })).status, 303);
  assertEquals(await store.get(done), null);
});
