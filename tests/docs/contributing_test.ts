import { assertEquals } from "@std/assert";
import config from "../../deno.json" with { type: "json" };
import { testWith } from "../_permissions.ts";
import { read, rows } from "./_documents.ts";

testWith(["read"], "CONTRIBUTING.md says when to run each task", async () => {
  const table = rows(await read("CONTRIBUTING.md")).flat().join(" ");
  const documented = [...table.matchAll(/`deno task ([\w:-]+)/g)].map(([, task]) => task!);
  assertEquals([...new Set(documented)].sort(), Object.keys(config.tasks).sort());
});

testWith(["read"], "CHANGELOG.md has the version that would be published", async () => {
  const [version] = (await read("CHANGELOG.md")).match(/(?<=^## \[)[^\]]+/m)!;
  assertEquals(version, config.version);
});

const TEST_TASKS = ["test", "test:around", "test:browser", "test:long", "baseline"] as const;

Deno.test("tests that `deno task test` leaves out are run by another task", () => {
  const [test, ...others] = TEST_TASKS.map((task) => config.tasks[task].command.split(" "));
  const [ignored] = test!.filter((word) => word.startsWith("--ignore="));
  const elsewhere = others.flat();
  const leftOut = ignored!.slice("--ignore=".length).split(",");
  const isRun = (path: string) =>
    elsewhere.some((each) => path === each || path.startsWith(`${each}/`));
  assertEquals(leftOut.filter((path) => !isRun(path)), []);
});

testWith(["read"], "continuous integration runs each task of tests", async () => {
  const script = await read(".ci/run");
  const missing = (text: string) =>
    TEST_TASKS.filter((task) => !new RegExp(`task ${task}(?![:\\w])`).test(text));
  assertEquals([missing(script), missing(config.tasks.ok.command)], [[], []]);
});
