import { assertEquals } from "@std/assert";
import { warnOfLeftEvents } from "../../app/left_events.ts";
import { changedKv } from "../../dev/harness/faulty_kv.ts";
import { openEventStore } from "../../events/mod.ts";
import type { LogRecord } from "../../middleware/mod.ts";
import { delivery } from "../events/store/_events.ts";
import { findLeftNamespaces } from "../../events/store/kv/kv_database.ts";

/** Lets an app named `new` look at a KV, and returns what it has logged. */
async function lookAt(
  kv: Deno.Kv,
  stopping: Promise<void> = new Promise(() => {}),
): Promise<readonly LogRecord[]> {
  const records: LogRecord[] = [];
  const log = (record: LogRecord) => void records.push(record);
  const leftBy = (own: string) => findLeftNamespaces(kv, own);
  await warnOfLeftEvents({ leftBy }, { name: "bot", namespace: "new", log, stopping });
  return records;
}

Deno.test("warnOfLeftEvents() writes one line for all namespaces", async () => {
  using kv = await Deno.openKv(":memory:");
  for (const namespace of ["old", "older"]) {
    const store = await openEventStore(kv, { namespace, notifier: "watch" });
    await store.accept(delivery("d1"));
  }
  const [{ level, message, name, others }, ...more] = await lookAt(kv) as [LogRecord];
  assertEquals([level, message, name], ["warn", "other events in the database", "bot"]);
  assertEquals([others, more], [["old", "older"], []]);
});

Deno.test("warnOfLeftEvents() only informs an app that has events of its own, which may be a ping", async () => {
  using kv = await Deno.openKv(":memory:");
  for (const namespace of ["old", "new"]) {
    const store = await openEventStore(kv, { namespace, notifier: "watch" });
    await store.accept(delivery("d1"));
  }
  const [{ level, message, others }, ...more] = await lookAt(kv) as [LogRecord];
  assertEquals([level, message], ["info", "other events in the database"]);
  assertEquals([others, more], [["old"], []]);
});

Deno.test("warnOfLeftEvents() only logs that the KV fails", async () => {
  using kv = await Deno.openKv(":memory:");
  const error = new Error("connection lost");
  const list = () => {
    throw error;
  };
  const [record, ...more] = await lookAt(changedKv(kv, { list })) as [LogRecord];
  assertEquals([record.level, record.message], ["warn", "other events not looked for"]);
  assertEquals([record.error, more], [error, []]);
});

Deno.test("warnOfLeftEvents() ends without a word when the app stops, and closes its KV", async () => {
  const kv = await Deno.openKv(":memory:");
  const reading = Promise.withResolvers<never>();
  const list = () =>
    (async function* () {
      yield await reading.promise;
    })();
  const stopping = Promise.withResolvers<void>();
  const looking = lookAt(changedKv(kv, { list }), stopping.promise);
  stopping.resolve();
  assertEquals(await looking, []);
  kv.close();
  reading.reject(new TypeError("Database is closed."));
  assertEquals(await lookAt(kv, stopping.promise), []);
});
