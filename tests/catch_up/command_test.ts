import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { freePort } from "../../dev/harness/free_port.ts";
import { startApp } from "../../dev/harness/start_app.ts";
import { openEventStore } from "../../events/mod.ts";
import { TEST_SECRETS } from "../../testing/mod.ts";
import { runHere } from "../cli/_cli.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { FakeGithub, GITHUB_TOKEN } from "./_fake_github.ts";

const env = (name: string) => name === "GITHUB_TOKEN" ? GITHUB_TOKEN : undefined;

testWith(
  ["net", "read", "write", "run", "env"],
  "events catch-up gets what failed while the app was down, once",
  () =>
    withFolder(async (folder) => {
      await using github = new FakeGithub("https://bot.test/webhook");
      for (const guid of ["d1", "d2", "d3"]) github.pushOld(guid, 502);
      const port = freePort();
      const kv = `${folder}/kv.db`;
      await using app = startApp({
        script: new URL("../../apps/forge.ts", import.meta.url),
        flags: ["-A", "--unstable-kv"],
        env: { PORT: String(port), KV_URL: kv, FORGE_WEBHOOK_SECRET: TEST_SECRETS.signing },
      });
      await app.url;
      github.app = `http://127.0.0.1:${port}/webhook`;
      const args = ["events", "catch-up", "--repo", "acme/site", "--since", "2h", "--kv", kv];
      const run = () =>
        runHere([...args, "--intake", "forge", "--api", github.url, "--pace", "400", "--json"], {
          env,
        });
      const start = performance.now();
      const first = await run();
      // Two pauses between three requests, longer than those by default.
      assert(performance.now() - start >= 790);
      assertEquals([first.code, JSON.parse(first.out[0]!).asked], [0, ["d1", "d2", "d3"]]);
      const second = await run();
      assertEquals(JSON.parse(second.out[0]!).asked, []);
      const { out } = await runHere(["events", "list", "--json", "--kv", kv]);
      assertEquals(out.map((line) => JSON.parse(line).id), ["forge:d1", "forge:d2", "forge:d3"]);
      assertEquals(github.deviations, []);
    }),
);

testWith(
  ["read", "write"],
  "events catch-up says what is wrong in its command line",
  () =>
    withFolder(async (folder) => {
      const path = `${folder}/kv.db`;
      using kv = await Deno.openKv(path);
      await openEventStore(kv, { namespace: "bot" });
      for (
        const [args, message] of [
          ["--repo acme/site", "--since 2h"],
          ["--since 2h", "one of --repo"],
          ["--since 2h --repo acme", "--repo must be owner/name"],
          ["--since 2h --github-app --hook 7", "an app has one webhook"],
          ["--since 2h --repo acme/site --pace 60001", "--pace must be a number from 0 to 60000"],
          ["--since 2h --repo acme/site", "set GITHUB_TOKEN"],
          ["--since 2h --repo acme/site --api http://example.com", "--api must begin with https:"],
        ] as const
      ) {
        const { code, err } = await runHere([
          "events",
          "catch-up",
          ...args.split(" "),
          "--kv",
          path,
        ]);
        assertEquals(code, 2);
        assertStringIncludes(err.join(), message);
      }
    }),
);
