import { assertEquals, assertLess, assertRejects } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { ClosedError } from "../../../../events/store/engine.ts";
import { createEventStore } from "../../../../events/store/open_store.ts";
import { openSqliteFile } from "../../../../events/store/sqlite/_file.ts";
import { openSqliteEngine } from "../../../../events/store/sqlite/sqlite_engine.ts";
import { startWorker } from "../../../../events/mod.ts";
import type { LogRecord } from "../../../../mod.ts";
import { claimOne, delivery } from "../_events.ts";

async function open() {
  const file = await openSqliteFile(":memory:");
  const engine = openSqliteEngine(file);
  return { file, engine, store: createEventStore(engine, { retentionMs: 60_000 }) };
}

Deno.test("an engine whose file is closed says so, whatever it is asked for", async () => {
  const { file, engine, store } = await open();
  await store.accept(delivery("d1"));
  await file.close();
  const calls = [
    () => store.accept(delivery("d2")),
    () => engine.get(["d1"]),
    () => engine.due({ until: Date.now(), limit: 1 }),
    () => engine.cells([["state", "x"]]),
    () => Array.fromAsync(store.list()),
    () => engine.count(10),
    () => engine.tidy({}),
  ];
  for (const call of calls) await assertRejects(call, ClosedError);
});

Deno.test("a worker ends when its file is closed", async () => {
  const { file, store } = await open();
  const records: LogRecord[] = [];
  const log = (record: LogRecord) => void records.push(record);
  const worker = startWorker(store, () => {}, { pollMs: 10, log });
  await file.close();
  await new Promise((resolve) => setTimeout(resolve, 200));
  assertLess(records.length, 4);
  await worker.stop();
});

Deno.test("a done event is listed no longer than it is remembered, also before it is deleted", async () => {
  const { file, store } = await open();
  using time = new FakeTime();
  await store.accept(delivery("d1"));
  await store.complete(await claimOne(store));
  time.tick(59_999);
  assertEquals((await Array.fromAsync(store.list())).length, 1);
  time.tick(1);
  assertEquals(await Array.fromAsync(store.list()), []);
  await file.close();
});
