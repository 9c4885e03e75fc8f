import { assertEquals } from "@std/assert";
import { testWith } from "../_permissions.ts";
import { openSqlite } from "../_sqlite.ts";
import { blocks, paths, read, rows } from "./_documents.ts";

const DOCUMENT = "docs/recipes.md";

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

testWith(
  ["read"],
  `${DOCUMENT} shows a part of examples/github_bot.ts as it is there`,
  async () => {
    const example = await read("examples/github_bot.ts");
    const parts = blocks(await read(DOCUMENT), "ts ignore");
    const inHandler = parts.map((part) => part.replaceAll(/^/gm, "  ").trimEnd());
    assertEquals(inHandler.map((part) => example.includes(part)), [true]);
  },
);

testWith(["read"], `${DOCUMENT} shows a statement that stores an event once`, async () => {
  const [sql] = blocks(await read(DOCUMENT), "sql");
  const [table, insert] = sql!.trim().split("\n");
  using file = openSqlite(":memory:");
  file.database.exec(table!);
  for (let i = 0; i < 2; i++) file.database.prepare(insert!).run("github:1", "Help");
  assertEquals(file.database.prepare("select count(*) as n from issues").get()?.n, 1);
});
