import { assert, assertEquals } from "@std/assert";
import { parse } from "yaml";
import { run } from "../../dev/harness/run.ts";
import { withFolder } from "../_folder.ts";
import { testWith, unlessInstalled } from "../_permissions.ts";
import { APP_NEEDS } from "../apps/_app.ts";
import { missingFrom, usesOf } from "./_series.ts";

const ALERTS = new URL("../../examples/prometheus/alerts.yml", import.meta.url);
const CASES = new URL("./_alerts.yml", import.meta.url);

/** An alert, as Prometheus has it. */
interface Alert {
  readonly alert: string;
  readonly expr: string;
}

async function alerts(): Promise<Alert[]> {
  const { groups } = parse(await Deno.readTextFile(ALERTS));
  return groups.flatMap(({ rules }: { readonly rules: Alert[] }) => rules);
}

testWith(APP_NEEDS, "the alerts ask for series and labels that apps export", async () => {
  const expressions = (await alerts()).map(({ expr }) => expr);
  for (const expression of expressions) assert(usesOf(expression).length > 0, expression);
  assertEquals(await missingFrom(expressions), []);
});

testWith(
  ["read"],
  "docs/operating.md says what to do about each alert, and about no other",
  async () => {
    const guide = await Deno.readTextFile(new URL("../../docs/operating.md", import.meta.url));
    const explained = [...guide.matchAll(/^\| `([A-Z]\w+[a-z])` +\|/gm)].map(([, name]) => name!);
    assertEquals(explained, (await alerts()).map(({ alert }) => alert));
  },
);

testWith(
  ["read", "write", "run", "env"],
  "the alerts fire when they should, and else do not",
  async () => {
    await withFolder(async (folder) => {
      await Deno.copyFile(ALERTS, `${folder}/alerts.yml`);
      await Deno.copyFile(CASES, `${folder}/cases.yml`);
      const { code, stdout, stderr } = await run("promtool", [
        "test",
        "rules",
        `${folder}/cases.yml`,
      ]);
      assertEquals(code, 0, `${stdout}\n${stderr}`);
    });
  },
  unlessInstalled("promtool"),
);
