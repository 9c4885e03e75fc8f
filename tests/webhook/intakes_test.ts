/** Several intakes on one store. */
import { assertEquals, assertThrows } from "@std/assert";
import { met } from "../../core/check_options.ts";
import { createBaseApp } from "../../app/base_app.ts";
import type { EventStore } from "../../events/mod.ts";
import { byChat, byRepository } from "../../webhook/mod.ts";
import { FORGE_SECRET, forgeDelivery, MESSENGER_SECRET, messengerUpdate } from "../_deliveries.ts";
import { claimAll, idsOf } from "../events/store/_events.ts";
import { memoryStore } from "../events/store/kv/_stores.ts";
import { forgeIntake, type ForgeIntakeOptions, messengerIntake } from "./_intakes.ts";

/** Sends a delivery to a forge's intake. */
function forgeTo(store: EventStore, options: Partial<ForgeIntakeOptions> = {}) {
  const app = createBaseApp({ name: "forge", logger: false });
  app.route("/", forgeIntake({ secrets: [FORGE_SECRET], store, ...options }));
  return async (id: string, payload: object) => {
    const init = await forgeDelivery(JSON.stringify(payload), { "X-Forge-Delivery": id });
    return (await app.request("/webhook", init)).status;
  };
}

/** Sends an update to a messenger's intake. */
function messengerTo(store: EventStore) {
  const app = createBaseApp({ name: "messenger", logger: false });
  const options = { secrets: [MESSENGER_SECRET], store, groupBy: byChat, isAuthorized: () => true };
  app.route("/", messengerIntake(options));
  return async (id: number, chat: number) => {
    const update = { update_id: id, message: { from: { id: 42 }, chat: { id: chat } } };
    return (await app.request("/webhook", messengerUpdate(update))).status;
  };
}

Deno.test("two intakes on one store take the same delivery id for two", async () => {
  await using sut = await memoryStore();
  assertEquals(await forgeTo(sut.store)("7", {}), 200);
  assertEquals(await messengerTo(sut.store)(7, 1), 200);
  const events = await Array.fromAsync(sut.store.list({ state: "queued" }));
  assertEquals(events.map(({ id, intake, deliveryId }) => [id, intake, deliveryId]).sort(), [
    ["forge:7", "forge", "7"],
    ["messenger:7", "messenger", "7"],
  ]);
});

Deno.test("two intakes on one store do not wait for each other's ordering keys", async () => {
  await using sut = await memoryStore();
  const forge = forgeTo(sut.store, { groupBy: byRepository });
  await forge("a", { repository: { id: 5 } });
  await forge("b", { repository: { id: 5 } });
  await messengerTo(sut.store)(1, 5);
  const leases = await claimAll(sut.store);
  assertEquals(idsOf(leases).toSorted(), ["forge:a", "messenger:1"]);
  assertEquals(leases.map(({ record }) => record.orderingKey), ["5", "5"]);
});

Deno.test("an event that died is put back into the line of its own intake", async () => {
  await using sut = await memoryStore();
  await forgeTo(sut.store, { groupBy: byRepository })("a", { repository: { id: 5 } });
  const [lease] = await claimAll(sut.store);
  await sut.store.bury(lease!, new Error("no"));
  await messengerTo(sut.store)(1, 5);
  assertEquals(await sut.store.replay("forge:a"), true);
  assertEquals(idsOf(await claimAll(sut.store)).toSorted(), ["forge:a", "messenger:1"]);
});

Deno.test("two intakes of a platform are told apart by their names", async () => {
  await using sut = await memoryStore();
  const replayWindowMs = 60_000;
  for (const name of ["github", "gitea"]) {
    const send = forgeTo(sut.store, { name, replayWindowMs });
    assertEquals([await send("a", {}), await send("a", {}), await send("b", {})], [200, 200, 200]);
  }
  const ids = (await Array.fromAsync(sut.store.list())).map(({ id }) => id);
  assertEquals(ids.toSorted(), ["gitea:a", "github:a"]);
});

Deno.test("forge() refuses a name that cannot begin an id", async () => {
  await using sut = await memoryStore();
  for (const name of ["", "a:b", "a b", "1", "-", "ä", "x".repeat(33), 7, null]) {
    const create = () => forgeTo(sut.store, { name: name as string });
    assertThrows(create, TypeError, `got ${met(name)}`);
  }
});
