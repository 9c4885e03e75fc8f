import { assertEquals, assertStringIncludes } from "@std/assert";
import { publishHere } from "../../dev/tools/_publish_here.ts";
import { dependenciesOf, reachableFrom } from "../../dev/tools/_published_modules.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { run } from "./_installed.ts";
import { QUICKLY } from "./_packages.ts";

const NEEDS = ["net", "read", "write", "run", "env"] as const;

testWith(
  NEEDS,
  "the package is published with its own dependencies, and no stand-ins",
  async () => {
    await publishHere(({ publication: { exports, files } }) => {
      assertEquals(dependenciesOf(files), [
        "jsr:@hono/hono@^4.13.0",
        "jsr:@std/crypto@^1.0.0",
        "npm:@grammyjs/types@^5.0.0",
        "npm:@octokit/openapi-webhooks-types@^12.2.0",
        "npm:@opentelemetry/api@^1.9.0",
        "npm:@slack/types@^3.2.0",
        "npm:croner@^11.0.1",
        "npm:pg@^8.23.1",
      ]);
      const needed = reachableFrom(Object.values(exports), files);
      const others = [...files.keys()].filter((path) => !needed.has(path))
        .filter((path) => !/^\/docs\/(?:[a-z]+\.md|images\/[a-z-]+\.png)$/.test(path));
      assertEquals(others.sort(), [
        "/CHANGELOG.md",
        "/LICENSE",
        "/README.md",
        "/SECURITY.md",
        "/deno.json",
        "/dev/bench/results.svg",
        "/examples/grafana/edge_base.json",
        "/examples/prometheus/alerts.yml",
        "/llms-full.txt",
        "/llms.txt",
      ]);
      return Promise.resolve();
    }, QUICKLY);
  },
);

testWith(NEEDS, "the package runs on Deno as JSR hands it out", async () => {
  await publishHere(({ url }) =>
    withFolder(async (folder) => {
      const use = `
        import { createBaseApp } from "jsr:@org/edge-base";
        import { verifySignature } from "jsr:@org/edge-base/webhook";
        const app = createBaseApp({ name: "user", logger: false });
        console.log((await app.request("/health/ready")).status, verifySignature("", "", ""));`;
      await Deno.writeTextFile(`${folder}/use.ts`, use);
      const env = { JSR_URL: url, NO_COLOR: "1" };
      const deno = (...args: string[]) => run(folder, env, Deno.execPath(), ...args);
      assertStringIncludes(await deno("run", "--quiet", "--no-lock", "use.ts"), "200 false");
      const help = await deno("run", "--quiet", "-A", "jsr:@org/edge-base/cli", "send", "--help");
      assertStringIncludes(help, "send");
    }), QUICKLY);
});
