import { assertEquals } from "@std/assert";
import { testWith } from "../_permissions.ts";
import { blocks, read } from "./_documents.ts";

for (const name of ["discord", "github_bot", "live_text", "reviewer_bot"]) {
  testWith(["read"], `docs/recipes.md has the whole of examples/${name}.ts`, async () => {
    const example = (await read(`examples/${name}.ts`)).replace(/^\/\*\*[^]*?\*\/\n/, "")
      // What is exported would be hoisted in a test, away from what it uses.
      .replaceAll(/^export (?=const bot|async function)/gm, "");
    const recipes = blocks(await read("docs/recipes.md"), "ts");
    assertEquals(recipes.filter((recipe) => recipe === example).length, 1);
  });
}
