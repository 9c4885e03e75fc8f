import { assert, assertEquals, assertMatch } from "@std/assert";
import { runToEnd } from "../../dev/harness/start_app.ts";
import { bot } from "../../examples/github_bot.ts";
import { forgeDelivery, startTestBot, TEST_SECRETS, type TestBot } from "../../testing/mod.ts";
import { testWith } from "../_permissions.ts";
import {
  APP_ID,
  type Github,
  type GithubTrouble,
  PRIVATE_KEY,
  privateKey,
  refusal,
  startGithub,
} from "./_github.ts";
import { optionsOf, startExample } from "./_run_bot.ts";
import type { ApiCall } from "./_stand_in.ts";

const PATH = "/repos/octo/app/issues/7";

const sent = (type: string, payload: object, installation = 5) =>
  forgeDelivery(type, {
    ...{ repository: { id: 1, full_name: "octo/app" }, installation: { id: installation } },
    ...{ sender: { id: 42, login: "ada", type: "User" }, ...payload },
  });

const issue = (title: string, installation?: number) =>
  sent("issues", { action: "opened", issue: { number: 7, title } }, installation);

const comment = (body: string, type = "User") =>
  sent("issue_comment", {
    ...{ action: "created", issue: { number: 7 }, sender: { id: 42, login: "ada", type } },
    comment: { body, created_at: "2026-01-01T00:00:00Z" },
  });

const envOf = (api: Github, key = PRIVATE_KEY) => ({
  ...{ GITHUB_APP_ID: APP_ID, GITHUB_APP_PRIVATE_KEY: key, GITHUB_API_URL: api.url },
});

/** Tests the bot in this process, against a stand-in for GitHub's API. */
function testBot(
  name: string,
  trouble: GithubTrouble,
  fn: (test: TestBot, api: Github) => Promise<void>,
  key?: string,
): void {
  testWith(["net"], `examples/github_bot.ts ${name}`, async () => {
    await using api = startGithub(trouble);
    await using test = await startTestBot(bot, { env: envOf(api, key) });
    await fn(test, api);
  });
}

/** Answers the first call that matches. */
function once(isIt: (call: ApiCall) => boolean, response: () => Response) {
  let isOver = false;
  return (call: ApiCall) => {
    if (isOver || !isIt(call)) return undefined;
    isOver = true;
    return response();
  };
}

const isPost = ({ method, path }: ApiCall) => method === "POST" && path.startsWith("/repos/");

testBot("labels an issue by its title, as the installation", {}, async (test, api) => {
  const { event } = await test.deliver(issue("It does crash"));
  assertEquals([event?.outcome, api.labels], ["handled", ["bug"]]);
  assertEquals(api.asked, [`POST ${PATH}/labels ghs_5`]);
});

testBot("makes a token for each installation, once", {}, async (test, api) => {
  for (const installation of [5, 6, 5, 6]) await test.deliver(issue("It is broken", installation));
  assertEquals(api.installations, ["5", "6"]);
  assertEquals(api.asked.map((each) => each.slice(-5)), ["ghs_5", "ghs_6", "ghs_5", "ghs_6"]);
});

testBot("leaves alone what is not for it", {}, async (test, api) => {
  await test.deliver(comment("/help", "Bot"));
  await test.deliver(comment("thanks"));
  await test.deliver(issue("Documentation"));
  await test.deliver(sent("issues", { action: "closed", issue: { number: 7, title: "crash" } }));
  assertEquals(api.calls, []);
});

testBot("answers a comment, with a mark", {}, async (test, api) => {
  await test.deliver(comment("/help me"));
  assertEquals(api.asked, [`POST ${PATH}/comments ghs_5`]);
  assertMatch(api.comments[0]!, /^Help is on its way\.\n<!-- [0-9a-f-]{36} -->$/);
});

const lost = { after: once(isPost, () => new Response("<html>", { status: 502 })) };

testBot("answers a comment once, also where the answer is lost", lost, async (test, api) => {
  const { event } = await test.deliver(comment("/help"), { expectFailure: true });
  assertEquals([event?.state, api.comments.length], ["queued", 1]);
  await test.advance(2_000);
  assertEquals((await test.store.get(event!.id))?.outcome, "handled");
  assertEquals(api.asked.map((each) => each.split(" ")[0]), ["POST", "GET"]);
  assertEquals(api.comments.length, 1);
});

for (const status of [404, 410]) {
  const trouble = {
    before: (call: ApiCall) => isPost(call) ? refusal(status, "Gone it is") : undefined,
  };
  testBot(`gives up an issue that is gone: ${status}`, trouble, async (test, api) => {
    const { event } = await test.deliver(issue("crash"), { expectFailure: true });
    assertEquals([event?.state, event?.attempt, api.calls.length], ["dead", 1, 2]);
    assertMatch(event?.attempts.at(-1)?.error ?? "", /Gone it is/);
  });
}

const removed = { before: () => refusal(404, "Integration not found") };

testBot("gives up events of an installation that is removed", removed, async (test) => {
  const { event } = await test.deliver(issue("crash"), { expectFailure: true });
  assertEquals([event?.state, event?.attempt], ["dead", 1]);
});

for (const status of [403, 429]) {
  const limited = () => refusal(status, "You have exceeded a rate limit", { "Retry-After": "60" });
  testBot(
    `puts an event off for as long as a rate limit lasts: ${status}`,
    { before: once(isPost, limited) },
    async (test, api) => {
      const { event } = await test.deliver(issue("crash"));
      assertEquals([event?.state, event?.attempt, event?.delayMs], ["queued", 0, 60_000]);
      await test.advance(50_000);
      assertEquals(api.calls.length, 2);
      await test.advance(10_000);
      assertEquals(api.labels, ["bug"]);
    },
  );
}

/** Headers of GitHub's primary rate limit: the requests that are left until it is reset. */
const quota = (remaining: number) => ({
  "X-RateLimit-Limit": "5000",
  "X-RateLimit-Remaining": String(remaining),
  "X-RateLimit-Reset": String(Math.floor(Date.now() / 1_000) + 1_800),
});

for (const status of [403, 429]) {
  const limited = () => refusal(status, "API rate limit exceeded for installation", quota(0));
  testBot(
    `puts an event off until the primary rate limit is reset: ${status}`,
    { before: once(isPost, limited) },
    async (test, api) => {
      const { event } = await test.deliver(issue("crash"));
      assertEquals([event?.state, event?.attempt], ["queued", 0]);
      await test.advance(1_700_000);
      assertEquals(api.calls.length, 2);
      // GitHub's times are whole seconds, and the clock in its answers may be one behind.
      await test.advance(102_000);
      assertEquals(api.labels, ["bug"]);
    },
  );
}

const forbidden = {
  before: once(
    isPost,
    () => refusal(403, "Resource not accessible by integration", quota(4_999)),
  ),
};

testBot("does not take a lack of rights for a rate limit", forbidden, async (test) => {
  const { event } = await test.deliver(issue("crash"), { expectFailure: true });
  assertEquals([event?.state, event?.attempt], ["queued", 1]);
});

testBot("is refused with another key, and does not log it", {}, async (test, api) => {
  const { event } = await test.deliver(issue("crash"), { expectFailure: true });
  assertEquals([event?.state, api.asked], ["queued", []]);
  assertEquals(JSON.stringify(test.logs).includes("PRIVATE KEY"), false);
}, privateKey());

const NEEDS = ["net", "read", "write", "run", "env"] as const;

const SECRET = { GITHUB_WEBHOOK_SECRET: TEST_SECRETS.signing };

testWith(NEEDS, "examples/github_bot.ts runs as its header says, behind a proxy", async () => {
  await using api = startGithub();
  const env = { ...envOf(api), ...SECRET, TRUSTED_PROXY_HOPS: "1" };
  await using app = await startExample("github_bot.ts", env);
  const delivery = comment("/help");
  delivery.headers.set("X-Forwarded-For", "203.0.113.9, 198.51.100.7");
  assertEquals(await (await fetch(`${await app.url}/webhook`, delivery)).text(), "OK");
  assertEquals((await app.line(({ message }) => message === "request")).ip, "198.51.100.7");
  await api.until(2); // a token, and the comment
  assertEquals(api.comments.length, 1);
  assertEquals(await app.stop(), 0);
});

testWith(NEEDS, "examples/github_bot.ts stops while GitHub does not answer", async () => {
  const never = Promise.withResolvers<void>();
  const hangs = new Response(new ReadableStream({ pull: () => never.promise }));
  await using api = startGithub({ before: (call) => isPost(call) ? hangs : undefined });
  {
    await using app = await startExample("github_bot.ts", { ...envOf(api), ...SECRET });
    assertEquals(await (await fetch(`${await app.url}/webhook`, issue("crash"))).text(), "OK");
    await api.until(2);
    const start = performance.now();
    assertEquals(await app.stop(), 0);
    assert(performance.now() - start < 3_500, "the grace of 4 s has passed");
  }
  never.resolve();
});

testWith(NEEDS, "examples/github_bot.ts names all variables that are missing", async () => {
  const { code, stderr } = await runToEnd(await optionsOf("github_bot.ts", {}));
  assertEquals([code, stderr], [
    1,
    "Cannot start github-bot: GITHUB_WEBHOOK_SECRET is not set; GITHUB_APP_ID is not set; " +
    "GITHUB_APP_PRIVATE_KEY is not set",
  ]);
});
