import { assert, assertEquals } from "@std/assert";
import { parse } from "yaml";
import config from "../../deno.json" with { type: "json" };
import { testWith } from "../_permissions.ts";

interface Step {
  readonly run?: string;
  readonly uses?: string;
}

interface Job {
  readonly permissions?: Readonly<Record<string, string>>;
  readonly strategy?: { readonly matrix: Readonly<Record<string, readonly string[]>> };
  readonly steps: readonly Step[];
}

interface Workflow {
  readonly permissions: Readonly<Record<string, string>>;
  readonly jobs: Readonly<Record<string, Job>>;
}

const ROOT = new URL("../../", import.meta.url);

const NAMES = ["ci", "publish"] as const;

async function workflow(name: typeof NAMES[number]): Promise<Workflow> {
  return parse(await Deno.readTextFile(new URL(`.github/workflows/${name}.yml`, ROOT)));
}

/** All that a workflow runs, as one text. */
function commandsOf({ jobs }: Workflow): string {
  return Object.values(jobs).flatMap(({ steps }) => steps).map(({ run = "" }) => run).join("\n");
}

for (const name of NAMES) {
  testWith(["read"], `the workflow ${name} runs tasks and tools that exist`, async () => {
    const commands = commandsOf(await workflow(name));
    const tasks = Array.from(commands.matchAll(/deno task ([\w:-]+)/g), ([, task]) => task!);
    assert(tasks.includes("ok"));
    assertEquals(tasks.filter((task) => !(task in config.tasks)), []);
    const tools = Array.from(commands.matchAll(/tools\/\w+\.ts/g), ([tool]) => tool);
    assert(tools.length > 0);
    for (const tool of tools) assert((await Deno.stat(new URL(tool, ROOT))).isFile);
  });

  testWith(["read"], `the workflow ${name} may read the repository, and no more`, async () => {
    const { permissions, jobs } = await workflow(name);
    assertEquals(permissions, { contents: "read" });
    const more = Object.entries(jobs).filter(([, job]) => job.permissions !== undefined);
    const own = { contents: "read", "id-token": "write" };
    assertEquals(
      more.map(([job, { permissions }]) => [job, permissions]),
      name === "publish" ? [["publish", own]] : [],
    );
  });
}

testWith(["read"], "continuous integration runs everywhere, with links and without", async () => {
  const { jobs: { ok } } = await workflow("ci");
  assertEquals(ok!.strategy!.matrix, {
    os: ["ubuntu-latest", "macos-latest", "windows-latest"],
    deno: ["v2.5.x", "v2.x"],
    packages: ["links", "jsr"],
  });
});
