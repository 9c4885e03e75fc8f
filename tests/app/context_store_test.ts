import { assert, assertEquals, assertRejects } from "@std/assert";
import { events, type HandlerStore } from "../../app/mod.ts";
import { defineApp, github } from "../../mod.ts";
import { forgeDelivery, startTestBot } from "../../testing/mod.ts";
import { testApp } from "./_stores.ts";

testApp(
  "the store of a context emits and wakes at once, also if its handler fails",
  async (store) => {
    const seen: unknown[] = [];
    const bot = defineApp({ name: "bot", platform: github(), store });
    bot.on("star", async (_event, { waitFor }) => {
      seen.push((await waitFor("answer")).value);
    });
    bot.on("push", async ({ id }, { store }) => {
      seen.push((await store.wake("answer", 42)).outcome);
      const emitted = await store.emit("jobs", "job", {}, { id: "one" });
      seen.push(emitted.duplicate, (await store.get(emitted.id))?.type);
      assertEquals((await store.get(id))?.state, "running");
      throw new Error("no");
    });
    bot.from(events("jobs")).on("job", () => void seen.push("handled"));
    await using test = await startTestBot(bot);
    await test.deliver(forgeDelivery("star", {}));
    await test.deliver(forgeDelivery("push", {}), { expectFailure: true });
    assertEquals(new Set(seen), new Set(["woken", false, "job", "handled", 42]));
    assertEquals(seen[0], "woken");
  },
);

testApp("the store of a context cancels as the context does", async (store) => {
  const aborted = Promise.withResolvers<void>();
  const started = Promise.withResolvers<void>();
  const bot = defineApp({ name: "bot", platform: github(), store });
  bot.on("star", ({ id }, context) => {
    started.resolve();
    context.signal.addEventListener("abort", () => aborted.resolve());
    assertEquals(id, "github:d1");
    return aborted.promise;
  });
  bot.on("push", async (_event, { store, cancel }) => {
    assertEquals(cancel, store.cancel);
    assert(await cancel("github:d1"));
    // At once: its lease is renewed in nine seconds only.
    await aborted.promise;
  });
  await using test = await startTestBot(bot);
  const handled = test.deliver(forgeDelivery("star", {}, { id: "d1" }), { expectFailure: true });
  await started.promise;
  await test.deliver(forgeDelivery("push", {}), { expectFailure: true });
  await handled;
  assertEquals((await test.store.get("github:d1"))?.outcome, "cancelled");
});

testApp("the store of a context has no more, and emits no event of a platform", async (store) => {
  const bot = defineApp({ name: "bot", platform: github({ name: "work" }), store });
  let members: readonly string[] = [];
  bot.on("push", async (_event, context) => {
    const { store }: { readonly store: HandlerStore } = context;
    members = Object.keys(store);
    await assertRejects(() => store.emit("work", "push", {}), TypeError, "which is a platform");
  });
  await using test = await startTestBot(bot);
  const { event } = await test.deliver(forgeDelivery("push", {}));
  assertEquals(members, ["get", "list", "emit", "wake", "cancel"]);
  assertEquals(event?.state, "done");
});
