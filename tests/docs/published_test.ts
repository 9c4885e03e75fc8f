import { assert, assertEquals } from "@std/assert";
import config from "../../deno.json" with { type: "json" };
import { testWith } from "../_permissions.ts";
import { blocks, documents, paths, prose, read } from "./_documents.ts";

function isPublished(path: string): boolean {
  return config.publish.include.some((each) => path === each || path.startsWith(`${each}/`));
}

/** The text below each heading of the first two levels, with the headings below it. */
function sectionsOf(document: string): string[] {
  return document.replaceAll(/^(```+)[^]*?^\1$/gm, (block) => block.replaceAll(/^#/gm, " #"))
    .split(/^(?=##? )/m);
}

/** Names in a section, of files that are not published and of tasks that a reader of the package lacks. */
function unknownIn(section: string, files: readonly string[], tasks: readonly string[]): string[] {
  const named = [...section.matchAll(/`([^`\n]+)`/g)].map(([, code]) => code!)
    .filter((code) => files.includes(code));
  const called = [...section.matchAll(/\bdeno(?:@[\d.]+)? task ([a-z][\w:-]*)/g)]
    .map(([, task]) => task!).filter((task) => !tasks.includes(task));
  return [...named, ...called];
}

testWith(["read"], "documents that are published say what only the repository has", async () => {
  const files = (await paths()).filter((path) => !isPublished(path) && /\/|\.md$/.test(path));
  const [{ tasks }] = blocks(await read("README.md"), "json").map((block) => JSON.parse(block));
  const unexplained: string[] = [];
  let count = 0;
  for (const [path, document] of await documents()) {
    if (!isPublished(path) || path === "CHANGELOG.md") continue;
    for (const section of sectionsOf(document)) {
      const unknown = unknownIn(section, files, Object.keys(tasks));
      count += unknown.length;
      if (/\b(?:repository|checkout)\b/.test(section)) continue;
      unexplained.push(...unknown.map((name) => `${path}: ${name}`));
    }
  }
  assertEquals(unexplained, []);
  assert(count > 10);
});

testWith(["read"], "documents that are published link to what is published with them", async () => {
  const all = [...await documents()].filter(([path]) =>
    path.startsWith("docs/") || isPublished(path)
  );
  const broken: string[] = [];
  for (const [path, document] of all) {
    assert(isPublished(path), `${path} is not published`);
    for (const [, target] of prose(document).matchAll(/\]\(([^)\s#]+)[^)\s]*\)/g)) {
      if (/^\w+:/.test(target!)) continue;
      const file = new URL(target!, `file:///${path}`).pathname.slice(1);
      if (!isPublished(file)) broken.push(`${path}: ${target}`);
    }
  }
  assertEquals(broken, []);
  assert(all.length > 8);
});
