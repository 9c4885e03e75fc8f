import { assertEquals } from "@std/assert";
import {
  defineApp,
  type HandlerContext,
  type HandlerState,
  type SetStateOptions,
  type StateOptions,
  type WaitOptions,
  type WaitResult,
} from "../../app/mod.ts";
import { forgeDelivery, messengerUpdate, startTestBot } from "../../testing/mod.ts";
import { github, telegram } from "../../webhook/mod.ts";

/** Parts of a handler, in functions of their own: each type can be named. */
const openCount = (
  { state }: Pick<HandlerContext, "state">,
  options?: StateOptions,
): Promise<HandlerState<number>> => state<number>("count", options);

const ask = (
  { waitFor }: Pick<HandlerContext, "waitFor">,
  options: WaitOptions,
): Promise<WaitResult<boolean>> => waitFor<boolean>("approval", options);

Deno.test("the types of waits and states can be named with those of the app", async () => {
  const kept: SetStateOptions = { expireAfterMs: 1_000 };
  const bot = defineApp({ name: "bot", platform: github() });
  bot.on("push", async (_event, context) => {
    const { value, timedOut } = await ask(context, { timeoutMs: 60_000 });
    const count = await openCount(context);
    if (!timedOut && value) count.set((count.value ?? 0) + 1, kept);
  });
  await using test = await startTestBot(bot);
  await test.deliver(forgeDelivery("push", {}));
  await test.store.wake("approval", true);
  await test.advance(0);
  assertEquals((await test.store.state<number>("count", { intake: "github" })).value, 1);
});

Deno.test("what a handler takes has the type of its events", async () => {
  const groupBy = () => ({ key: "chat", newer: "steer" }) as const;
  const bot = defineApp({ name: "bot", platform: telegram({ groupBy }) });
  const texts: (string | undefined)[] = [];
  bot.on("message", async ({ batch }, { takeNewer }) => {
    const message = { chat: { id: 1, type: "private" }, text: "newer" };
    await test.fetch("/webhook", { ...messengerUpdate({ message }), method: "POST" });
    for (const { payload } of [...batch, ...await takeNewer()]) texts.push(payload.message.text);
  });
  await using test = await startTestBot(bot);
  const message = { chat: { id: 1, type: "private" }, text: "first" };
  await test.deliver(messengerUpdate({ message }));
  assertEquals(texts, ["first", "newer"]);
});
