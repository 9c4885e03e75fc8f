import { assert, assertEquals } from "@std/assert";
import { run } from "../../dev/harness/run.ts";
import { withFolder } from "../_folder.ts";
import { findProgram, testWith } from "../_permissions.ts";
import { readImage } from "./_dockerfile.ts";

const UNIT = new URL("../../deploy/edge-base@.service", import.meta.url);

/** The most that a unit may be exposed to by its service, from 0 to 10; 2 and below is called OK. */
const MAX_EXPOSURE = 1.5;

const ANALYZE = findProgram("systemd-analyze", "/usr/bin");

/** The values of a setting, for an instance. */
async function settings(name: string, instance: string): Promise<string[]> {
  const text = (await Deno.readTextFile(UNIT)).replaceAll("%i", instance);
  return [...text.matchAll(new RegExp(`^${name}=(.*)$`, "gm"))].map(([, value]) => value!);
}

for (const app of ["forge", "messenger"] as const) {
  testWith(
    ["read"],
    `deploy/edge-base@.service runs ${app} as its image, but for the folder`,
    async () => {
      const [command = ""] = await settings("ExecStart", app);
      const [deno, ...args] = command.split(" ");
      const { cmd } = await readImage(app);
      assertEquals(deno, "/usr/local/bin/deno");
      assertEquals(args.filter((arg) => !arg.startsWith("--allow-")), cmd);
      const folder = `%S/edge-base/${app}`;
      const allowed = args.filter((arg) => arg.startsWith("--allow-"));
      assertEquals(allowed, [`--allow-read=${folder}`, `--allow-write=${folder}`]);
      assertEquals(await settings("StateDirectory", app), [`edge-base/${app}`]);
      const variables = (await settings("Environment", app)).flatMap((line) => line.split(" "));
      assert(variables.includes(`KV_URL=${folder}/kv.db`));
      assertEquals(await settings("EnvironmentFile", app), [`/etc/edge-base/${app}.env`]);
    },
  );
}

/** Runs systemd-analyze on a unit; its command is Deno where it is installed here. */
async function analyze(unit: string, ...args: string[]): Promise<{ code: number; output: string }> {
  return await withFolder(async (folder) => {
    const path = `${folder}/edge-base@forge.service`;
    await Deno.writeTextFile(path, unit.replace("/usr/local/bin/deno", Deno.execPath()));
    const { code, stdout, stderr } = await run(ANALYZE!, [...args, path]);
    return { code, output: stdout + stderr };
  });
}

function testSystemd(name: string, fn: () => Promise<void>): void {
  testWith(
    ["read", "write", "run", "env"],
    name,
    fn,
    ANALYZE ? undefined : "needs systemd-analyze",
  );
}

testSystemd("deploy/edge-base@.service is a unit that systemd understands", async () => {
  const unit = await Deno.readTextFile(UNIT);
  assertEquals(await analyze(unit, "verify", "--man=no"), { code: 0, output: "" });
});

testSystemd("deploy/edge-base@.service leaves its app little to reach", async () => {
  const unit = await Deno.readTextFile(UNIT);
  const { output } = await analyze(unit, "security", "--offline=true", "--no-pager");
  const [, exposure] = /Overall exposure level for .*: ([\d.]+)/.exec(output) ?? [];
  assert(Number(exposure) <= MAX_EXPOSURE, output);
});

testSystemd("docs/deploying.md has a unit that systemd understands", async () => {
  const page = await Deno.readTextFile(new URL("../../docs/deploying.md", import.meta.url));
  const [, unit = ""] = /^```ini\n([^]*?)^```$/m.exec(page) ?? [];
  assert(unit.includes("StateDirectory=my-bot"));
  assertEquals(await analyze(unit, "verify", "--man=no"), { code: 0, output: "" });
});
