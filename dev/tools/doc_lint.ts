/**
 * Checks that all of the public API is documented: each entrypoint has a module documentation with an
 * example, and each symbol and member a text.
 *
 * The second is `deno doc --lint`, without its one false alarm: a type of another package, from npm or
 * resolved through `links`, counts as private.
 *
 * @module
 */
import config from "../../deno.json" with { type: "json" };

/** The types of other packages that are part of the public API. */
const FOREIGN_TYPES = [
  ...["Context", "HTTPException", "Hono", "MiddlewareHandler"],
  ...["operations", "Update"],
];

const FALSE_ALARM = new RegExp(`private-type-ref.*private type '(${FOREIGN_TYPES.join("|")})'`);

/** The comment that a module begins with. */
const MODULE_DOC = /^\/\*\*(?:[^*]|\*(?!\/))*@module/;

/** An example in it. */
const EXAMPLE = /@example\n \* ```\w+\n/;

async function moduleMistakes(entrypoint: string): Promise<string[]> {
  const text = await Deno.readTextFile(new URL(`../../${entrypoint}`, import.meta.url));
  const [documentation] = MODULE_DOC.exec(text.replaceAll("\r\n", "\n")) ?? [];
  if (documentation === undefined) return [`${entrypoint} has no module documentation`];
  return EXAMPLE.test(documentation) ? [] : [`${entrypoint} has no example`];
}

const entrypoints = Object.values(config.exports);
const mistakes = (await Promise.all(entrypoints.map(moduleMistakes))).flat();

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
