import { assertEquals } from "@std/assert";
import { runDeno } from "../../dev/harness/run.ts";
import { publishHere } from "../../dev/tools/_publish_here.ts";
import { blocks, read } from "../docs/_documents.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { run } from "./_installed.ts";
import { OFFLINE, QUICKLY } from "./_packages.ts";

const NEEDS = ["net", "read", "write", "run", "env"] as const;

/** Place of the npm packages in a cache of Deno's. */
const NPM_CACHE = "npm/registry.npmjs.org";

/** Commands and unit of docs/deploying.md, for a machine whose root is a folder. */
async function stepsIn(root: string) {
  const page = await read("docs/deploying.md");
  const here = (text: string) =>
    text.replaceAll("/usr/local/bin/deno", Deno.execPath()).replaceAll("%S", `${root}/var/lib`)
      .replaceAll("127.0.0.1:8000", "127.0.0.1").replaceAll(/(?<![\w/])\/(?=opt|var)/g, `${root}/`);
  const [unit = ""] = /^```ini\n([^]*?)^```$/m.exec(page)?.slice(1) ?? [];
  const settings = (name: string) =>
    Array.from(here(unit).matchAll(new RegExp(`^${name}=(.*)$`, "gm")), ([, value]) => value!);
  const [machine = ""] = blocks(page, "sh machine");
  return {
    install: here(machine.split("\n").find((line) => line.includes("deno install"))!),
    list: here(blocks(page, "sh events")[0]!),
    exec: settings("ExecStart")[0]!.split(" "),
    env: Object.fromEntries(
      settings("Environment").flatMap((line) => line.split(" ")).map((pair) => pair.split("=")),
    ) as Record<string, string>,
  };
}

/** Folder of Deno's cache in this process's environment. */
async function denoDir(): Promise<string> {
  return JSON.parse((await runDeno(["info", "--json"])).stdout).denoDir;
}

async function copyAll(from: string, to: string): Promise<void> {
  await Deno.mkdir(to, { recursive: true });
  for await (const { name, isDirectory } of Deno.readDir(from)) {
    if (isDirectory) await copyAll(`${from}/${name}`, `${to}/${name}`);
    else await Deno.copyFile(`${from}/${name}`, `${to}/${name}`);
  }
}

/** Puts into a cache what an installation would download: the npm packages of its lock file. */
async function fillCache(cache: string, lock: string): Promise<void> {
  const from = await denoDir();
  for (const id of Object.keys(JSON.parse(await Deno.readTextFile(lock)).npm)) {
    const [, name, version] = /^(.+?)@([^@_]+)/.exec(id)!;
    const folder = `${NPM_CACHE}/${name}`;
    await copyAll(`${from}/${folder}/${version}`, `${cache}/${folder}/${version}`);
    await Deno.copyFile(`${from}/${folder}/registry.json`, `${cache}/${folder}/registry.json`);
  }
}

/** Starts the service, waits until it listens, and stops it; returns what it wrote if it does not listen. */
async function startAndStop(
  { exec: [deno, ...args], env }: Awaited<ReturnType<typeof stepsIn>>,
  cwd: string,
  more: Record<string, string>,
): Promise<string> {
  const secret = { GITHUB_WEBHOOK_SECRET: "a long random text", PORT: "0" };
  await using process = new Deno.Command(deno!, {
    ...{ args, cwd, env: { ...env, ...secret, ...more }, stdout: "piped", stderr: "piped" },
  }).spawn();
  let written = "";
  for await (const text of process.stdout.pipeThrough(new TextDecoderStream())) {
    written += text;
    if (text.includes('"message":"listening"')) process.kill("SIGTERM");
  }
  const error = await new Response(process.stderr).text();
  const { code } = await process.status;
  return code === 0 && written.includes('"message":"listening"') ? "listened" : written + error;
}

testWith(NEEDS, "docs/deploying.md: a bot starts again after the tool was run", async () => {
  await publishHere(({ url }) =>
    withFolder(async (root) => {
      const steps = await stepsIn(root);
      const bot = `${root}/opt/my-bot`;
      await Deno.mkdir(bot, { recursive: true });
      await Deno.mkdir(`${root}/var/lib/my-bot`, { recursive: true });
      const readme = await read("README.md");
      await Deno.writeTextFile(`${bot}/deno.json`, blocks(readme, "json")[0]!);
      const code = blocks(readme, "ts").find((block) => block.includes("platform: github("))!;
      await Deno.writeTextFile(`${bot}/bot.ts`, code);
      const world = { JSR_URL: url, NO_COLOR: "1" };
      const sh = (command: string) => run(root, world, "sh", "-euc", command);

      // In the cache of this machine, which has all that the tests need.
      await sh(steps.install.replace(/DENO_DIR=\S+/, ""));
      await fillCache(`${bot}/.deno`, `${bot}/deno.lock`);
      await sh(steps.install);
      const lock = await Deno.readTextFile(`${bot}/deno.lock`);
      const start = () => startAndStop(steps, bot, { ...OFFLINE, ...world });
      assertEquals(await start(), "listened");

      await sh(steps.list);
      assertEquals(await start(), "listened");
      // As a user who forgets the variable.
      await sh(steps.list.replace(/DENO_DIR=\S+/, ""));
      assertEquals(await start(), "listened");
      assertEquals(await Deno.readTextFile(`${bot}/deno.lock`), lock);
    }), QUICKLY);
}, Deno.build.os === "windows" ? "needs a shell" : undefined);
