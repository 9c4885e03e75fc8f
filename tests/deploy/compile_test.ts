import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { environmentOf } from "../../dev/harness/environment.ts";
import { follow } from "../../dev/harness/follow_app.ts";
import { runDeno } from "../../dev/harness/run.ts";
import { forgeDelivery } from "../../testing/mod.ts";
import { ON_DENO_2_5 } from "../_deno_version.ts";
import { blocks, read } from "../docs/_documents.ts";
import { withFolder } from "../_folder.ts";
import { isGranted, testWith, UNLESS_LINUX } from "../_permissions.ts";
import { APP_NEEDS } from "../apps/_app.ts";
import { post } from "../apps/_deliver.ts";
import { findRuntime } from "./_runtime.ts";

const ROOT = new URL("../../", import.meta.url);

const SECRET = "only the environment has this";

/** A bot whose parts are loaded in all ways: at once, when they are needed, and in a Worker. */
const BOT = `
import { defineApp, github, runApp, sqlite } from "@org/edge-base";
import { consoleMount } from "@org/edge-base/console";
const bot = defineApp({
  name: "my-bot",
  platform: github(),
  store: sqlite(),
  mounts: [consoleMount()],
  onAlert: () => {},
});
bot.on("push", () => {});
bot.schedule("nightly", "@daily", () => {});
if (import.meta.main) await runApp(bot);
`;

/** Makes an executable by the command of docs/deploying.md, without a download. */
async function compile(folder: string, env: Record<string, string>): Promise<string> {
  const [command = ""] = blocks(await read("docs/deploying.md"), "sh compile");
  const flags = command.replaceAll("\\\n", " ").trim().split(/\s+/).slice(2, -1)
    .map((flag) => flag.replace(/^(--allow-net)=.*/, "$1=127.0.0.1"));
  await Deno.mkdir(`${folder}/data`);
  await Deno.writeTextFile(`${folder}/bot.ts`, BOT);
  const config = new URL("deno.json", ROOT).pathname;
  const args = ["compile", "--quiet", "--cached-only", "--no-check", "--config", config, ...flags];
  const { code, stderr } = await runDeno([...args, "bot.ts"], { cwd: folder, env });
  assertEquals(code, 0, stderr);
  return `${folder}/my-bot${Deno.build.os === "windows" ? ".exe" : ""}`;
}

/** Deno 2.5 has no --exclude-unused-npm. */
const onOld = ON_DENO_2_5 ? "needs a later Deno" : undefined;

/** Deno's runtime for executables; undefined if it is neither given nor in Deno's cache. */
const runtime = isGranted(["run", "env", "read"])
  ? Deno.env.get("DENORT_BIN") ?? await findRuntime()
  : undefined;

testWith(
  APP_NEEDS,
  "docs/deploying.md: a compiled bot takes deliveries and handles them",
  async () => {
    await withFolder(async (folder) => {
      const file = await compile(folder, {});
      const env = { PORT: "0", HOST: "127.0.0.1", GITHUB_WEBHOOK_SECRET: SECRET };
      const piped = { stdout: "piped", stderr: "piped" } as const;
      const options = { cwd: folder, clearEnv: true, env: environmentOf(env), ...piped };
      await using app = follow(new Deno.Command(file, options).spawn());
      const { method, headers, body } = forgeDelivery("push", {}, { secret: SECRET });
      assertEquals((await post(app, { method, headers, body })).status, 200);
      await app.line(({ message }) => message === "event handled");
      assertEquals([await app.stop(), await app.ended], [0, ""]);
    });
  },
  onOld ?? (runtime === undefined ? "needs denort, in DENORT_BIN or Deno's cache" : undefined),
);

testWith(
  APP_NEEDS,
  "docs/deploying.md: a compiled bot has its permissions, features and modules, and no secret",
  async () => {
    await withFolder(async (folder) => {
      // Deno itself instead of its runtime: nothing is run.
      const env = { DENORT_BIN: Deno.execPath(), GITHUB_WEBHOOK_SECRET: SECRET };
      const bytes = await Deno.readFile(await compile(folder, env));
      const { length } = await Deno.readFile(Deno.execPath());
      // Behind the base, in which there are such texts, too.
      const text = new TextDecoder("latin1").decode(bytes);
      const start = text.lastIndexOf('"permissions":{"allow_env":[]');
      assert(start > 0 && bytes.length - length < 20_000_000, `${bytes.length - length}`);
      const metadata = text.slice(start, start + 20_000);
      for (
        const part of [
          '"allow_net":["127.0.0.1"]',
          '"allow_read":["data"]',
          '"allow_write":["data"]',
          '"allow_run":null',
          '"prompt":false',
          '"env_vars_from_env_file":{}',
          '"features":["cron","kv"]',
        ]
      ) assertStringIncludes(metadata, part);
      for (const part of ["croner", "export function openAlarm", "class OtelTelemetry"]) {
        assertStringIncludes(text, part);
      }
      assertEquals(text.includes(SECRET), false);
    });
  },
  onOld ?? UNLESS_LINUX,
);
