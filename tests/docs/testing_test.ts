import { assertEquals } from "@std/assert";
import { testWith } from "../_permissions.ts";
import { read, rows } from "./_documents.ts";

/** Functions that make deliveries, each with the interface of its options. */
const OPTIONS = {
  forgeDelivery: "ForgeDeliveryOptions",
  messengerUpdate: "MessengerUpdateOptions",
  standardDelivery: "StandardDeliveryOptions",
  slackDelivery: "SlackDeliveryOptions",
  stripeDelivery: "StripeDeliveryOptions",
};

/** Files that declare them. */
const FILES = ["deliveries", "slack_delivery", "stripe_delivery"];

/** Reads the names of the members of an interface. */
async function optionsIn(name: string): Promise<string[]> {
  const texts = await Promise.all(FILES.map((file) => read(`testing/${file}.ts`)));
  const [, body = ""] = new RegExp(`^export interface ${name} \\{\n([^]*?)^\\}`, "m")
    .exec(texts.join("\n")) ?? [];
  return [...body.matchAll(/^ {2}readonly (\w+)\?:/gm)].map(([, name]) => name!);
}

testWith(["read"], "docs/testing.md lists the options of deliveries", async () => {
  const table = rows(await read("docs/testing.md"));
  const documentedOf = (name: string) =>
    table.filter(([, of]) => of === "all" || of!.includes(`\`${name}\``))
      .map(([option]) => option!.replaceAll("`", "")).sort();
  for (const [name, options] of Object.entries(OPTIONS)) {
    assertEquals(documentedOf(name), (await optionsIn(options)).sort(), name);
  }
});
