import examples from "@octokit/webhooks-examples" with { type: "json" };
import { assert, assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { toEvent, type WebhookEvent } from "../../events/worker/event.ts";
import type { JsonObject } from "../../core/parse_json.ts";
import type { EventRecord } from "../../events/mod.ts";
import { subjectsOf } from "../../webhook/forge.ts";
import { parseMessengerUpdate } from "../../webhook/messenger.ts";

const encoder = new TextEncoder();

/** An event as a handler gets it. */
function eventOf(
  platform: "forge" | "messenger",
  payload: object,
  source = "github",
  id = "d1",
): WebhookEvent {
  const headers = new Headers({ "Content-Type": "application/json" });
  const body = encoder.encode(JSON.stringify(payload));
  const { action, repository, chat, sender } = platform === "forge"
    ? { ...subjectsOf(payload as JsonObject), chat: undefined }
    : parseMessengerUpdate(headers, body);
  const subject = { action, repository, chat, sender };
  const about = { id, platform, source, type: "x", requestId: null, receivedAt: 0, attempt: 1 };
  return toEvent({ ...about, ...subject } as EventRecord, body);
}

Deno.test("WebhookEvent.repository and .sender are those of GitHub's examples", () => {
  let count = 0;
  for (const { examples: payloads } of examples) {
    for (const payload of payloads.slice(0, 3)) {
      const { repository, sender } = eventOf("forge", payload);
      const { repository: raw, sender: by } = payload as {
        repository?: { id: number; full_name: string; name: string };
        sender?: { id: number; login: string; type: string };
      };
      assertEquals(
        [repository?.id, repository?.fullName, repository?.name],
        [raw?.id, raw?.full_name, raw?.name],
      );
      assertEquals([sender?.id, sender?.name], [by?.id, by?.login]);
      assertEquals(sender?.isBot, by && by.type === "Bot");
      if (raw && by) count++;
    }
  }
  assert(count > 100);
});

Deno.test("WebhookEvent.repository and .sender are GitLab's project and user", () => {
  const project = { id: 7, path_with_namespace: "group/sub/app", name: "App" };
  const [repository, sender] = [{ name: "App", url: "git@..." }, { id: 42, name: "ada" }];
  const expected = { id: 7, fullName: "group/sub/app", owner: "group/sub", name: "app" };
  const note = eventOf("forge", { project, repository, user: { id: 42, username: "ada" } });
  assertEquals([note.repository, note.sender], [expected, { ...sender, isBot: false }]);
  const push = eventOf("forge", { project, user_id: 42, user_username: "ada" });
  assertEquals([push.repository, push.sender], [expected, { ...sender, isBot: false }]);
});

Deno.test("WebhookEvent.chat and .sender are those of an update", () => {
  const from = { id: 42, is_bot: true, first_name: "Ada", username: "ada" };
  const message = { chat: { id: -7, type: "group" }, from };
  for (const update of [{ message }, { callback_query: { from, message } }]) {
    const { chat, sender, repository } = eventOf("messenger", { update_id: 1, ...update });
    assertEquals(chat, { id: -7, type: "group" });
    assertEquals(sender, { id: 42, name: "ada", isBot: true });
    assertEquals(repository, undefined);
  }
  const poll = eventOf("messenger", { update_id: 1, poll: { id: "42" } });
  assertEquals([poll.chat, poll.sender], [undefined, undefined]);
});

Deno.test("WebhookEvent has no subject where the payload is odd", () => {
  for (const odd of [null, 7, "a/b", [], { id: "7", full_name: 7, login: 7 }]) {
    const payload = { repository: odd, project: odd, sender: odd, user: odd, chat: odd };
    const { repository, chat, sender } = eventOf("forge", payload);
    assertEquals([repository, chat, sender], [undefined, undefined, undefined]);
  }
});

Deno.test("WebhookEvent keeps its subject when it is copied", () => {
  const event = eventOf("forge", { repository: { id: 7, full_name: "a/b" } });
  assertEquals({ ...event }.repository?.fullName, "a/b");
});

Deno.test("WebhookEvent is made of data alone: a getter would keep its payload in memory", () => {
  const event = eventOf("forge", { repository: { id: 7, full_name: "a/b" } });
  const properties = Object.values(Object.getOwnPropertyDescriptors(event));
  assertEquals(properties.filter(({ get }) => get !== undefined), []);
});

Deno.test("WebhookEvent.idempotencyKey() is the same for the same delivery and call only", () => {
  const key = eventOf("forge", {}).idempotencyKey("label");
  assertMatch(key, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assertEquals(eventOf("forge", {}).idempotencyKey("label"), key);
  const others = [
    eventOf("forge", {}).idempotencyKey(),
    eventOf("forge", {}).idempotencyKey("comment"),
    eventOf("forge", {}, "gitea").idempotencyKey("label"),
    eventOf("forge", {}, "github", "d2").idempotencyKey("label"),
    eventOf("forge", { a: 1 }).idempotencyKey("label"),
    eventOf("messenger", { poll: {} }).idempotencyKey("label"),
  ];
  for (const other of others) assertNotEquals(other, key);
});
