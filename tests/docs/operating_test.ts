import { assertEquals } from "@std/assert";
import config from "../../deno.json" with { type: "json" };
import { testWith } from "../_permissions.ts";
import { paths, read, rows } from "./_documents.ts";

/** A code, as `X-Error-Code` has it. */
const CODE = /`([A-Z]+(?:_[A-Z0-9]+)*)`/g;

/** The sources of the package, without their comments. */
async function sources(): Promise<string[]> {
  const published = config.publish.include;
  const modules = (await paths()).filter((path) =>
    path.endsWith(".ts") && published.some((each) => path === each || path.startsWith(`${each}/`))
  );
  const texts = await Promise.all(modules.map(read));
  return texts.map((text) => text.replaceAll(/\/\*\*[^]*?\*\//g, ""));
}

/** Finds what the patterns match in the sources, each once, sorted. */
async function found(...patterns: readonly RegExp[]): Promise<string[]> {
  const all = (await sources()).flatMap((source) =>
    patterns.flatMap((pattern) => [...source.matchAll(pattern)].map(([, text]) => text!))
  );
  return unique(all);
}

function unique(texts: readonly string[]): string[] {
  return [...new Set(texts)].sort();
}

/** Cuts out the text between two headings. */
async function section(path: string, heading: string, next: string): Promise<string> {
  const document = await read(path);
  const start = document.indexOf(`\n${heading}\n`);
  return document.slice(start, document.indexOf(`\n${next}`, start + 1));
}

function codesIn(text: string): string[] {
  return unique([...text.matchAll(CODE)].map(([, code]) => code!));
}

/** The codes in errors that are thrown, and the codes that stand for a status. */
const THROWN = [/\b(?:code: |unavailable\()"([A-Z]\w+)"/g];
const BY_STATUS = /^ {2}\d{3}: \["([A-Z]\w+)"/gm;

/** The codes of them that are answered without an error that was thrown, or for any other. */
const OWN = /^ {2}(?:404|405|500): \["([A-Z]\w+)"/gm;

/** The codes that the table begins its rows with, and those that the text beside it names. */
async function documentedCodes(): Promise<{ table: string[]; text: string[] }> {
  const guide = await section("docs/http.md", "## What is answered", "##");
  const table = unique(rows(guide).flatMap(([code]) => codesIn(code!)));
  return { table, text: codesIn(guide.replaceAll(/^\|.*$/gm, "")) };
}

testWith(["read"], "docs/http.md tells all codes that are answered", async () => {
  assertEquals((await documentedCodes()).table, await found(...THROWN, OWN));
});

testWith(["read"], "docs/http.md and ErrorCode name the codes by status as well", async () => {
  const codes = await found(...THROWN, BY_STATUS);
  const { table, text } = await documentedCodes();
  assertEquals(unique([...table, ...text]), codes);
  assertEquals(await found(/^ {2}\| "([A-Z]\w+)"$/gm), codes);
});

testWith(["read"], "docs/operating.md explains all log messages", async () => {
  const messages = await found(
    /writeLog\(\s*[^,]+,\s*(?:"\w+"|\w+),\s*["`]([a-z][^"`$]+)/g,
    /[rR]eport(?:End)?\((?:"\w+", )?"([a-z][^"]+ [^"]+)"/g,
    /\.lose\("([^"]+)"/g,
    /\bmessage: "([a-z][^"]+)"/g,
  );
  const table = rows(await section("docs/operating.md", "### Log messages", "##"));
  const documented = table.flatMap(([_, cell]) =>
    [...cell!.matchAll(/`([^`]+)`/g)].map(([, of]) => of!)
  );
  assertEquals(documented.map((message) => message.replace("...", "")).sort(), messages);
});

testWith(["read"], "docs/operating.md lists all metrics", async () => {
  const table = rows(await section("docs/operating.md", "### Metrics", "###"));
  const documented = table.map(([name]) => name!.replaceAll("`", ""));
  const metrics = await found(
    /\b(?:counter|seconds|create\w+)\(\s*"((?:messaging|edge_base)[^"]+)"/g,
  );
  assertEquals(documented.sort(), metrics);
});
