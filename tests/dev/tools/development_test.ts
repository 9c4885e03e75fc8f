import { assertEquals, assertStringIncludes } from "@std/assert";
import { runDeno } from "../../../dev/harness/run.ts";
import config from "../../../deno.json" with { type: "json" };
import { testWith } from "../../_permissions.ts";

const FILE = "dev/development.vars";

testWith(
  ["run"],
  "the tasks run the apps in development, unless a variable says otherwise",
  async () => {
    for (const name of ["forge", "messenger"] as const) {
      assertStringIncludes(config.tasks[name].command, ` --env-file=${FILE} -P=${name} `);
    }
    const environment = async (env: Record<string, string>) => {
      const code = 'console.log(Deno.env.get("CONSOLE_ENVIRONMENT"))';
      const cwd = new URL("../../../", import.meta.url);
      return (await runDeno(["eval", `--env-file=${FILE}`, code], { cwd, env })).stdout;
    };
    assertEquals(await environment({}), "development");
    assertEquals(await environment({ CONSOLE_ENVIRONMENT: "staging" }), "staging");
  },
);
