import { assert, assertEquals } from "@std/assert";
import { testWith } from "../_permissions.ts";
import { read } from "./_documents.ts";

/** Sections of docs/comparison.md on other products, each with its heading as its first line. */
async function products(): Promise<string[]> {
  const page = await read("docs/comparison.md");
  const sections = page.split("\n## Our runs")[0]!.split(/^### /m).slice(1);
  return sections.filter((section) => !section.startsWith("By hand"));
}

testWith(["read"], "docs/comparison.md has a source for what it says of a product", async () => {
  const items = (await products()).flatMap((section) => section.split(/^- /m).slice(1));
  assertEquals(items.filter((item) => !/\]\[[\w-]+\]/.test(item)), []);
});

testWith(["read"], "docs/comparison.md grants each product what it does better", async () => {
  const sections = await products();
  const isFair = (section: string) => /\*\*Better:\*\*[^]*\*\*Different:\*\*/.test(section);
  assertEquals(sections.filter((section) => !isFair(section)), []);
  assert(sections.length >= 12);
});

testWith(["read"], "docs/comparison.md defines each source once, and uses each", async () => {
  const page = await read("docs/comparison.md");
  const defined = [...page.matchAll(/^\[([\w-]+)\]: https:\/\/\S+$/gm)].map(([, name]) => name!);
  const used = new Set([...page.matchAll(/\]\[([\w-]+)\]/g)].map(([, name]) => name!));
  assertEquals(defined.toSorted(), [...used].toSorted());
});
