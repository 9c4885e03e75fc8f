/** Questions whose names are made of the idempotency key of their event, as docs/flows.md shows it. */
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { defineApp } from "../../app/mod.ts";
import { forgeDelivery, startTestBot, type TestBot } from "../../testing/mod.ts";
import { github } from "../../webhook/mod.ts";

/** An app that asks at each push, notes the answers, and presses the button that a comment names. */
function sut(keepPayloads?: { readonly forMs: number; readonly maxBytes: number }) {
  const asked: string[] = [];
  const answers: unknown[] = [];
  const bot = defineApp({ name: "bot", platform: github(), keepPayloads });
  bot.on("push", async ({ idempotencyKey }, { waitFor, step }) => {
    const name = idempotencyKey("approval");
    await step("ask", () => void asked.push(name));
    const { value } = await waitFor<string>(name);
    answers.push(value);
    if (value === "fail") throw new Error("no");
  });
  bot.on("issue_comment.created", ({ payload }, { wake }) => {
    wake(payload.comment.body, "yes");
  });
  return { bot, asked, answers };
}

const press = (test: TestBot, name: string) =>
  test.deliver(forgeDelivery("issue_comment", { action: "created", comment: { body: name } }));

Deno.test("the second press of a button does not answer the next question", async () => {
  const { bot, asked, answers } = sut();
  await using test = await startTestBot(bot);
  await test.deliver(forgeDelivery("push", {}));
  await press(test, asked[0]!);
  await press(test, asked[0]!);
  const { event } = await test.deliver(forgeDelivery("push", {}));
  assertEquals([event?.state, answers], ["parked", ["yes"]]);
  await press(test, asked[0]!);
  assertEquals((await test.store.get(event!.id))?.state, "parked");
  await press(test, asked[1]!);
  assertEquals([answers, (await test.store.get(event!.id))?.state], [["yes", "yes"], "done"]);
  assert(test.logs.every(({ level }) => level === "info" || level === "debug"));
});

Deno.test("an event that is replayed after its answer asks under another name", async () => {
  const { bot, asked, answers } = sut({ forMs: 3_600_000, maxBytes: 1_000_000 });
  await using test = await startTestBot(bot);
  const { event } = await test.deliver(forgeDelivery("push", {}));
  await press(test, asked[0]!);
  await press(test, asked[0]!);
  assert(await test.store.replay(event!.id));
  await test.advance(0);
  assertEquals([asked.length, answers, (await test.store.get(event!.id))?.state], [
    2,
    ["yes"],
    "parked",
  ]);
  assertNotEquals(asked[0], asked[1]);
});

Deno.test("a dead event that is replayed keeps its answer, and asks again only if it begins anew", async () => {
  const { bot, asked, answers } = sut();
  await using test = await startTestBot(bot);
  const { event } = await test.deliver(forgeDelivery("push", {}));
  const id = event!.id;
  await test.store.wake(asked[0]!, "fail");
  await test.advance(30 * 86_400_000, { expectFailure: true });
  assertEquals((await test.store.get(id))?.state, "dead");
  const attempts = answers.length;
  assert(await test.store.replay(id));
  await test.advance(30 * 86_400_000, { expectFailure: true });
  assertEquals([asked.length, answers.length, answers.at(-1)], [1, 2 * attempts, "fail"]);
  assert(await test.store.replay(id, { fresh: true }));
  await test.advance(0);
  assertEquals([asked.length, (await test.store.get(id))?.state], [2, "parked"]);
  assertNotEquals(asked[0], asked[1]);
});
