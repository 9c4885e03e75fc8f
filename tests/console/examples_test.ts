import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { exampleSender } from "../../console/_examples.ts";
import { ParameterError } from "../../console/_query.ts";
import { github, telegram } from "../../mod.ts";
import { openBoard, OPERATOR } from "./_board.ts";

const PLATFORMS = [github(), telegram()];

/** Makes a sender of examples, and notes what it sends. */
function senderOf() {
  const bodies: string[] = [];
  const variable = (name: string) => name.endsWith("_TOKEN") ? "a_token" : "a secret";
  const sender = exampleSender(PLATFORMS, variable, async (request) => {
    bodies.push(await request.text());
    return new Response("OK");
  });
  return { sender, bodies };
}

Deno.test("an update that is sent has one number, its own or a new one", async () => {
  const { sender, bodies } = senderOf();
  for (const payload of ["{}", ' { "message": {} }', '{"update_id": 7, "message": {}}']) {
    const { eventId } = await sender.send("telegram", "message", payload);
    const update = JSON.parse(bodies.at(-1)!);
    assertEquals(eventId, `telegram:${update.update_id}`);
  }
  assertEquals(JSON.parse(bodies[2]!), { update_id: 7, message: {} });
});

Deno.test("only examples that there are can be sent", async () => {
  const { sender } = senderOf();
  for (
    const [platform, type] of [["github", "日本"], ["github", ""], ["gitlab", "push"]] as const
  ) {
    await assertRejects(() => sender.send(platform, type, "{}"), ParameterError);
  }
  await using board = await openBoard({ examples: sender });
  const Cookie = await board.login();
  const fields = { platform: "github", type: "", payload: "{}" };
  assertEquals((await board.post("/send", fields, { Cookie })).status, 400);
});

Deno.test("a payload that was sent stays in the form", async () => {
  const { sender } = senderOf();
  await using board = await openBoard({ examples: sender });
  const Cookie = await board.login(OPERATOR);
  const fields = { platform: "github", type: "push", payload: '{"mine": 1' };
  const html = await (await board.post("/send", fields, { Cookie })).text();
  assertStringIncludes(html, "{&quot;mine&quot;: 1</textarea>");
});
