/** Catching up by a schedule of the app. */
import { assertEquals } from "@std/assert";
import { catchUp, type CatchUpResult } from "../../catch_up/mod.ts";
import { defineApp, github, required } from "../../mod.ts";
import { forgeDelivery, startTestBot } from "../../testing/mod.ts";
import { testWith } from "../_permissions.ts";
import { FakeGithub, GITHUB_TOKEN } from "./_fake_github.ts";

testWith(["net", "read", "env"], "a schedule of an app catches up", async () => {
  await using hosted = new FakeGithub("https://bot.test/webhook");
  const results: CatchUpResult[] = [];
  const bot = defineApp({ name: "bot", platform: github(), env: { GITHUB_TOKEN: required } });
  bot.on("push", () => {});
  bot.schedule("catch-up", "*/15 * * * *", async (_slot, { store, env, signal }) => {
    results.push(
      await catchUp(store, {
        hooks: [{ repository: "acme/site" }],
        github: { token: env.GITHUB_TOKEN, api: hosted.url },
        ...{ sinceMs: 2 * 3_600_000, paceMs: 0, signal },
      }),
    );
  });
  await using test = await startTestBot(bot, { env: { GITHUB_TOKEN: GITHUB_TOKEN } });
  await test.deliver(forgeDelivery("push", { ref: "refs/heads/main" }, { id: "d1" }));
  hosted.pushOld("d1", 503);
  hosted.pushOld("d2", 503);
  await test.run("catch-up");
  assertEquals(results.map(({ asked, stored }) => [asked, stored]), [[["d2"], ["d1"]]]);
  assertEquals(hosted.deviations, []);
});
