import { assertEquals } from "@std/assert";
import { runDeno } from "../../dev/harness/run.ts";
import { startApp } from "../../dev/harness/start_app.ts";
import { FORGE_SECRET } from "../_deliveries.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { APP_NEEDS } from "../apps/_app.ts";
import { deliver } from "../apps/_deliver.ts";

const ROOT = new URL("../../", import.meta.url);

testWith(APP_NEEDS, "an app that was made one file takes deliveries and handles them", async () => {
  await withFolder(async (folder) => {
    const file = `${folder}/forge.js`;
    const args = ["bundle", "--quiet", "--minify", "--output", file, "apps/forge.ts"];
    const { code, stderr } = await runDeno(args, { cwd: ROOT });
    assertEquals(code, 0, stderr);
    await using app = startApp({
      script: file,
      flags: ["--unstable-kv", "-A"],
      env: { KV_URL: `${folder}/kv.db`, FORGE_WEBHOOK_SECRET: FORGE_SECRET },
    });
    assertEquals((await deliver(app, "d1")).status, 200);
    await app.line(({ message, deliveryId }) => message === "event handled" && deliveryId === "d1");
    assertEquals([await app.stop(), await app.ended], [0, ""]);
  });
});
