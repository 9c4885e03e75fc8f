import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { consoleMount } from "../../console/mod.ts";
import { ParameterError } from "../../console/_http.ts";
import { type ExampleParts, ExampleSender, sendAnswers } from "../../console/_send_page.ts";
import { defineApp, github, type Platform, slack, standard, stripe, telegram } from "../../mod.ts";
import { startTestBot, TEST_SECRETS } from "../../testing/mod.ts";
import { SLACK_EXAMPLES } from "../../testing/slack_delivery.ts";
import { STRIPE_EXAMPLES } from "../../testing/stripe_delivery.ts";
import { openBoard, OPERATOR } from "./_board.ts";

const PLATFORMS = [github(), telegram()];

/** Makes what examples are sent with, and notes what is sent. */
function partsOf(): { parts: ExampleParts; bodies: string[] } {
  const bodies: string[] = [];
  const parts: ExampleParts = {
    platforms: PLATFORMS,
    variable: (name) => name.endsWith("_TOKEN") ? "a_token" : "a secret",
    async fetch(request) {
      bodies.push(await request.text());
      return new Response("OK");
    },
  };
  return { parts, bodies };
}

Deno.test("an update that is sent has one number, its own or a new one", async () => {
  const { parts, bodies } = partsOf();
  const sender = new ExampleSender(parts);
  for (const payload of ["{}", ' { "message": {} }', '{"update_id": 7, "message": {}}']) {
    const { eventId } = await sender.send("telegram", "message", payload);
    const update = JSON.parse(bodies.at(-1)!);
    assertEquals(eventId, `telegram:${update.update_id}`);
  }
  assertEquals(JSON.parse(bodies[2]!), { update_id: 7, message: {} });
});

const SENT: readonly (readonly [Platform, Readonly<Record<string, object>>])[] = [
  [slack(), SLACK_EXAMPLES],
  [stripe(), STRIPE_EXAMPLES],
];

for (const [platform, examples] of SENT) {
  Deno.test(`the examples of ${platform.name} are taken, by the id that is shown`, async () => {
    await using test = await startTestBot(defineApp({ name: "my-bot", platform }));
    const secrets = { SLACK_SIGNING_SECRET: "signing", STRIPE_WEBHOOK_SECRET: "gitlab" } as const;
    const sender = new ExampleSender({
      platforms: [platform],
      variable: (name) => TEST_SECRETS[secrets[name as keyof typeof secrets]],
      fetch: async (request) => {
        const { method, headers } = request;
        return await test.fetch("/webhook", { method, headers, body: await request.text() });
      },
    });
    for (const [type, example] of Object.entries(examples)) {
      const payload = JSON.stringify({ ...platform.name === "stripe" && { type }, ...example });
      const { response, eventId } = await sender.send(platform.name, type, payload);
      await response.body?.cancel();
      assertEquals([response.status, (await test.store.get(eventId))?.type], [200, type]);
    }
    const { response } = await sender.send(platform.name, Object.keys(examples)[0]!, "{");
    await response.body?.cancel();
    assertEquals(response.status, 400);
  });
}

Deno.test("an app whose platforms have no examples is not offered to send any", async () => {
  const { parts } = partsOf();
  const others: ExampleParts = { ...parts, platforms: [standard({ name: "shop" })] };
  assertEquals(sendAnswers(others), undefined);
  const platforms = [github(), standard({ name: "shop", path: "/shop" })];
  const both = new ExampleSender({ ...parts, platforms });
  await assertRejects(
    () => both.send("shop", "user.created", "{}"),
    ParameterError,
    "'platform' must be one that the console signs for: github",
  );
});

for (
  const [platform, isOffered] of [[standard({ name: "shop" }), false], [github(), true]] as const
) {
  Deno.test(`in development, programs are ${isOffered ? "" : "not "}offered to send to ${platform.name}`, async () => {
    const bot = defineApp({ name: "bot", platform, mounts: [consoleMount()] });
    const env = { CONSOLE_OPERATOR_TOKEN: OPERATOR, CONSOLE_ENVIRONMENT: "development" };
    await using test = await startTestBot(bot, { env });
    const headers = { Authorization: `Bearer ${OPERATOR}` };
    const { you } = await (await test.fetch("/console/api", { headers })).json();
    assertEquals("send" in you.acts, isOffered);
  });
}

Deno.test("only examples that there are can be sent", async () => {
  const { parts } = partsOf();
  const sender = new ExampleSender(parts);
  for (
    const [platform, type] of [["github", "日本"], ["github", ""], ["gitlab", "push"]] as const
  ) {
    await assertRejects(() => sender.send(platform, type, "{}"), ParameterError);
  }
  await using board = await openBoard({ sending: sendAnswers(parts) });
  const Cookie = await board.login();
  const fields = { platform: "github", type: "", payload: "{}" };
  assertEquals((await board.post("/send", fields, { Cookie })).status, 400);
});

Deno.test("a payload that was sent stays in the form", async () => {
  const { parts } = partsOf();
  await using board = await openBoard({ sending: sendAnswers(parts) });
  const Cookie = await board.login(OPERATOR);
  const fields = { platform: "github", type: "push", payload: '{"mine": 1' };
  const html = await (await board.post("/send", fields, { Cookie })).text();
  assertStringIncludes(html, "{&quot;mine&quot;: 1</textarea>");
});
