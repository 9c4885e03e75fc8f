import { assertEquals } from "@std/assert";
import { testWith } from "../_permissions.ts";
import { read, rows } from "./_documents.ts";

/** Reads the names of the options of a function, from its module. */
async function optionsIn(module: string): Promise<string[]> {
  const [, body = ""] = /^export interface \w+Options \{\n([^]*?)^\}/m
    .exec(await read(`testing/${module}.ts`)) ?? [];
  return [...body.matchAll(/^ {2}readonly (\w+)\?:/gm)].map(([, name]) => name!);
}

testWith(["read"], "docs/testing.md lists the options of deliveries", async () => {
  const table = rows(await read("docs/testing.md"));
  const modules = { forge_delivery: "forgeDelivery", messenger_update: "messengerUpdate" };
  const documentedOf = (name: string) =>
    table.filter(([, of]) => of === "all" || of!.includes(`\`${name}\``))
      .map(([option]) => option!.replaceAll("`", "")).sort();
  for (
    const [module, name] of Object.entries({ ...modules, standard_delivery: "standardDelivery" })
  ) {
    assertEquals(documentedOf(name), (await optionsIn(module)).sort(), name);
  }
});
