/** A messenger sends an update that was answered 5xx again for a day, and holds up the chat's later ones. */
import { assertEquals } from "@std/assert";
import type { Delivery } from "../../events/mod.ts";
import { startWorker } from "../../events/worker/worker.ts";
import { WallClock } from "../_wall_clock.ts";
import { FORGE_SECRET, forgeDelivery, MESSENGER_SECRET, messengerUpdate } from "../_deliveries.ts";
import {
  forgeIntake,
  messengerIntake,
  type MessengerIntakeOptions,
  openIntake,
} from "./_intakes.ts";

/** A messenger's app for everybody, and what updates are answered, by id. */
async function createMessenger(options: Partial<MessengerIntakeOptions> = {}) {
  const sut = await openIntake((store) =>
    messengerIntake({ secrets: [MESSENGER_SECRET], store, isAuthorized: () => true, ...options })
  );
  return {
    ...sut,
    post: async (id: number) => {
      const update = { update_id: id, message: { from: { id: 42 }, chat: { id: 7 } } };
      return (await sut.post(messengerUpdate(update))).status;
    },
    ids: async () =>
      (await Array.fromAsync(sut.store.list())).map(({ id }) => id.slice("messenger:".length))
        .sort(),
  };
}

/** A check that throws as often as asked. */
function failing(times: number) {
  return () => {
    if (times-- > 0) throw new Error("connect 10.0.0.7");
    return true;
  };
}

Deno.test("an update whose handler always throws is answered 200, and so are the later ones", async () => {
  using bot = await createMessenger();
  const handled: string[] = [];
  const retry = { maxAttempts: 2, minDelayMs: 1 };
  const handler = ({ deliveryId = "" }: { deliveryId: string | undefined }) => {
    handled.push(deliveryId);
    if (deliveryId === "1") throw new Error("no");
  };
  const worker = startWorker(bot.store, handler, { retry, log: () => {} });
  for (const id of [1, 1, 2, 3]) assertEquals(await bot.post(id), 200);
  await worker.poll();
  await worker.stop();
  assertEquals(handled.includes("2") && handled.includes("3"), true);
});

Deno.test("an update whose user cannot be checked is answered 500 once, and then 403", async () => {
  using bot = await createMessenger({ isAuthorized: failing(Infinity) });
  assertEquals([await bot.post(1), await bot.post(1)], [500, 403]);
  assertEquals([await bot.post(2), await bot.post(2)], [500, 403]);
  assertEquals(await bot.ids(), []);
  const errors = bot.records.filter(({ message }) => message.startsWith("update refused"));
  assertEquals(errors.map(({ level, deliveryId }) => [level, deliveryId]), [["error", "1"], [
    "error",
    "2",
  ]]);
});

Deno.test("no update is lost while the check is down, where users are ignored", async () => {
  using bot = await createMessenger({ isAuthorized: failing(4), unauthorized: "ignore" });
  assertEquals(await Array.fromAsync([1, 1, 2, 1, 2, 1], bot.post), [500, 500, 500, 500, 200, 200]);
  assertEquals(await bot.ids(), ["1", "2"]);
});

Deno.test("an update that alone makes the check fail is ignored at last, where users are", async () => {
  const isAuthorized = (_env: unknown, _user: unknown, { deliveryId }: Delivery) => {
    if (deliveryId === "1") throw new Error("no chat");
    return true;
  };
  using bot = await createMessenger({ isAuthorized, unauthorized: "ignore" });
  using clock = new WallClock();
  assertEquals(await Array.fromAsync([1, 1, 2, 1, 3, 1, 4, 1], bot.post), [
    ...[500, 500, 200, 500, 200, 500, 200, 500],
  ]);
  clock.advance(10 * 60_000);
  // While the check works for nobody, failures do not count.
  assertEquals(await Array.fromAsync([1, 1, 1, 5, 1], bot.post), [500, 500, 500, 200, 200]);
  assertEquals(await bot.ids(), ["2", "3", "4", "5"]);
});

Deno.test("no update is lost in the first ten minutes of a check that often fails", async () => {
  let isDown = true;
  const isAuthorized = (_env: unknown, _user: unknown, { deliveryId }: Delivery) => {
    if (isDown && deliveryId === "1") throw new Error("429");
    return true;
  };
  using bot = await createMessenger({ isAuthorized, unauthorized: "ignore" });
  for (const id of [2, 3, 4, 5, 6, 7]) {
    assertEquals(await Array.fromAsync([1, id], bot.post), [500, 200]);
  }
  isDown = false;
  assertEquals(await bot.post(1), 200);
  assertEquals(await bot.ids(), ["1", "2", "3", "4", "5", "6", "7"]);
});

Deno.test("an update whose user can be checked the second time is taken", async () => {
  using bot = await createMessenger({ isAuthorized: failing(1) });
  assertEquals([await bot.post(1), await bot.post(1)], [500, 200]);
  assertEquals(await bot.ids(), ["1"]);
});

const UNORDERED: readonly (readonly [what: string, groupBy: () => string | undefined])[] = [
  ["throws", () => {
    throw new Error("no chat");
  }],
  ["returns no text", () => 7 as unknown as string],
];

for (const [what, groupBy] of UNORDERED) {
  Deno.test(`an update is taken without a place in line where groupBy ${what}`, async () => {
    using bot = await createMessenger({ groupBy });
    assertEquals(await bot.post(1), 200);
    assertEquals((await bot.store.get("messenger:1"))?.orderingKey, null);
    const errors = bot.records.filter(({ message }) => message === "event not grouped");
    assertEquals(errors.map(({ level, deliveryId }) => [level, deliveryId]), [["error", "1"]]);
  });
}

Deno.test("a forge's delivery is taken as well where groupBy throws", async () => {
  const [, groupBy] = UNORDERED[0]!;
  using forge = await openIntake((store) =>
    forgeIntake({ secrets: [FORGE_SECRET], store, groupBy })
  );
  assertEquals((await forge.post(forgeDelivery("{}"))).status, 200);
});

Deno.test("an update is answered 200 whose record cannot be read", async () => {
  using bot = await createMessenger();
  await bot.kv.set(["events", "event", "1"], { v: 99 });
  assertEquals([await bot.post(1), await bot.post(2)], [200, 200]);
});
