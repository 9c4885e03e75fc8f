import { assertEquals } from "@std/assert";
import { testWith } from "../_permissions.ts";
import { blocks, paths, read, rows } from "./_documents.ts";

const DOCUMENT = "docs/recipes.md";

testWith(["read"], `${DOCUMENT} has the whole of examples/github_bot.ts`, async () => {
  const example = (await read("examples/github_bot.ts")).replace(/^\/\*\*[^]*?\*\/\n/, "")
    // What is exported would be hoisted in a test, away from what it uses.
    .replaceAll(/^export (?=const bot|async function)/gm, "");
  const recipes = blocks(await read(DOCUMENT), "ts");
  assertEquals(recipes.filter((recipe) => recipe === example).length, 1);
});

testWith(
  ["read"],
  `${DOCUMENT} lists the programs of examples/, and llms-full.txt has them`,
  async () => {
    const programs = (await paths("examples/")).filter((path) => /^[^/]+\/[^/]+\.ts$/.test(path));
    const listed = rows(await read(DOCUMENT)).flat().join(" ");
    const whole = await read("llms-full.txt");
    for (const path of programs) {
      const name = path.replace("examples/", "");
      assertEquals([name, listed.includes(`\`${name}\``)], [name, true]);
      assertEquals([name, whole.split(await read(path)).length], [name, 2]);
    }
    assertEquals(programs.length > 5, true);
  },
);
