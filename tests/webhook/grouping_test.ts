import { assertEquals } from "@std/assert";
import { byChat, byRepository } from "../../webhook/mod.ts";
import type { Delivery } from "../../events/mod.ts";
import { FORGE_SECRET, forgeDelivery, MESSENGER_SECRET, messengerUpdate } from "../_deliveries.ts";
import { forgeIntake, messengerIntake, openIntake } from "./_intakes.ts";

const keyOf = (groupBy: typeof byChat, payload: Record<string, unknown>) =>
  groupBy({
    ...{ platform: "forge", source: "github", type: "push", deliveryId: "d1" },
    ...{ body: new Uint8Array(), payload },
  });

Deno.test("byRepository() tells the repository, by id or by name", () => {
  assertEquals(keyOf(byRepository, { repository: { id: 7, full_name: "a/b" } }), "7");
  assertEquals(keyOf(byRepository, { repository: { full_name: "a/b" } }), "a/b");
});

Deno.test("byRepository() tells GitLab's project, and prefers a repository that names itself", () => {
  const project = { id: 7, path_with_namespace: "a/b" };
  assertEquals(keyOf(byRepository, { project, repository: { name: "b" } }), "7");
  assertEquals(keyOf(byRepository, { project, repository: { full_name: "c/d" } }), "c/d");
  assertEquals(keyOf(byRepository, { project, repository: { id: "x" } }), "x");
});

Deno.test("byChat() tells the chat that the platform has read", () => {
  const delivery = { platform: "messenger", source: "telegram", type: "message", deliveryId: "1" };
  const chat = { id: -7, type: "group" };
  const read = { ...delivery, chat, body: new Uint8Array(), payload: {} } as Delivery;
  assertEquals(byChat(read), "-7");
});

Deno.test("byRepository() gives no key to an event without a repository", () => {
  for (const repository of [undefined, null, 7, "a/b", {}, { id: {} }, { full_name: "" }]) {
    assertEquals(keyOf(byRepository, { repository }), undefined);
  }
});

Deno.test("byChat() tells the chat of a message, and of the message of a callback", () => {
  assertEquals(keyOf(byChat, { update_id: 1, message: { chat: { id: -7 } } }), "-7");
  const callback = { message: { chat: { id: 8 } } };
  assertEquals(keyOf(byChat, { update_id: 1, callback_query: callback }), "8");
});

Deno.test("byChat() gives no key to an update without a chat", () => {
  for (
    const payload of [{}, { message: {} }, { inline_query: { query: "x" } }, { message: null }]
  ) {
    assertEquals(keyOf(byChat, payload), undefined);
  }
});

Deno.test("forge() with groupBy has a repository's events wait for each other", async () => {
  using sut = await openIntake((store) =>
    forgeIntake({ secrets: [FORGE_SECRET], store, groupBy: byRepository })
  );
  for (const id of [1, 1, 2]) {
    const sent = forgeDelivery(JSON.stringify({ repository: { id } }));
    assertEquals((await sut.post(sent)).status, 200);
  }
  const events = await sut.events();
  assertEquals(events.map(({ orderingKey }) => orderingKey).toSorted(), ["1", "2"]);
});

Deno.test("messenger() with groupBy has a chat's updates wait for each other", async () => {
  using sut = await openIntake((store) =>
    messengerIntake({
      ...{ secrets: [MESSENGER_SECRET], store, groupBy: byChat, isAuthorized: () => true },
    })
  );
  for (const [update_id, id] of [[1, 7], [2, 7], [3, 8]]) {
    const sent = messengerUpdate({ update_id, message: { from: { id: 42 }, chat: { id } } });
    assertEquals((await sut.post(sent)).status, 200);
  }
  const events = await sut.events();
  assertEquals(events.map(({ id }) => id).toSorted(), ["messenger:1", "messenger:3"]);
});
