import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import messenger from "../../apps/messenger.ts";
import { startApp } from "../../mod.ts";
import { MESSENGER_SECRET, messengerUpdate } from "../_deliveries.ts";
import { testWith } from "../_permissions.ts";
import { APP_NEEDS, type Line, spawnApp } from "./_app.ts";
import { answerTo } from "./_deliver.ts";

const ENV = {
  MESSENGER_SECRET_TOKEN: MESSENGER_SECRET,
  MESSENGER_ALLOWED_USERS: "42",
  KV_URL: ":memory:",
};

const update = (updateId: number, userId: number) =>
  messengerUpdate({ update_id: updateId, message: { from: { id: userId }, text: "hi" } });

const isHandled = (line: Line) => line.message === "event handled";

Deno.test("apps/messenger.ts starts nothing when it is imported", () => {
  assertEquals(messenger.definition.name, "messenger");
});

testWith(
  APP_NEEDS,
  "apps/messenger.ts hands an allowed user's update to its handler, and logs it, also again",
  async () => {
    await using app = spawnApp("messenger", ENV);
    for (let i = 0; i < 2; i++) assertEquals(await answerTo(app, update(7, 42)), [200, "OK"]);
    const { platform, type, eventId, deliveryId, attempt } = await app.line(isHandled);
    assertEquals([platform, type, eventId, deliveryId, attempt], [
      ...["messenger", "message", "messenger:7", "7", 1],
    ]);
    await app.line(({ duplicate }) => duplicate === true);
    const requests = app.lines.filter(({ message }) => message === "request");
    assertEquals(requests.map(({ eventId, duplicate }) => [eventId, duplicate]), [
      ["messenger:7", false],
      ["messenger:7", true],
    ]);
  },
);

testWith(
  APP_NEEDS,
  "apps/messenger.ts answers 403 to users who are not allowed, logs their ids, and takes others",
  async () => {
    await using app = spawnApp("messenger", ENV);
    assertEquals(await answerTo(app, update(0, 43)), [403, `{"error":"User not authorized"}`]);
    for (let i = 1; i < 120; i++) await answerTo(app, update(i, 43));
    assertEquals(await answerTo(app, update(1_000, 42)), [200, "OK"]);
    const isRefusal = (line: Line) => line.message === "delivery refused: User not authorized";
    const { level, code, userId, chatId } = await app.line(isRefusal);
    assertEquals([level, code, userId, chatId], ["warn", "AUTH_001", 43, undefined]);
  },
);

testWith(APP_NEEDS, "apps/messenger.ts allows nobody without a list, and says so", async () => {
  await using app = spawnApp("messenger", { ...ENV, MESSENGER_ALLOWED_USERS: " " });
  assertEquals((await answerTo(app, update(1, 42)))[0], 403);
  const { message } = await app.line(({ level }) => level === "warn");
  assertEquals(
    message,
    "MESSENGER_ALLOWED_USERS is empty: no user is allowed. Write to the bot, set " +
      "MESSENGER_ALLOWED_USERS to the userId in the log's warning about that, and restart; or set " +
      "it to * to allow everybody",
  );
});

const BAD_START: readonly [string, Record<string, string>, RegExp][] = [
  ["its secret token is missing", {}, /MESSENGER_SECRET_TOKEN is not set/],
  ["its secret token is blank", { MESSENGER_SECRET_TOKEN: " " }, /MESSENGER_SECRET_TOKEN is blank/],
  [
    "its secret token ends with a line break",
    { MESSENGER_SECRET_TOKEN: "long-enough-a-token\n" },
    /^MESSENGER_SECRET_TOKEN begins or ends with white space/,
  ],
  ["a user is no id", { ...ENV, MESSENGER_ALLOWED_USERS: "42,@ada" }, /entry 2 is neither/],
];

for (const [when, env, expected] of BAD_START) {
  testWith(APP_NEEDS, `apps/messenger.ts does not start when ${when}`, async () => {
    const { message } = await assertRejects(
      () => startApp(messenger, { env, log: () => {} }),
      Error,
    );
    assertMatch(message, expected);
  });
}
