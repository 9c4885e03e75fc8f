import { assert, assertEquals } from "@std/assert";
import config from "../../deno.json" with { type: "json" };
import { testWith } from "../_permissions.ts";
import { documents, paths, prose } from "./_documents.ts";

/** Links of a document within its own repository: a file, a place in one, or both. */
function linksOf(document: string): string[] {
  return [...prose(document).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target!)
    .filter((target) => !/^\w+:/.test(target));
}

/** The places that can be linked to: headings, as GitHub names them. */
function anchorsOf(document: string): string[] {
  return [...prose(document).matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading!.toLowerCase().replaceAll(/[^\p{L}\p{N} _-]/gu, "").replaceAll(" ", "-")
  );
}

/** Names in a document that are set in the type of code. */
function codeOf(document: string): string[] {
  return [...prose(document).matchAll(/`([^`\n]+)`/g)].map(([, code]) => code!);
}

/** Tells whether there is what a document names: a path, of which `*` leaves a part open. */
function isThere(named: string, all: readonly string[]): boolean {
  const escaped = named.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&").replaceAll("\\*", "[^/]*");
  const pattern = new RegExp(`^${escaped}/?$`);
  return all.some((path) => pattern.test(path));
}

testWith(["read"], "documents link to files and places that are there", async () => {
  const all = await documents();
  const files = await paths();
  const broken: string[] = [];
  let count = 0;
  for (const [path, document] of all) {
    for (const link of linksOf(document)) {
      const [file, anchor] = link.split("#");
      const target = file ? new URL(file, `file:///${path}`).pathname.slice(1) : path;
      const found = isThere(target, files) &&
        (!anchor || anchorsOf(all.get(target) ?? "").includes(anchor));
      if (!found) broken.push(`${path}: ${link}`);
      count++;
    }
  }
  assertEquals(broken, []);
  assert(count > 10);
});

testWith(["read"], "documents name files and folders that are there", async () => {
  const files = await paths();
  const tops = new Set(files.filter((path) => /^[^/]+\/$/.test(path)));
  const missing: string[] = [];
  let count = 0;
  for (const [path, document] of await documents()) {
    const named = codeOf(document).filter((code) => /^[\w@.*-]+(\/[\w@.*-]+)*\/?$/.test(code))
      .filter((code) => tops.has(`${code.split("/")[0]}/`) && code.includes("/"))
      // Made by who follows the document, and kept out of git.
      .filter((code) => !code.endsWith(".env"));
    missing.push(...named.filter((each) => !isThere(each, files)).map((at) => `${path}: ${at}`));
    count += named.length;
  }
  assertEquals(missing, []);
  assert(count > 50);
});

testWith(["read"], "documents name tasks that there are", async () => {
  const missing: string[] = [];
  for (const [path, document] of await documents()) {
    for (const [, task] of document.matchAll(/\b(?:deno(?:@[\d.]+)?) task ([a-z][\w:-]*)/g)) {
      if (!(task! in config.tasks)) missing.push(`${path}: ${task}`);
    }
  }
  assertEquals(missing, []);
});
