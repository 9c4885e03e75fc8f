import type { Publication } from "./_stand_in_registry.ts";

type Files = Publication["files"];

/** Imports of a module: `from "x"`, `import("x")` and `import "x"`; not a text that is or ends with `from`. */
const IMPORT = /\b(?<!")(?:from|import)\s*\(?\s*"([^"\s]+)"/g;

const decoder = new TextDecoder();

/** The specifiers that a module imports. Comments hold examples, and do not count. */
function importsOf(module: Uint8Array<ArrayBuffer>): string[] {
  const code = decoder.decode(module).replaceAll(/\/\*[^]*?\*\//g, "").replaceAll(
    /^\s*\/\/.*$/gm,
    "",
  );
  return Array.from(code.matchAll(IMPORT), ([, specifier]) => specifier!);
}

/** The modules that these entrypoints load, themselves included, by path. */
export function reachableFrom(entrypoints: readonly string[], files: Files): Set<string> {
  const found = new Set<string>();
  const waiting = entrypoints.map((entrypoint) => new URL(entrypoint, "file:///").pathname);
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (found.has(path)) continue;
    found.add(path);
    const relative = importsOf(files.get(path) ?? new Uint8Array()).filter((to) =>
      to.startsWith(".")
    );
    waiting.push(...relative.map((to) => new URL(to, `file://${path}`).pathname));
  }
  return found;
}

/** The packages that the published modules import, as `deno.json` writes them, sorted. */
export function dependenciesOf(files: Files): string[] {
  const modules = [...files].filter(([path]) => path.endsWith(".ts"));
  const specifiers = modules.flatMap(([, module]) => importsOf(module))
    .filter((specifier) => !/^(\.|node:)/.test(specifier))
    .map((specifier) =>
      specifier.replace(/^(jsr|npm):\/?(@[^/]+\/[^/]+|[^@/]+@[^/]+).*$/, "$1:$2")
    );
  return [...new Set(specifiers)].sort();
}
