import { assertEquals, assertMatch } from "@std/assert";
import { MESSENGER_SECRET, messengerUpdate } from "../_deliveries.ts";
import { testWith } from "../_permissions.ts";
import { APP_NEEDS, type Line, type RunningApp, runToEnd, spawnApp } from "./_app.ts";

const ENV = {
  MESSENGER_SECRET_TOKEN: MESSENGER_SECRET,
  MESSENGER_ALLOWED_USERS: "42",
  KV_URL: ":memory:",
};

const update = (updateId: number, userId: number) =>
  messengerUpdate({ update_id: updateId, message: { from: { id: userId }, text: "hi" } });

const isHandled = (line: Line) => line.message === "event handled";

async function post(app: RunningApp, init: RequestInit): Promise<[number, string]> {
  const response = await fetch(`${await app.url}/webhook`, init);
  return [response.status, await response.text()];
}

Deno.test("apps/messenger.ts starts nothing when it is imported", async () => {
  const { default: app } = await import("../../apps/messenger.ts");
  assertEquals(app.definition.name, "messenger");
});

testWith(APP_NEEDS, "apps/messenger.ts hands an allowed user's update to its handler", async () => {
  await using app = spawnApp("messenger", ENV);
  assertEquals(await post(app, update(1, 42)), [200, "OK"]);
  const { platform, type, eventId, deliveryId, attempt } = await app.line(isHandled);
  assertEquals([platform, type, eventId, deliveryId, attempt], [
    ...["messenger", "message", "messenger:1", "1", 1],
  ]);
});

testWith(
  APP_NEEDS,
  "apps/messenger.ts logs which event a request has brought, and again",
  async () => {
    await using app = spawnApp("messenger", ENV);
    for (let i = 0; i < 2; i++) await post(app, update(7, 42));
    await app.line(({ duplicate }) => duplicate === true);
    const requests = app.lines.filter(({ message }) => message === "request");
    assertEquals(requests.map(({ eventId, duplicate }) => [eventId, duplicate]), [
      ["messenger:7", false],
      ["messenger:7", true],
    ]);
  },
);

testWith(APP_NEEDS, "apps/messenger.ts answers 403 to a user who is not allowed", async () => {
  await using app = spawnApp("messenger", ENV);
  assertEquals(await post(app, update(1, 43)), [403, `{"error":"User not authorized"}`]);
});

testWith(
  APP_NEEDS,
  "apps/messenger.ts takes an allowed user's update whatever others send",
  async () => {
    await using app = spawnApp("messenger", ENV);
    for (let i = 0; i < 120; i++) await post(app, update(i, 43));
    assertEquals(await post(app, update(1_000, 42)), [200, "OK"]);
  },
);

testWith(APP_NEEDS, "apps/messenger.ts allows nobody without a list, and says so", async () => {
  await using app = spawnApp("messenger", { ...ENV, MESSENGER_ALLOWED_USERS: " " });
  assertEquals((await post(app, update(1, 42)))[0], 403);
  const { message } = await app.line(({ level }) => level === "warn");
  assertEquals(
    message,
    "MESSENGER_ALLOWED_USERS is empty: no user is allowed. Write to the bot, set " +
      "MESSENGER_ALLOWED_USERS to the userId in the log's warning about that, and restart; or set " +
      "it to * to allow everybody",
  );
});

testWith(APP_NEEDS, "apps/messenger.ts logs whom it has refused, by their id", async () => {
  await using app = spawnApp("messenger", ENV);
  await post(app, update(1, 43));
  const isRefusal = (line: Line) => line.message === "delivery refused: User not authorized";
  const { level, code, userId, chatId } = await app.line(isRefusal);
  assertEquals([level, code, userId, chatId], ["warn", "AUTH_001", 43, undefined]);
});

const BAD_START: readonly [string, Record<string, string>, RegExp][] = [
  ["its secret token is missing", {}, /MESSENGER_SECRET_TOKEN is not set/],
  ["its secret token is blank", { MESSENGER_SECRET_TOKEN: " " }, /MESSENGER_SECRET_TOKEN is blank/],
  [
    "its secret token ends with a line break",
    { MESSENGER_SECRET_TOKEN: "long-enough-a-token\n" },
    /^Cannot start messenger: MESSENGER_SECRET_TOKEN begins or ends with white space/,
  ],
  ["a user is no id", { ...ENV, MESSENGER_ALLOWED_USERS: "42,@ada" }, /entry 2 is neither/],
];

for (const [when, env, expected] of BAD_START) {
  testWith(APP_NEEDS, `apps/messenger.ts does not start when ${when}`, async () => {
    const { code, stderr } = await runToEnd("messenger", env);
    assertEquals(code, 1);
    assertMatch(stderr, /^Cannot start messenger: [^\n]+$/);
    assertMatch(stderr, expected);
  });
}
