import { assert, assertEquals, assertLessOrEqual, assertMatch } from "@std/assert";
import { type Ended, runDeno } from "../../dev/harness/run.ts";
import config from "../../deno.json" with { type: "json" };
import { type RunningApp, startApp } from "../../dev/harness/start_app.ts";
import { runHere } from "../cli/_cli.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { blocks, documents, read, ROOT } from "./_documents.ts";

const NEEDS = ["net", "read", "write", "run", "env"] as const;

/** Writes the `deno.json` of the README into a folder, with the package and its dependencies of this checkout. */
async function install(folder: string): Promise<void> {
  const [json] = blocks(await read("README.md"), "json");
  const installed: Record<string, unknown> = JSON.parse(json!);
  const { exports, imports, links } = config;
  const inRoot = (path: string) => new URL(path, ROOT).href;
  const own = Object.entries(exports).map(([name, path]) =>
    [`${config.name}${name.slice(1)}`, inRoot(path)] as const
  );
  const whole = {
    ...installed,
    imports: { ...imports, ...Object.fromEntries(own) },
    links: links.map((path) => `${inRoot(path)}/`), // with the slash for Deno 2.5
  };
  await Deno.writeTextFile(`${folder}/deno.json`, JSON.stringify(whole));
}

/** Output of a command that makes a random text. */
const RANDOM = "4b1c7f0e9d2a5836c0f1e2d3b4a59687";

/** A bot of the README, and how that tells the reader to run and to try it. */
interface Steps {
  readonly code: string;
  readonly file: string;
  readonly flags: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly send: readonly string[];
}

/** The bots that a reader begins with, and what each writes about its first event. */
const BOTS = {
  "bot.ts": {
    platform: "github",
    database: "data/triage.db",
    says: { message: "no label", title: "Spelling error in the README file" },
  },
  "echo.ts": {
    platform: "telegram",
    database: "data/echo.db",
    says: { message: "not sent", text: "You said: hello" },
  },
} as const;

/** Reads the steps of the bot that is saved in a file. */
async function stepsOf(file: keyof typeof BOTS): Promise<Steps> {
  const { platform } = BOTS[file];
  const text = await read("README.md");
  const shell = blocks(text, "sh");
  const at = shell.findIndex((block) => block.includes(` ${file}\n`));
  const first = shell[at]!;
  const env = [...first.matchAll(/\b([A-Z_]+)=(?:'([^']*)'|\$\(([^)]*)\)|(\S+))/g)]
    .map(([, name, text, command, word]) => [name!, command ? RANDOM : text ?? word!]);
  const [, send] = new RegExp(`task send (${platform} [^\`\n]*)`).exec(text)!;
  return {
    code: blocks(text, "ts").find((block) => block.includes(`platform: ${platform}(`))!,
    file,
    flags: first.match(/--allow-\S+/g)!.map((flag) => flag.replace("0.0.0.0", "127.0.0.1")),
    env: Object.fromEntries(env),
    send: send!.split(" "),
  };
}

/** Starts a bot as the README tells, in a folder of its own. */
async function startIn(folder: string, { code, file, flags, env }: Steps): Promise<RunningApp> {
  await install(folder);
  await Deno.writeTextFile(`${folder}/${file}`, code);
  return startApp({ script: file, flags, env, cwd: folder, text: true });
}

for (const file of ["bot.ts", "echo.ts"] as const) {
  const { database, says } = BOTS[file];
  testWith(
    NEEDS,
    `README.md: ${file} handles the event that it is sent`,
    () =>
      withFolder(async (folder) => {
        const steps = await stepsOf(file);
        {
          await using app = await startIn(folder, steps);
          const args = ["send", ...steps.send, "--url", await app.url];
          const { code, err } = await runHere(args, { env: (name) => steps.env[name] });
          assertEquals([code, err], [0, []]);
          await app.line(({ message }) => message === "event handled");
          const said = await app.line(({ message }) => message === says.message);
          assertEquals({ ...said, ...says }, said);
          const page = await fetch(`${await app.url}/console/login`);
          await page.body?.cancel();
          assertEquals(page.status, "CONSOLE_OPERATOR_TOKEN" in steps.env ? 200 : 404);
        }
        const { out } = await runHere([
          "events",
          "list",
          "--store",
          `sqlite:${folder}/${database}`,
        ]);
        assertMatch(out.join("\n"), /^\S+ +done +1 /);
      }),
  );
}

/** Runs the test of a document on a bot, as the document tells. Types are checked with the reader's own settings. */
async function runTest(
  document: string,
  code: string,
  { isChecked = false } = {},
): Promise<Ended> {
  return await withFolder(async (folder) => {
    await install(folder);
    await Deno.writeTextFile(`${folder}/bot.ts`, code);
    const [test] = blocks(await read(document), "ts ignore");
    await Deno.writeTextFile(`${folder}/bot_test.ts`, test!);
    const args = ["test", "--cached-only", "--allow-net=127.0.0.1"];
    if (!isChecked) args.push("--no-check");
    return await runDeno([...args, "bot_test.ts"], { cwd: folder, env: { NO_COLOR: "1" } });
  });
}

for (const document of ["README.md", "docs/tutorial.md"]) {
  testWith(NEEDS, `${document}: the test passes with the bot of the README`, async () => {
    const bot = (await stepsOf("bot.ts")).code;
    const { code, stdout, stderr } = await runTest(document, bot, {
      isChecked: document === "README.md",
    });
    assertEquals(code, 0, stdout + stderr);
  });

  testWith(NEEDS, `${document}: the test fails with a bot that has no handler for it`, async () => {
    const bot = (await stepsOf("bot.ts")).code;
    const { code, stdout } = await runTest(document, bot.replace("issues.opened", "issues.closed"));
    assertEquals(code, 1);
    assertMatch(stdout, /AssertionError[^]*\b1 failed/);
  });
}

testWith(["read"], "docs/configuration.md shows the whole deno.json for a checkout", async () => {
  const jsonOf = async (document: string) =>
    blocks(await read(document), "json").map((block) => JSON.parse(block));
  const [installed] = await jsonOf("README.md");
  const linked = (await jsonOf("docs/configuration.md")).find(({ links }) => links);
  const folders = await Array.fromAsync(Deno.readDir(new URL("dev/links/", ROOT)));
  const links = folders.map(({ name }) => `../edge-base/dev/links/${name}`).toSorted();
  assertEquals(linked, { ...installed, links: ["../edge-base", ...links] });
});

testWith(["read"], "README.md installs the version and the tasks that there are", async () => {
  const [installed] = blocks(await read("README.md"), "json").map((block) => JSON.parse(block));
  const specifier = `jsr:${config.name}@^${config.version}`;
  assertEquals(installed.imports[config.name], specifier);
  const tool = ["connect", "events", "send"];
  assertEquals(
    installed.tasks,
    Object.fromEntries(tool.map((task) => [task, `deno run --quiet -A ${specifier}/cli ${task}`])),
  );
});

testWith(["read"], "README.md and the tutorial name the file of the first bot", async () => {
  const listing = `events list --store sqlite:${BOTS["bot.ts"].database}`;
  for (const document of ["README.md", "docs/tutorial.md"]) {
    assert((await read(document)).includes(`deno task ${listing}\n`), document);
  }
});

/** Checks for a program that opens a KV, or has an app whose store is the default one. */
function needsKv(program: string): boolean {
  const numberOf = (text: string) => program.split(text).length - 1;
  return program.includes("Deno.openKv") ||
    numberOf("defineApp({") > numberOf("store: sqlite(");
}

testWith(["read"], "documents whose programs need a KV say what that takes", async () => {
  const silent: string[] = [];
  let count = 0;
  for (const [path, document] of await documents()) {
    const programs = ["ts", "ts ignore"].flatMap((kind) => blocks(document, kind));
    if (!programs.some(needsKv)) continue;
    if (!document.includes('"unstable": ["kv"]')) silent.push(path);
    count++;
  }
  assertEquals(silent, []);
  assert(count > 2, `Only ${count} documents need a KV`);
});

testWith(["read"], "README.md is short enough to be read to its end", async () => {
  assertLessOrEqual((await read("README.md")).trimEnd().split("\n").length, 180);
});
