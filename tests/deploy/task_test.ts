import { assertEquals } from "@std/assert";
import { type Ended, runDeno } from "../../dev/harness/run.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";

const NEEDS = ["read", "write", "run", "env"] as const;
const ROOT = new URL("../../", import.meta.url);
const FORGE = ["--org", "my-org", "--app", "my-forge-bot"];

/** Runs a task of `deno.json` where the checks are the ones given, and short. */
async function runTask(
  task: string,
  checks: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  return await withFolder(async (folder) => {
    const { tasks } = JSON.parse(await Deno.readTextFile(new URL("deno.json", ROOT)));
    const command = tasks[task].command.replace("dev/tools/", new URL("dev/tools/", ROOT).href);
    const json = { tasks: { [task]: command, ok: checks } };
    await Deno.writeTextFile(`${folder}/deno.json`, JSON.stringify(json));
    const options = { cwd: folder, env: { NO_COLOR: "1", ...env } };
    return await runDeno(["task", "--quiet", task, ...args], options);
  });
}

testWith(NEEDS, "deno task deploy:forge runs the checks, and then deno deploy", async () => {
  const { code, stdout } = await runTask("deploy:forge", "echo checked", [...FORGE, "--dry-run"]);
  const command = "deno deploy --org my-org --app my-forge-bot --prod";
  assertEquals([code, stdout.split("\n")], [0, ["checked", command]]);
});

testWith(NEEDS, "deno task deploy:forge deploys nothing when a check fails", async () => {
  const { code, stdout, stderr } = await runTask("deploy:forge", "exit 3", FORGE);
  assertEquals([code, stdout], [1, ""]);
  assertEquals(stderr.split("\n").at(-1), "Not deployed: the checks have failed");
});

testWith(NEEDS, "deno task deploy:messenger takes its app from its own variable", async () => {
  const variables = {
    DENO_DEPLOY_ORG: "my-org",
    DENO_DEPLOY_APP: "another",
    DENO_DEPLOY_FORGE_APP: "my-forge-bot",
    DENO_DEPLOY_MESSENGER_APP: "my-messenger-bot",
  };
  const args = ["--preview", "--dry-run"];
  const { stdout } = await runTask("deploy:messenger", "echo checked", args, variables);
  const command = "deno deploy --org my-org --app my-messenger-bot";
  assertEquals(stdout.split("\n"), ["checked", command]);
});

for (const [missing, args] of [["org", FORGE.slice(2)], ["app", FORGE.slice(0, 2)]] as const) {
  testWith(NEEDS, `deno task deploy:forge wants the ${missing} before it checks`, async () => {
    const variable = missing === "org" ? "DENO_DEPLOY_ORG" : "DENO_DEPLOY_FORGE_APP";
    const blank = { [variable]: "" };
    const { code, stdout, stderr } = await runTask("deploy:forge", "echo checked", args, blank);
    const reason = `Not deployed: no --${missing}, and ${variable} is not set`;
    assertEquals([code, stdout, stderr], [2, "", reason]);
  });
}
