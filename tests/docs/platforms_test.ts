import { assert, assertEquals } from "@std/assert";
import * as platforms from "../../webhook/mod.ts";
import { testWith } from "../_permissions.ts";
import { blocks, read, rows } from "./_documents.ts";

const lines = (text: string) => text.split("\n").map((line) => line.trim()).filter(Boolean);

testWith(
  ["read"],
  "the parts of the platform in docs/platforms.md are those of the example",
  async () => {
    const example = lines(await read("examples/slack.ts")).join("\n");
    const parts = blocks(await read("docs/platforms.md"), "ts ignore");
    for (const part of parts) assert(example.includes(lines(part).join("\n")), part);
    assert(parts.length > 4);
  },
);

testWith(["read"], "docs/platforms.md lists the platforms that are built in", async () => {
  const functions = rows(await read("docs/platforms.md"))
    .flatMap(([cell]) => /^`(\w+)\(\)`$/.exec(cell!)?.[1] ?? []);
  const { github, gitea, gitlab, forge, telegram, messenger, standard } = platforms;
  const made = { github, gitea, gitlab, forge, telegram, messenger, standard };
  assertEquals(functions, Object.keys(made));
});
