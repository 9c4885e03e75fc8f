import { assertEquals } from "@std/assert";
import type { LogRecord } from "../../../middleware/mod.ts";
import { createEventRouter } from "../../../events/router/mod.ts";
import { createEventLogger, type EventHandler, startWorker } from "../../../events/mod.ts";
import { memoryStore } from "../store/_stores.ts";

/** Collects what a worker with this handler logs of one event. */
async function logged(handler: EventHandler): Promise<LogRecord[]> {
  const { kv, store } = await memoryStore();
  const first = Promise.withResolvers<void>();
  const records: LogRecord[] = [];
  const log = (record: LogRecord) => {
    records.push(record);
    first.resolve();
  };
  const worker = startWorker(store, handler, { log });
  try {
    const body = new TextEncoder().encode("{}");
    await store.accept({
      ...{ platform: "forge", source: "github", type: "push", deliveryId: "d1", body, payload: {} },
    });
    await first.promise;
  } finally {
    await worker.stop();
    kv.close();
  }
  return records;
}

Deno.test("createEventLogger() writes to the worker's log by default", async () => {
  const records = await logged(createEventLogger());
  assertEquals(records.map(({ message, type, attempt }) => [message, type, attempt]), [
    ["event handled", "push", 1],
  ]);
});

Deno.test("createEventLogger() writes to a log of its own", async () => {
  const own: LogRecord[] = [];
  const both = createEventLogger({ log: (record) => own.push(record) });
  await logged((event, context) => {
    both(event, context);
    context.log({ level: "info", time: "", message: "through" });
  });
  assertEquals(own.map(({ message }) => message), ["event handled"]);
});

Deno.test("a router hands the worker's log on to its handlers", async () => {
  const router = createEventRouter().on("push", (_event, { log }) => {
    log({ level: "info", time: "", message: "of the handler" });
  });
  const records = await logged(router.handle);
  assertEquals(records.map(({ message }) => message), ["of the handler"]);
});
