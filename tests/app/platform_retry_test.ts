import { assert, assertEquals, assertThrows } from "@std/assert";
import { events } from "../../app/mod.ts";
import { retryDelay } from "../../events/worker/retry_policy.ts";
import {
  type App,
  defineApp,
  github,
  type HandlerOptions,
  messenger,
  type Platform,
  type RetryPolicy,
  slack,
  standard,
  stripe,
  telegram,
} from "../../mod.ts";
import { definePlatform } from "../../mod.ts";
import { forgeDelivery, messengerUpdate, startTestBot } from "../../testing/mod.ts";
import { testApp } from "./_stores.ts";

const MINUTE_MS = 60_000;

/** Delivers an update whose handler fails, and advances until it is dead, or a day has passed. */
async function untilDead(
  definition: Pick<App["definition"], "store" | "worker">,
  options?: HandlerOptions,
) {
  const told: string[] = [];
  const bot = defineApp({ name: "bot", platform: telegram<object>(), ...definition });
  bot.onAny(() => {
    throw new Error("no");
  }, options).onDead(({ payload }) => void told.push(payload.id));
  await using test = await startTestBot(bot);
  const { event } = await test.deliver(messengerUpdate({ message: { text: "hi" } }), {
    expectFailure: true,
  });
  for (let minute = 0; minute < 60; minute++) {
    await test.advance(MINUTE_MS, { expectFailure: true });
  }
  const { state, attempt, settledAt } = (await test.store.get(event!.id))!;
  return { state, attempt, told: told.length, ms: (settledAt ?? NaN) - event!.receivedAt };
}

testApp("a messenger's event dies after ten minutes, and is reported", async (store) => {
  const { state, attempt, told, ms } = await untilDead({ store });
  assertEquals([state, attempt, told], ["dead", 10, 1]);
  assert(ms > 8 * MINUTE_MS && ms < 12 * MINUTE_MS, `${ms}`);
});

testApp("a policy of the app counts in place of a platform's", async (store) => {
  const dead = await untilDead({ store, worker: { retry: { maxAttempts: 2 } } });
  assertEquals([dead.state, dead.attempt], ["dead", 2]);
  const waiting = await untilDead({ store, worker: { retry: {} } });
  assertEquals([waiting.state, waiting.told], ["queued", 0]);
});

testApp("a handler's policy counts in place of a platform's, which completes it", async (store) => {
  const waiting = await untilDead({ store }, { retry: { maxAttempts: 36 } });
  assertEquals(waiting.state, "queued");
  const { attempt, ms } = await untilDead({ store }, { retry: { maxDelayMs: 1_000 } });
  assertEquals([attempt, ms < MINUTE_MS], [10, true]);
});

testApp("each platform of an app has its own policy, and own events none", async (store) => {
  const bot = defineApp({ name: "bot", platform: github<object>(), store });
  const fail = () => {
    throw new Error("no");
  };
  const meter = definePlatform({
    ...{ name: "meter", path: "/meter", retry: { minDelayMs: MINUTE_MS, maxAttempts: 2 } },
    createVerifier: () => () => () => {},
    parse: () => ({ type: "reading", payload: {} }),
  });
  bot.onAny(fail);
  bot.from(meter).onAny(fail);
  bot.from(events("jobs")).onAny(fail);
  await using test = await startTestBot(bot);
  const push = forgeDelivery("push", {}, { id: "d1" });
  const own = await test.store.emit("jobs", "job", {});
  const { event: pushed } = await test.deliver(push, { expectFailure: true });
  const body = new TextEncoder().encode("{}");
  const reading = {
    platform: "meter",
    path: "/meter",
    method: "POST" as const,
    headers: new Headers(),
    body,
  };
  const { event: read } = await test.deliver(reading, { expectFailure: true });
  assert(pushed!.delayMs! < 2_000 && read!.delayMs! >= MINUTE_MS);
  await test.advance(2 * MINUTE_MS, { expectFailure: true });
  const states = [own.id, pushed!.id, read!.id].map(async (id) =>
    (await test.store.get(id))?.state
  );
  assertEquals(await Promise.all(states), ["queued", "queued", "dead"]);
});

Deno.test("messengers and Slack have a policy of ten minutes, and the other platforms none", () => {
  const policyOf = (platform: Platform) => platform.retry;
  const others = [github(), standard({ name: "a" }), stripe()];
  assertEquals(others.map(policyOf), [undefined, undefined, undefined]);
  for (const retry of [telegram(), messenger(), slack()].map(policyOf)) {
    const of = (policy: RetryPolicy, random: number) =>
      Array.from({ length: 9 }, (_, i) => retryDelay(policy, i + 1, random)!)
        .reduce((sum, ms) => sum + ms);
    const minutes = [of(retry!, 0), of(retry!, 1)].map((ms) => (ms / MINUTE_MS).toFixed(1));
    assertEquals([minutes, retryDelay(retry!, 10)], [["8.5", "10.6"], null]);
  }
});

Deno.test("definePlatform() refuses a policy that a worker refuses", () => {
  const parts = { createVerifier: () => () => () => {}, parse: () => new Response() };
  assertThrows(
    () => definePlatform({ name: "a", ...parts, retry: { maxAttempts: 0 } }),
    RangeError,
    "Cannot define the platform 'a', in 'retry': 'maxAttempts' must be ",
  );
});
