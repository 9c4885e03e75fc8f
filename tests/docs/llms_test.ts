import { assertEquals } from "@std/assert";
import { listOf, readDocuments, readExamples, wholeOf } from "../../dev/tools/llms.ts";
import { testWith } from "../_permissions.ts";

const ROOT = new URL("../../", import.meta.url);

testWith(["read"], "llms.txt and llms-full.txt have what the documents have", async () => {
  const documents = await readDocuments(ROOT);
  const [list, whole] = await Promise.all(
    ["llms.txt", "llms-full.txt"].map((name) => Deno.readTextFile(new URL(name, ROOT))),
  );
  const why = "made anew by `deno task llms`";
  assertEquals(list, listOf(documents), why);
  const examples = await readExamples(ROOT);
  assertEquals(whole === wholeOf([...documents, ...examples]), true, why);
  const pages = Array.from(Deno.readDirSync(new URL("docs/", ROOT)), ({ name }) => `docs/${name}`);
  const listed = documents.map(({ path }) => path).filter((path) => path.startsWith("docs/"));
  assertEquals(listed.sort(), pages.filter((path) => path.endsWith(".md")).sort());
});
