import { assertEquals, assertMatch } from "@std/assert";
import { startApp } from "../../dev/harness/start_app.ts";
import { forgeDelivery, TEST_SECRETS } from "../../testing/mod.ts";
import { testWith } from "../_permissions.ts";
import { type ApiCall, type StandIn, startStandIn } from "./_stand_in.ts";

const NEEDS = ["net", "read", "write", "run", "env"] as const;

type Deliver = (type: string, payload: object) => Promise<void>;

const repository = { id: 1, full_name: "octo/app" };
const issue = (title: string) => ({
  action: "opened",
  issue: { number: 7, title },
  repository,
  sender: { id: 42, login: "ada", type: "User" },
});
const comment = (body: string, type = "User") => ({
  ...{ action: "created", issue: { number: 7 }, repository },
  comment: { body, created_at: "2026-01-01T00:00:00Z" },
  sender: { id: 42, login: "ada", type },
});

/** Runs the bot in a process of its own, against a stand-in of the forge's API. */
function testBot(
  name: string,
  answer: (call: ApiCall) => Response | undefined,
  fn: (deliver: Deliver, api: StandIn) => Promise<void>,
): void {
  testWith(NEEDS, `examples/forge_bot.ts ${name}`, async () => {
    await using api = startStandIn(answer);
    await using bot = startApp({
      script: new URL("../../examples/forge_bot.ts", import.meta.url),
      env: {
        FORGE_WEBHOOK_SECRET: TEST_SECRETS.signing,
        FORGE_API_URL: api.url,
        FORGE_API_TOKEN: "a-token-of-the-api",
        KV_URL: ":memory:",
      },
      text: true,
    });
    const url = `${await bot.url}/webhook`;
    await fn(async (type, payload) => {
      const response = await fetch(url, forgeDelivery(type, payload));
      assertEquals([response.status, await response.text()], [200, "OK"]);
    }, api);
    assertEquals(await bot.stop(), 0);
  });
}

const nothing = () => undefined;

testBot("labels an issue by the words of its title", nothing, async (deliver, api) => {
  await deliver("issues", issue("Why does it crash?"));
  await api.until(1);
  const { method, path, authorization, body } = api.calls[0]!;
  assertEquals([method, path], ["POST", "/repos/octo/app/issues/7/labels"]);
  assertEquals([authorization, body], ["Bearer a-token-of-the-api", {
    labels: ["bug", "question"],
  }]);
});

const comments: { body: string }[] = [];
const failsOnce = ({ method, body }: ApiCall) => {
  if (method === "GET") return Response.json(comments);
  return comments.push(body) === 1 ? new Response(null, { status: 500 }) : undefined;
};

testBot(
  "answers a comment once, also where the answer is lost",
  failsOnce,
  async (deliver, api) => {
    await deliver("issue_comment", comment("/help me"));
    await api.until(3);
    assertEquals(api.calls.map(({ method }) => method), ["GET", "POST", "GET"]);
    assertEquals(comments.length, 1);
    assertMatch(comments[0]!.body, /^Help is on its way, @ada\.\n<!-- [0-9a-f-]{36} -->$/);
  },
);

testBot("leaves alone what is not for it", nothing, async (deliver, api) => {
  await deliver("issue_comment", comment("/help", "Bot"));
  await deliver("issue_comment", comment("thanks"));
  await deliver("issues", issue("Documentation"));
  await deliver("issues", { ...issue("It is broken"), action: "closed" });
  await deliver("push", { ref: "refs/heads/main" });
  await deliver("issues", issue("It is broken"));
  await api.until(1);
  assertEquals(api.calls.map(({ body }) => body), [{ labels: ["bug"] }]);
});
