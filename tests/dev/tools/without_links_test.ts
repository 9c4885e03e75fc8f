import { assert, assertEquals } from "@std/assert";
import { pathToFileURL } from "node:url";
import { removeLinks } from "../../../dev/tools/without_links.ts";
import { withFolder } from "../../_folder.ts";
import { testWith } from "../../_permissions.ts";

const ROOT = new URL("../../../", import.meta.url);

testWith(["read", "write"], "removeLinks() takes the links away, and nothing else", async () => {
  await withFolder(async (folder) => {
    const there = pathToFileURL(`${folder}/`);
    for (const name of ["deno.json", "deno.lock"]) {
      await Deno.copyFile(new URL(name, ROOT), new URL(name, there));
    }
    await removeLinks(there);
    const [before, after] = await Promise.all([ROOT, there].map(async (at) => {
      const texts = ["deno.json", "deno.lock"].map((name) => Deno.readTextFile(new URL(name, at)));
      return (await Promise.all(texts)).map((text) => JSON.parse(text));
    }));
    const [config, lock] = before!;
    assert(config.links.length > 0 && Object.keys(lock.workspace.links).length > 0);
    delete config.links;
    delete lock.workspace.links;
    assertEquals(after, [config, lock]);
  });
});
