/** Test bots that are killed, and others on the same store that take their events over. */
import { assertEquals, assertRejects } from "@std/assert";
import { type App, defineApp, type EventHandler, github, kv, sqlite } from "../../mod.ts";
import { forgeDelivery, startTestBot, type TestBotOptions } from "../../testing/mod.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";

/** The length of a lease. */
const LEASE_MS = 30_000;

const push = () => forgeDelivery("push", {}, { id: "d1" });

const ID = "github:d1";

/** A bot whose first attempt pays in a step and hangs until it is let go; what it has done, in order. */
function hangingBot(store = kv()) {
  const [hangs, letGo] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const [done, ended] = [[] as string[], Promise.withResolvers<void>()];
  const handler: EventHandler = async ({ attempt }, { step, signal }) => {
    signal.addEventListener("abort", () => done.push("told"));
    await step("pay", () => void done.push("paid"));
    if (attempt === 1) {
      hangs.resolve();
      await letGo.promise;
    }
    const shipping = step("ship", () => void done.push("shipped"));
    await shipping.finally(ended.resolve);
    done.push(`attempt ${attempt}`);
  };
  const bot: App = defineApp({ name: "bot", platform: github<object>(), store });
  bot.onAny(handler);
  return { bot, done, hangs: hangs.promise, letGo: letGo.resolve, ended: ended.promise };
}

async function checkTakeOver(store: ReturnType<typeof kv>, options: TestBotOptions): Promise<void> {
  const { bot, done, hangs } = hangingBot(store);
  await using first = await startTestBot(bot, options);
  const delivering = first.deliver(push());
  await hangs;
  await first.kill();
  assertEquals((await delivering).event?.state, "running");
  await using second = await startTestBot(bot, options);
  const stateAfter = async (ms: number) => {
    await second.advance(ms);
    return (await second.store.get(ID))?.state;
  };
  const shortMs = LEASE_MS - 5_000;
  assertEquals([await stateAfter(0), await stateAfter(shortMs)], ["running", "running"]);
  assertEquals(done, ["paid"]);
  assertEquals(await stateAfter(LEASE_MS), "done");
  assertEquals(done, ["paid", "shipped", "attempt 2"]);
  const attempt = (await second.store.get(ID))!.attempts[0]!;
  assertEquals(attempt.error?.startsWith("Lease expired"), true, attempt.error);
}

Deno.test("an event of a killed bot is taken over once its lease has expired, with the steps it has taken", async () => {
  using opened = await Deno.openKv(":memory:");
  await checkTakeOver(kv(), { store: kv(opened) });
});

testWith(["read", "write"], "an event of a killed bot is taken over in a file", async () => {
  await withFolder(async (folder) => {
    await checkTakeOver(sqlite() as never, { env: { SQLITE_FILE: `${folder}/test.db` } });
  });
});

Deno.test("what a handler of a killed bot does later is refused, and settles nothing", async () => {
  using opened = await Deno.openKv(":memory:");
  const options = { store: kv(opened) };
  const { bot, done, hangs, letGo, ended } = hangingBot();
  await using first = await startTestBot(bot, options);
  const delivering = first.deliver(push());
  await hangs;
  await first.kill();
  letGo();
  await Promise.all([delivering, ended]);
  await using second = await startTestBot(bot, options);
  await second.advance(0);
  assertEquals((await second.store.get(ID))?.state, "running");
  assertEquals(done.includes("told") || done.includes("attempt 1"), false);
});

Deno.test("a bot that runs keeps its event while another one advances the time", async () => {
  using opened = await Deno.openKv(":memory:");
  const options = { store: kv(opened) };
  const { bot, done, hangs, letGo } = hangingBot();
  await using first = await startTestBot(bot, options);
  await using second = await startTestBot(bot, options);
  const delivering = first.deliver(push());
  await hangs;
  await second.advance(10 * LEASE_MS);
  assertEquals((await second.store.get(ID))?.state, "running");
  letGo();
  assertEquals((await delivering).event?.state, "done");
  assertEquals(done, ["paid", "shipped", "attempt 1"]);
});

Deno.test("a killed bot takes no calls", async () => {
  await using bot = await startTestBot(hangingBot().bot);
  await bot.kill();
  await bot.kill();
  const calls = [() => bot.deliver(push()), () => bot.advance(1), () => bot.fetch("/health")];
  for (const call of calls) await assertRejects(call, Error, "the test bot was killed");
});
