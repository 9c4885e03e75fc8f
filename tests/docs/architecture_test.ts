import { assertEquals } from "@std/assert";
import { testWith } from "../_permissions.ts";
import { paths, read, rows } from "./_documents.ts";

/** Finds the files of its own repository that a module imports. */
const IMPORT = /^(?:import|export)\b[^;]*?from "(\.[^"]+)";/gm;

/** Reads the document's table of folders, and of those that each may import. */
async function importsInDocument(): Promise<Map<string, string[]>> {
  const table = rows(await read("ARCHITECTURE.md")).filter((row) => row.length === 3);
  const namesIn = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name!);
  return new Map(table.map(([folder, _, imports]) => [namesIn(folder!)[0]!, namesIn(imports!)]));
}

/** Reads which files each file of the package imports, the files of the table's folders. */
async function importsInFiles(folders: { has(folder: string): boolean }) {
  const found = new Map<string, readonly string[]>();
  for (const path of (await paths()).toSorted()) {
    if (!path.endsWith(".ts") || !folders.has(folderOf(path))) continue;
    const specifiers = [...(await read(path)).matchAll(IMPORT)].map(([, specifier]) => specifier!);
    const targetOf = (specifier: string) => new URL(specifier, `file:///${path}`).pathname.slice(1);
    found.set(path, specifiers.map(targetOf));
  }
  return found;
}

/** The folder of a path, as the document has it: `.` is the root. */
const folderOf = (path: string) => path.slice(0, path.lastIndexOf("/") + 1) || ".";

testWith(["read"], "ARCHITECTURE.md lists what each folder imports", async () => {
  const allowed = await importsInDocument();
  const found = new Map([...allowed.keys()].map((folder) => [folder, new Set<string>()]));
  const intruding: string[] = [];
  for (const [path, targets] of await importsInFiles(allowed)) {
    for (const target of targets.filter((target) => folderOf(target) !== folderOf(path))) {
      found.get(folderOf(path))!.add(folderOf(target));
      if (/(^|\/)_[^/]*$/.test(target)) intruding.push(`${path}: ${target}`);
    }
  }
  const sorted = (map: Map<string, Iterable<string>>) =>
    Object.fromEntries([...map].map(([folder, imports]) => [folder, [...imports].sort()]));
  assertEquals(sorted(found), sorted(allowed));
  assertEquals(intruding, []);
});

testWith(["read"], "no files of the package import each other in a circle", async () => {
  const imports = await importsInFiles(await importsInDocument());
  const circles: string[] = [];
  const seen = new Set<string>();
  const follow = (path: string, way: readonly string[]) => {
    const start = way.indexOf(path);
    if (start >= 0) circles.push([...way.slice(start), path].join(" > "));
    if (seen.has(path)) return;
    seen.add(path);
    for (const target of imports.get(path) ?? []) follow(target, [...way, path]);
  };
  for (const path of imports.keys()) follow(path, []);
  assertEquals(circles, []);
});

testWith(["read"], "ARCHITECTURE.md draws the changes that its table lists", async () => {
  const document = await read("ARCHITECTURE.md");
  const drawn = [...document.matchAll(/^ {2}(\S+) --> ([^\s:]+):/gm)]
    .map(([, from, to]) => `${from} ${to}`.replaceAll("[*]", ""));
  const listed = rows(document).filter((row) => row.length === 4)
    .map(([from, to]) => `${from} ${to}`.replaceAll("`", ""));
  assertEquals(listed.sort(), drawn.sort());
});

testWith(["read"], "ARCHITECTURE.md knows the states of an event", async () => {
  const [, type] = /type EventState = ([^;]+);/.exec(
    await read("events/store/event_record.ts"),
  )!;
  const states = type!.split("|").map((state) => state.trim().replaceAll('"', ""));
  const drawn = [...(await read("ARCHITECTURE.md")).matchAll(/--> (\w+):/g)].map(([, to]) => to!);
  assertEquals([...new Set(drawn)].sort(), states.sort());
});
