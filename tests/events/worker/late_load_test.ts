import { assertEquals } from "@std/assert";
import { type EventStore, startWorker } from "../../../events/mod.ts";
import { delivery } from "../store/_events.ts";

import { testStoreOnce } from "../store/contract/_contract.ts";

const LARGE = JSON.stringify({ text: "a".repeat(3_000_000) });

testStoreOnce("a handler does not start on an event that was given back meanwhile", async (sut) => {
  // A payload of many parts is read after the claim, and from a remote KV that may take a while.
  await sut.store.accept({ ...delivery("d1"), body: new TextEncoder().encode(LARGE) });
  const loading = Promise.withResolvers<void>();
  const loaded = Promise.withResolvers<void>();
  const store: EventStore = new Proxy(sut.store, {
    get: (target, name) => {
      const value = Reflect.get(target, name, target);
      if (name !== "load") return typeof value === "function" ? value.bind(target) : value;
      return async (...args: Parameters<EventStore["load"]>) => {
        loading.resolve();
        await loaded.promise;
        return await target.load(...args);
      };
    },
  });
  const handled: string[] = [];
  const worker = startWorker(store, ({ id }) => void handled.push(id), { log: () => {} });
  await loading.promise;
  await worker.stop({ graceMs: 0 });
  assertEquals((await sut.store.get("d1"))?.state, "queued");
  loaded.resolve();
  await new Promise((resolve) => setTimeout(resolve, 50));
  assertEquals(handled, []);
});
