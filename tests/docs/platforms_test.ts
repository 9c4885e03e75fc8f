import { assertEquals } from "@std/assert";
import * as platforms from "../../webhook/mod.ts";
import { testWith } from "../_permissions.ts";
import { blocks, read, rows } from "./_documents.ts";

testWith(["read"], "docs/platforms.md lists the platforms that are built in", async () => {
  const functions = rows(await read("docs/platforms.md"))
    .flatMap(([cell]) => /^`(\w+)\(\)`$/.exec(cell!)?.[1] ?? []);
  const { github, gitea, gitlab, forge, telegram, messenger, slack, stripe, standard } = platforms;
  const made = {
    ...{ github, gitea, gitlab, forge, telegram, messenger, slack, stripe, standard },
  };
  assertEquals(functions, Object.keys(made));
});

testWith(["read"], "docs/platforms.md has the whole of examples/linear.ts", async () => {
  const example = (await read("examples/linear.ts")).replace(/^\/\*\*[^]*?\*\/\n/, "")
    .replaceAll(/^export (?=interface|type|function)/gm, "");
  const found = blocks(await read("docs/platforms.md"), "ts");
  assertEquals(found.filter((block) => block.includes(example)).length, 1);
});
