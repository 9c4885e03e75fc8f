import { assert } from "@std/assert";
import { publishHere } from "../../dev/tools/_publish_here.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { installWithNpm, missingForNpm, run, succeeds } from "./_installed.ts";
import { QUICKLY } from "./_packages.ts";

const NEEDS = ["net", "read", "write", "run", "env"] as const;

const NAME = "the middleware, the health routes and the verification run from npm on";
const missing = await missingForNpm();
const hasBun = missing === undefined && await succeeds("bun", "--version");
const runtimes = missing === undefined ? ["node", ...hasBun ? ["bun"] : []] : [];

if (runtimes.length > 0) {
  testWith(NEEDS, `${NAME} ${runtimes.join(" and ")}`, async () => {
    await publishHere((published) =>
      withFolder(async (folder) => {
        const project = await installWithNpm(published, folder);
        const script = new URL("./_elsewhere.mjs", import.meta.url);
        await Deno.copyFile(script, `${project}/elsewhere.mjs`);
        for (const runtime of runtimes) {
          const output = await run(project, {}, runtime, "elsewhere.mjs");
          assert(output.includes("all of it runs"), `${runtime}: ${output}`);
        }
      }), QUICKLY);
  });
}
