import { assertEquals } from "@std/assert";
import { FORGE_SECRET } from "../_deliveries.ts";
import { withFolder } from "../_folder.ts";
import { environmentOf } from "../_inherited_env.ts";
import { testWith } from "../_permissions.ts";
import { APP_NEEDS } from "../apps/_app.ts";
import { deliver } from "../apps/_deliver.ts";
import { follow } from "../apps/_follow.ts";

const ROOT = new URL("../../", import.meta.url);

testWith(APP_NEEDS, "an app that was made one file takes deliveries and handles them", async () => {
  await withFolder(async (folder) => {
    const file = `${folder}/forge.js`;
    const bundling = new Deno.Command(Deno.execPath(), {
      args: ["bundle", "--quiet", "--minify", "--output", file, "apps/forge.ts"],
      cwd: ROOT,
      stdout: "null",
      stderr: "piped",
    });
    const { code, stderr } = await bundling.output();
    assertEquals(code, 0, new TextDecoder().decode(stderr));
    await using app = follow(
      new Deno.Command(Deno.execPath(), {
        args: ["run", "--cached-only", "--quiet", "--no-prompt", "--unstable-kv", "-A", file],
        clearEnv: true,
        env: environmentOf({
          ...{ PORT: "0", HOST: "127.0.0.1", KV_URL: `${folder}/kv.db` },
          FORGE_WEBHOOK_SECRET: FORGE_SECRET,
        }),
        stdout: "piped",
        stderr: "piped",
      }).spawn(),
    );
    assertEquals((await deliver(app, "d1")).status, 200);
    await app.line(({ message, deliveryId }) => message === "event handled" && deliveryId === "d1");
    app.process.kill("SIGTERM");
    assertEquals([(await app.process.status).code, await app.ended], [0, ""]);
  });
});
