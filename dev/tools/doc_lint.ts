/**
 * Checks the documentation in the code: each entrypoint has a module documentation with an example, each
 * public symbol and member has a text, and every summary, public or not, opens with a noun or a verb.
 *
 * The texts are checked by `deno doc --lint`, without its one false alarm: it takes a type of another
 * package, from npm or resolved through `links`, for a private one.
 *
 * @module
 */
import config from "../../deno.json" with { type: "json" };
import { docSummariesOf } from "./_doc_summaries.ts";

const ROOT = new URL("../../", import.meta.url);

/** Types of other packages that are part of the public API. */
const FOREIGN_TYPES = [
  ...["Context", "HTTPException", "Hono", "MiddlewareHandler"],
  ...["operations", "SlackEvent", "Update", "View"],
];

const FALSE_ALARM = new RegExp(`private-type-ref.*private type '(${FOREIGN_TYPES.join("|")})'`);

/** Comment that a module begins with. */
const MODULE_DOC = /^\/\*\*(?:[^*]|\*(?!\/))*@module/;

/** Example in such a comment. */
const EXAMPLE = /@example\n \* ```\w+\n/;

async function moduleMistakes(entrypoint: string): Promise<string[]> {
  const text = await Deno.readTextFile(new URL(entrypoint, ROOT));
  const [documentation] = MODULE_DOC.exec(text.replaceAll("\r\n", "\n")) ?? [];
  if (documentation === undefined) return [`${entrypoint} has no module documentation`];
  return EXAMPLE.test(documentation) ? [] : [`${entrypoint} has no example`];
}

/** Finds the modules of a folder and of those in it. */
async function modulesIn(folder: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(new URL(folder || ".", ROOT))) {
    const path = folder + name;
    if (name.startsWith(".") || name === "node_modules") continue;
    if (isDirectory) found.push(...await modulesIn(`${path}/`));
    else if (name.endsWith(".ts")) found.push(path);
  }
  return found.sort();
}

async function summaryMistakes(path: string): Promise<string[]> {
  const summaries = docSummariesOf(await Deno.readTextFile(new URL(path, ROOT)));
  return summaries.filter(({ flaw }) => flaw !== undefined)
    .map(({ line, text, flaw }) => `${path}:${line}: the summary ${flaw}\n  ${text}`);
}

const entrypoints = Object.values(config.exports);
const mistakes = (await Promise.all(entrypoints.map(moduleMistakes))).flat();

const modules = await modulesIn("");
mistakes.push(...(await Promise.all(modules.map(summaryMistakes))).flat());

const { code, stderr } = await new Deno.Command(Deno.execPath(), {
  args: ["doc", "--lint", ...entrypoints],
  env: { NO_COLOR: "1" },
  stdout: "null",
  stderr: "piped",
}).output();

// Diagnostics are separated by two empty lines; the last part is the count of them.
const diagnostics = new TextDecoder().decode(stderr).split("\n\n\n");
const summary = diagnostics.pop() ?? "";
mistakes.push(...diagnostics.filter((diagnostic) => !FALSE_ALARM.test(diagnostic)));
const expected = code === 0 ||
  summary.includes(`Found ${diagnostics.length} documentation lint error`);
if (!expected) mistakes.push(summary);
if (mistakes.length > 0) {
  console.error(mistakes.join("\n\n"));
  Deno.exit(1);
}
console.log(`Documentation is complete (${diagnostics.length} false alarms left out)`);
