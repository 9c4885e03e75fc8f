import { assertEquals, assertMatch } from "@std/assert";
import { runDeno } from "../../dev/harness/run.ts";
import { FORGE_SECRET } from "../_deliveries.ts";
import { testWith } from "../_permissions.ts";
import { APP_NEEDS, spawnApp } from "../apps/_app.ts";

/** Runs the check as the images do, and returns its exit code and output. */
async function check(url: string, ...expected: string[]): Promise<[number, string]> {
  const script = new URL("../../deploy/health.ts", import.meta.url).href;
  const { host } = new URL(url);
  const flags = ["--cached-only", "--quiet", "--no-config", `--allow-net=${host}`];
  const args = ["run", ...flags, script, url, ...expected];
  const { code, stderr } = await runDeno(args, { env: { NO_COLOR: "1" } });
  return [code, stderr];
}

testWith(
  APP_NEEDS,
  "deploy/health.ts ends with 0 while an app is alive, and then with 1",
  async () => {
    let url = "";
    {
      await using app = spawnApp("forge", {
        FORGE_WEBHOOK_SECRET: FORGE_SECRET,
        KV_URL: ":memory:",
      });
      url = `${await app.url}/health/live`;
      assertEquals(await check(url), [0, ""]);
    }
    const [code, line] = await check(url);
    assertEquals(code, 1);
    assertMatch(line, /^http:\/\/127\.0\.0\.1:\d+\/health\/live is not healthy: [^\n]+$/);
  },
);

testWith(
  APP_NEEDS,
  "deploy/health.ts accepts the status that it is given, and no other",
  async () => {
    await using app = spawnApp("forge", { FORGE_WEBHOOK_SECRET: FORGE_SECRET, KV_URL: ":memory:" });
    const url = `${await app.url}/webhook`;
    assertEquals(await check(url, "405"), [0, ""]);
    assertEquals(await check(url), [1, `${url} is not healthy: it answers 405`]);
  },
);
