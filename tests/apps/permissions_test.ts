import { assertEquals, assertMatch } from "@std/assert";
import { runToEnd } from "../../dev/harness/start_app.ts";
import { forgeDelivery, messengerUpdate, type SignedRequest } from "../_deliveries.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { APP_NEEDS } from "./_app.ts";
import { post } from "./_deliver.ts";
import { type AppName, confine, permissionsOf, SECRETS } from "./_confined.ts";

/** Deno itself reads it, and for a remote KV only. */
const REMOTE_ONLY = "DENO_KV_ACCESS_TOKEN";

const update = { update_id: 1, message: { from: { id: 42 }, text: "hi" } };

const APPS: readonly [AppName, number, () => SignedRequest][] = [
  ["forge", 8000, () => forgeDelivery("{}")],
  ["messenger", 8001, () => messengerUpdate(update)],
];

for (const [name, port, delivery] of APPS) {
  testWith(
    APP_NEEDS,
    `apps/${name}.ts runs under its permissions, and reads each variable that they name`,
    async () => {
      await withFolder(async (folder) => {
        const { start } = await confine(name, folder);
        await using app = start({ DENO_AUDIT_PERMISSIONS: `${folder}/audit.jsonl` });
        const { status, text } = await post(app, delivery());
        assertEquals([status, text], [200, "OK"]);
        await app.line(({ message }) => message === "event handled");
        assertEquals([await app.stop(), await app.ended], [0, ""]);
        assertEquals(app.lines.filter(({ level }) => level === "error"), []);
        const lines = (await Deno.readTextFile(`${folder}/audit.jsonl`)).trim().split("\n");
        const asked = lines.map((line) => JSON.parse(line)).filter(({ permission }) =>
          permission === "env"
        );
        const { env } = await permissionsOf(name);
        const expected = env.filter((variable) => variable !== REMOTE_ONLY);
        assertEquals(new Set(asked.map(({ value }) => value)), new Set(expected));
      });
    },
  );

  testWith(
    ["read"],
    `apps/${name}.ts is allowed its port and its folder, and no others`,
    async () => {
      const { net, read, write, ...others } = await permissionsOf(name);
      assertEquals(net, ["0.0.0.0", "127.0.0.1", "[::]"].map((host) => `${host}:${port}`));
      assertEquals([read, write], [[`./data/${name}`], [`./data/${name}`]]);
      assertEquals(Object.keys(others), ["env"]);
    },
  );
}

testWith(["read"], "no variable but the shared ones is allowed to both apps", async () => {
  const [forge, messenger] = [await permissionsOf("forge"), await permissionsOf("messenger")];
  const both = forge.env.filter((name) => messenger.env.includes(name));
  // Each app has its own values of them: the processes share no environment.
  const shared = [REMOTE_ONLY, "CONSOLE_TOKEN", "CONSOLE_OPERATOR_TOKEN"];
  assertEquals(both.filter((name) => /SECRET|TOKEN|USERS/.test(name)), shared);
});

/** Starts the forge app with permissions of its own, and returns the line that tells why it does not start. */
async function refusalOf(flags: readonly string[], env: Record<string, string>): Promise<string> {
  const script = new URL("../../apps/forge.ts", import.meta.url);
  const { code, stderr } = await runToEnd({ script, flags, env: { ...SECRETS, ...env } });
  assertEquals(code, 1);
  return stderr;
}

testWith(APP_NEEDS, "an app that may not read its variables names them all", async () => {
  const line = await refusalOf(["--allow-env=FORGE_WEBHOOK_SECRET"], {});
  const [, flag = ""] = /^Cannot start forge: .* --allow-env=(\S+)/.exec(line) ?? [];
  const { env } = await permissionsOf("forge");
  const missing = env.filter((name) => name !== REMOTE_ONLY && name !== "FORGE_WEBHOOK_SECRET");
  assertEquals(flag.split(",").sort(), missing.sort(), line);
});

testWith(APP_NEEDS, "an app that may not read the folder of its KV says so", async () => {
  const env = { KV_URL: "./data/kv.db", PORT: "0" };
  const line = await refusalOf(["--allow-env", "--allow-net=127.0.0.1"], env);
  assertMatch(
    line,
    /^Cannot start forge: the KV that KV_URL names .* --allow-read and --allow-write/,
  );
});

testWith(
  APP_NEEDS,
  "the forge app reaches nothing of the messenger's, and nothing else",
  async () => {
    await withFolder(async (folder) => {
      const { command } = await confine("forge", folder);
      const { stdout, stderr } = await command("tests/apps/_reach.ts").output();
      const decoder = new TextDecoder();
      assertEquals(decoder.decode(stderr), "");
      assertEquals(JSON.parse(decoder.decode(stdout)), ["its own secret"]);
    });
  },
);
