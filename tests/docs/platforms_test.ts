import { assertEquals } from "@std/assert";
import * as platforms from "../../webhook/mod.ts";
import { testWith } from "../_permissions.ts";
import { read, rows } from "./_documents.ts";

testWith(["read"], "docs/platforms.md lists the platforms that are built in", async () => {
  const functions = rows(await read("docs/platforms.md"))
    .flatMap(([cell]) => /^`(\w+)\(\)`$/.exec(cell!)?.[1] ?? []);
  const { github, gitea, gitlab, forge, telegram, messenger, standard } = platforms;
  const made = { github, gitea, gitlab, forge, telegram, messenger, standard };
  assertEquals(functions, Object.keys(made));
});
