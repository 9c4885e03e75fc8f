/**
 * Runs `deno doc --lint` over all exports of the package, and leaves out its one false alarm: a type
 * of another package, from npm or resolved through `links`, counts as private.
 *
 * @module
 */
import config from "../deno.json" with { type: "json" };

/** The types of other packages that are part of the public API. */
const FOREIGN_TYPES = [
  ...["Context", "HTTPException", "Hono", "MiddlewareHandler"],
  ...["operations", "Update"],
];

const FALSE_ALARM = new RegExp(`private-type-ref.*private type '(${FOREIGN_TYPES.join("|")})'`);

const { code, stderr } = await new Deno.Command(Deno.execPath(), {
  args: ["doc", "--lint", ...Object.values(config.exports)],
  env: { NO_COLOR: "1" },
  stdout: "null",
  stderr: "piped",
}).output();

// Diagnostics are separated by two empty lines; the last part is the count of them.
const diagnostics = new TextDecoder().decode(stderr).split("\n\n\n");
const summary = diagnostics.pop() ?? "";
const mistakes = diagnostics.filter((diagnostic) => !FALSE_ALARM.test(diagnostic));
const expected = code === 0 ||
  summary.includes(`Found ${diagnostics.length} documentation lint error`);
if (!expected) mistakes.push(summary);
if (mistakes.length > 0) {
  console.error(mistakes.join("\n\n"));
  Deno.exit(1);
}
console.log(`Documentation is complete (${diagnostics.length} false alarms left out)`);
