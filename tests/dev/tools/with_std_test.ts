import { assertEquals } from "@std/assert";
import { pathToFileURL } from "node:url";
import { linkStd } from "../../../dev/tools/with_std.ts";
import { withFolder } from "../../_folder.ts";
import { testWith } from "../../_permissions.ts";

const NAMES = ["deno.json", "dev/bench/deno.json"];

testWith(["read", "write"], "linkStd() links a clone instead of the stand-ins", async () => {
  await withFolder(async (folder) => {
    const there = pathToFileURL(`${folder}/copy/`);
    await Deno.mkdir(new URL("dev/bench/", there), { recursive: true });
    const config = { name: "@org/package", links: ["./links/hono", "./links/std-crypto"] };
    for (const name of NAMES) {
      await Deno.writeTextFile(new URL(name, there), JSON.stringify(config));
    }
    await linkStd(there, pathToFileURL(`${folder}/std/`));
    const [root, bench] = await Promise.all(
      NAMES.map(async (name) => JSON.parse(await Deno.readTextFile(new URL(name, there)))),
    );
    assertEquals(root, { ...config, links: ["./links/hono", "../std"] });
    assertEquals(bench, { ...config, links: ["./links/hono", "../../../std"] });
  });
});
