/**
 * Publishes the package to a registry on this machine, and looks at what JSR would have been sent: that
 * it is the files that users need and no others, and that it depends on the packages of `deno.json` by
 * their own names, whatever `links` puts in their place here.
 *
 * @module
 */
import config from "../../deno.json" with { type: "json" };
import { publishHere } from "./_publish_here.ts";
import { dependenciesOf, reachableFrom } from "./_published_modules.ts";

/** Files that are published beside modules. */
const DOCUMENTS = [
  "/CHANGELOG.md",
  "/LICENSE",
  "/README.md",
  "/SECURITY.md",
  "/deno.json",
  "/llms.txt",
  "/llms-full.txt",
];

/** Tells whether a file is one that users read: a document, or what documents show or have to copy. */
const isRead = (path: string) =>
  /^\/(?:docs|examples)\//.test(path) || path === "/dev/bench/results.svg";

await publishHere(({ publication: { name, version, exports, files } }) => {
  const mistakes: string[] = [];
  const read = [...files.keys()].filter(isRead);
  const needed = new Set([...DOCUMENTS, ...read, ...reachableFrom(Object.values(exports), files)]);
  for (const path of needed) if (!files.has(path)) mistakes.push(`${path} is missing`);
  for (const path of files.keys()) {
    if (!needed.has(path)) mistakes.push(`${path} is published, and no entrypoint needs it`);
  }
  const known = new Set(Object.values(config.imports));
  const dependencies = dependenciesOf(files);
  for (const each of dependencies) {
    if (!known.has(each)) mistakes.push(`${each} is not among the imports of deno.json`);
  }
  for (const mistake of mistakes) console.error(mistake);
  if (mistakes.length > 0) Deno.exitCode = 1;
  const bytes = [...files.values()].reduce((sum, { length }) => sum + length, 0);
  console.log(`${name}@${version}: ${files.size} files, ${Math.round(bytes / 1024)} KiB`);
  console.log(`depends on ${dependencies.join(", ")}`);
  return Promise.resolve();
});
