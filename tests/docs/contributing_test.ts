import { assertEquals } from "@std/assert";
import config from "../../deno.json" with { type: "json" };
import { testWith } from "../_permissions.ts";
import { read, rows } from "./_documents.ts";

testWith(["read"], "CONTRIBUTING.md tells what each task is for", async () => {
  const table = rows(await read("CONTRIBUTING.md")).flat().join(" ");
  const told = [...table.matchAll(/`deno task ([\w:-]+)/g)].map(([, task]) => task!);
  assertEquals([...new Set(told)].sort(), Object.keys(config.tasks).sort());
});

testWith(["read"], "CHANGELOG.md has the version that would be published", async () => {
  const versions = [...(await read("CHANGELOG.md")).matchAll(/^## \[([^\]]+)\]/gm)]
    .map(([, version]) => version!);
  assertEquals(versions.slice(0, 2), ["Unreleased", config.version]);
});
