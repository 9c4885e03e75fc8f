/** Waits that only time ends. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { type App, defineApp, type EventHandler, github, kv, sqlite } from "../../../mod.ts";
import { forgeDelivery, startTestBot } from "../../../testing/mod.ts";
import { testWith } from "../../_permissions.ts";

const DAY_MS = 86_400_000;

const STORES = { kv: () => kv(), sqlite: () => sqlite() } as const;

/** Registers a test of a bot over the store of each engine. */
function testBot(name: string, fn: (botOf: (handler: EventHandler) => App) => Promise<void>): void {
  for (const [engine, store] of Object.entries(STORES)) {
    testWith(
      engine === "kv" ? [] : ["read", "write"],
      `${name} [${engine}]`,
      () =>
        fn((handler) =>
          defineApp({ name: "bot", platform: github(), store: store() as ReturnType<typeof kv> })
            .on("push", handler as never)
        ),
    );
  }
}

testBot("sleep() parks its event for a time, each once", async (botOf) => {
  const seen: unknown[] = [];
  await using test = await startTestBot(botOf(async ({ attempt }, { sleep, step }) => {
    seen.push(`begins ${attempt}`);
    await step("ask", () => void seen.push("ask"));
    await sleep("first", DAY_MS);
    await step("remind", () => void seen.push("remind"));
    await sleep("second", 7 * DAY_MS);
    seen.push("ends");
  }));
  const { event } = await test.deliver(forgeDelivery("push", {}));
  assertEquals([event?.state, event?.delayMs], ["parked", DAY_MS]);
  await test.advance(DAY_MS - 1_000);
  assertEquals(seen, ["begins 1", "ask"]);
  await test.advance(1_000);
  assertEquals(seen, ["begins 1", "ask", "begins 1", "remind"]);
  await test.advance(7 * DAY_MS);
  assertEquals(seen.slice(4), ["begins 1", "ends"]);
  assertEquals((await test.store.get(event!.id))?.state, "done");
});

testBot("sleep() of two handlers with the same name is of each alone", async (botOf) => {
  const woken: string[] = [];
  const bot = botOf(async (_event, { sleep }) => {
    await sleep("a", DAY_MS);
    woken.push("first");
  });
  await using test = await startTestBot(bot);
  await test.deliver(forgeDelivery("push", {}));
  await test.deliver(forgeDelivery("push", {}));
  await test.advance(DAY_MS);
  assertEquals(woken, ["first", "first"]);
});

testBot("sleep() is not over when its attempt fails, and is not slept again", async (botOf) => {
  let [slept, attempts] = [0, 0];
  await using test = await startTestBot(botOf(async ({ attempt }, { sleep }) => {
    attempts++;
    await sleep("a", DAY_MS);
    slept++;
    if (attempt === 1) throw new Error("no");
  }));
  const { event } = await test.deliver(forgeDelivery("push", {}));
  await test.advance(DAY_MS, { expectFailure: true });
  await test.advance(60_000);
  assertEquals([attempts, slept, (await test.store.get(event!.id))?.state], [3, 2, "done"]);
});

testBot(
  "a dead event that begins anew sleeps again, and one that goes on does not",
  async (botOf) => {
    let slept = 0;
    await using test = await startTestBot(botOf(async (_event, { sleep }) => {
      await sleep("a", DAY_MS);
      slept++;
      throw new Error("no");
    }));
    const { event } = await test.deliver(forgeDelivery("push", {}));
    await test.advance(60 * DAY_MS, { expectFailure: true });
    assertEquals((await test.store.get(event!.id))?.state, "dead");
    const before = slept;
    assert(await test.store.replay(event!.id));
    await test.advance(1_000, { expectFailure: true });
    assert(slept > before);
    await test.advance(60 * DAY_MS, { expectFailure: true });
    assert(await test.store.replay(event!.id, { fresh: true }));
    await test.advance(1_000);
    assertEquals((await test.store.get(event!.id))?.state, "parked");
  },
);

testBot("sleep() refuses a time or a name that is none", async (botOf) => {
  const calls: string[] = [];
  await using test = await startTestBot(botOf(async (_event, { sleep }) => {
    for (const name of [undefined, "", 7, "\ud83d", "x".repeat(201)] as string[]) {
      await assertRejects(() => sleep(name, 1), TypeError, "Cannot sleep: the name must be");
    }
    for (const ms of [0, -1, 1.5, NaN, 31_536_000_001, "1", undefined] as number[]) {
      await assertRejects(() => sleep("a", ms), Error, "Cannot sleep: 'ms' must be");
    }
    calls.push("done");
  }));
  const { event } = await test.deliver(forgeDelivery("push", {}));
  assertEquals([event?.state, calls], ["done", ["done"]]);
});
