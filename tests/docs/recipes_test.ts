import { assertEquals } from "@std/assert";
import { testWith } from "../_permissions.ts";
import { blocks, read } from "./_documents.ts";

for (
  const name of ["discord", "github_bot", "live_text", "reviewer_bot", "slack", "telegram_bot"]
) {
  testWith(["read"], `docs/recipes.md has the whole of examples/${name}.ts`, async () => {
    const example = (await read(`examples/${name}.ts`)).replace(/^\/\*\*[^]*?\*\/\n/, "")
      .replace("export const bot", "const bot"); // what is exported would be hoisted in a test
    const recipes = blocks(await read("docs/recipes.md"), "ts");
    assertEquals(recipes.filter((recipe) => recipe === example).length, 1);
  });
}
