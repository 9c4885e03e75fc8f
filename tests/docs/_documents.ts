/** The root of the repository. */
export const ROOT: URL = new URL("../../", import.meta.url);

/**
 * Folders that a fresh checkout does not have: installed packages, data of apps, what git keeps.
 */
const FOREIGN = new Set([".git", "node_modules", "data", "coverage"]);

/** The repository's documents, by path. */
export async function documents(): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const folder of ["", "docs/", "deploy/", "dev/bench/"]) {
    for await (const { name, isFile } of Deno.readDir(new URL(folder, ROOT))) {
      if (!isFile || !name.endsWith(".md")) continue;
      found.set(folder + name, await read(folder + name));
    }
  }
  return found;
}

/** Reads a file of the repository. */
export async function read(path: string): Promise<string> {
  return (await Deno.readTextFile(new URL(path, ROOT))).replaceAll("\r\n", "\n");
}

/** All files and folders of the repository, folders with a slash at their end. */
export async function paths(folder = ""): Promise<string[]> {
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(new URL(folder || ".", ROOT))) {
    if (FOREIGN.has(name)) continue;
    if (!isDirectory) found.push(folder + name);
    else found.push(`${folder}${name}/`, ...await paths(`${folder}${name}/`));
  }
  return found;
}

/** A document without its blocks of code. */
export function prose(document: string): string {
  return document.replaceAll(/^( *)```[^]*?^\1```$/gm, "");
}

/** The cells of a document's tables, a row each, without their heads. */
export function rows(document: string): string[][] {
  const withoutHeads = prose(document).replaceAll(/^\|.*\|\n\|[-| :]+\|$/gm, "");
  return [...withoutHeads.matchAll(/^\|(.*)\|$/gm)].map(([, row]) =>
    row!.split("|").map((cell) => cell.trim())
  );
}

/** The blocks of code of a kind, such as `sh backup`. */
export function blocks(document: string, kind: string): string[] {
  return [...document.matchAll(/^```([^\n]*)\n([^]*?)^```$/gm)].filter(([, of]) => of === kind)
    .map(([, , code]) => code!);
}
