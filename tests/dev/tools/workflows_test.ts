import { assert, assertEquals } from "@std/assert";
import { parse } from "yaml";
import config from "../../../deno.json" with { type: "json" };
import { testWith } from "../../_permissions.ts";

interface Step {
  readonly run?: string;
  readonly uses?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}

interface Job {
  readonly needs?: string;
  readonly permissions?: Readonly<Record<string, string>>;
  readonly strategy?: { readonly matrix: Readonly<Record<string, readonly string[]>> };
  readonly steps: readonly Step[];
}

interface Workflow {
  readonly permissions: Readonly<Record<string, string>>;
  readonly jobs: Readonly<Record<string, Job>>;
}

const ROOT = new URL("../../../", import.meta.url);

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
    const tools = Array.from(commands.matchAll(/dev\/tools\/\w+\.ts/g), ([tool]) => tool);
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

/** An action's owner and repository, at a digest that no one can change, and its version. */
const PINNED = /^ +(?:- )?uses: ([\w-]+\/[\w-]+)@([0-9a-f]{40}) # v\d+\.\d+\.\d+$/;

testWith(["read"], "the workflows take each action by one digest, with its version", async () => {
  const digests = new Map<string, string>();
  for (const name of NAMES) {
    const text = await Deno.readTextFile(new URL(`.github/workflows/${name}.yml`, ROOT));
    for (const line of text.split(/\r?\n/).filter((each) => each.includes("uses:"))) {
      const [, action, digest] = PINNED.exec(line) ?? [];
      assert(action !== undefined && digest !== undefined, `Not pinned: ${line}`);
      assertEquals(digests.get(action) ?? digest, digest, action);
      digests.set(action, digest);
    }
  }
  assert(digests.size > 3);
});

testWith(["read"], "the job that publishes needs the tests, and runs none of them", async () => {
  const { test, publish } = (await workflow("publish")).jobs;
  assertEquals(publish!.needs, "test");
  const tested = test!.steps.map(({ run }) => run);
  assert(tested.includes("deno task ok") && tested.includes("deno task test"));
  assertEquals(publish!.steps.map(({ uses, run }) => uses?.replace(/@.*/, "") ?? run), [
    "actions/checkout",
    "denoland/setup-deno",
    "deno run --allow-read --allow-write dev/tools/without_links.ts .",
    "deno publish --allow-dirty",
  ]);
  assertEquals(publish!.steps.map((step) => step.with).filter((options) => options !== undefined), [
    { "deno-version": "v2.9.6" },
  ]);
});

testWith(["read"], "what the job that publishes runs of ours imports nothing", async () => {
  const tool = await Deno.readTextFile(new URL("dev/tools/without_links.ts", ROOT));
  assertEquals(tool.match(/\b(?:import|from)\b *["'(].*/g), null);
});

testWith(
  ["read"],
  "each program that the tests run is installed in one version everywhere",
  async () => {
    const [script, ci, ...others] = await Promise.all([
      ...[".ci/run", ".github/workflows/ci.yml", ".github/workflows/publish.yml"],
      ...["deploy/Dockerfile", "CONTRIBUTING.md", "docs/operating.md"],
    ].map((path) => Deno.readTextFile(new URL(path, ROOT))));
    const versionIn = (name: string) =>
      new RegExp(`^${name}="(?:deno@)?(.*)"$`, "m").exec(script!)![1]!;
    const [deno, denokv, bun] = ["DENO", "DENOKV", "BUN"].map(versionIn);
    const texts = [script!, ci!, ...others].join("\n");
    const all = (
      pattern: RegExp,
    ) => [...new Set(Array.from(texts.matchAll(pattern), ([, it]) => it))];
    assertEquals(all(/cargo install denokv([^`\n]*)/g).toSorted(), [
      ` --version "$DENOKV" --locked --quiet`,
      ` --version ${denokv} --locked`,
      ` --version ${denokv} --locked --quiet`,
    ]);
    assertEquals(all(/(?:DENOKV_VERSION=|key: denokv-.*-)(\S+)/g), [denokv]);
    assertEquals(all(/npm install .*\bbun(\S*)/g).toSorted(), [`@${bun}`, '@$BUN"'].toSorted());
    assertEquals(all(/DENO_VERSION=(\S+)/g), [deno]);
    const [, , publish] = [script, ci, ...others];
    const published = Array.from(publish!.matchAll(/deno-version: (\S+)/g), ([, it]) => it);
    assertEquals(new Set(published), new Set([`v${deno}`]));
  },
);

/** The commands by which the README says that all can be tried. */
async function commandsOfReadme(): Promise<string[]> {
  const readme = await Deno.readTextFile(new URL("README.md", ROOT));
  return Array.from(readme.matchAll(/^npx -y (\S+ task \w+)$/gm), ([, command]) => command!);
}

testWith(["read"], "a job runs the README's commands on a new machine", async () => {
  const { jobs: { readme } } = await workflow("ci");
  const [checkout, ...others] = readme!.steps;
  assertEquals(checkout!.uses?.replace(/@.*/, ""), "actions/checkout");
  const commands = (await commandsOfReadme()).map((command) => `npx -y ${command}`);
  assertEquals(commands.length, 2);
  assertEquals(others, commands.map((run) => ({ run })));
});

testWith(["read"], ".ci/run begins with the README's commands, on empty caches", async () => {
  const script = await Deno.readTextFile(new URL(".ci/run", ROOT));
  const [, deno] = /^DENO="(.*)"$/m.exec(script)!;
  const started = Array.from(script.matchAll(/npx -y "\$DENO" (task \w+)?/g));
  const first = started.slice(0, 2).map(([, task]) => `${deno} ${task}`);
  assertEquals(first, await commandsOfReadme());
  const emptied = script.indexOf('export npm_config_cache="$work/npm" DENO_DIR="$work/deno"');
  assert(emptied > 0 && emptied < started[0]!.index);
  assert(script.indexOf("work=$(mktemp -d)") < emptied);
});
