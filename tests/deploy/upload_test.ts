import { assert, assertEquals } from "@std/assert";
import { run, runDeno } from "../../dev/harness/run.ts";
import json from "../../deno.json" with { type: "json" };
import { testWith } from "../_permissions.ts";

/** In continuous integration a second run takes the packages from JSR, without `links`. */
const config: { readonly name: string; readonly links?: readonly string[] } = json;

const ROOT = new URL("../../", import.meta.url);

/** Files that must stay where they are: events and secrets. */
const PRIVATE = ["data/forge/kv.db", "deploy/forge.env", ".env"];

const read = (path: string) => Deno.readTextFile(new URL(path, ROOT));

/** The files of this repository that a module needs when it runs. */
async function filesOf(module: string): Promise<string[]> {
  const { stdout } = await runDeno(["info", "--json", module], { cwd: ROOT });
  const { modules } = JSON.parse(stdout);
  const specifiers = modules.map(({ specifier }: { specifier: string }) => specifier);
  const local = specifiers.filter((specifier: string) => specifier.startsWith(ROOT.href));
  assert(local.length > 20);
  // A clone of `denoland/std` is linked from beside the repository.
  const own = (config.links ?? []).filter((link) => link.startsWith(".//"));
  const linked = own.map((link) => `${link.replace(".//", "")}/deno.json`);
  const files = local.map((specifier: string) => specifier.slice(ROOT.href.length));
  return [...files, ...linked, "deno.json", "deno.lock"];
}

/** Tells whether a pattern names a file, or a folder that it is in. */
function covers(pattern: string, file: string): boolean {
  return file === pattern || file.startsWith(`${pattern}/`);
}

/** Fails unless the patterns cover all that is needed, nothing private, and each something. */
function assertCover(patterns: readonly string[], needed: readonly string[]): void {
  const isCovered = (file: string) => patterns.some((pattern) => covers(pattern, file));
  assertEquals(needed.filter((file) => !isCovered(file)), []);
  assertEquals(PRIVATE.filter(isCovered), []);
  // Where the packages come from JSR itself, nothing loads the stand-ins.
  const used = config.links ? patterns : patterns.filter((pattern) => pattern !== "links");
  const idle = used.filter((pattern) => !needed.some((file) => covers(pattern, file)));
  assertEquals(idle, []);
}

testWith(["read", "run"], ".dockerignore lets in what the apps load, and no more", async () => {
  const [first, ...lines] = (await read(".dockerignore")).trim().split("\n").filter((line) =>
    !line.startsWith("#")
  );
  assertEquals([first, ...lines.filter((line) => !line.startsWith("!"))], ["*"]);
  const apps = [...await filesOf("apps/forge.ts"), ...await filesOf("apps/messenger.ts")];
  assertCover(lines.map((line) => line.slice(1)), [...apps, "deploy/health.ts"]);
});

testWith(["read"], "deno.json has no 'deploy', which would hold for both apps", async () => {
  assertEquals(JSON.parse(await read("deno.json")).deploy, undefined);
});

testWith(["read", "run"], ".gitignore keeps secrets and events from deno deploy", async () => {
  const { stdout } = await run("git", ["check-ignore", "--no-index", ...PRIVATE], { cwd: ROOT });
  assertEquals(stdout.split("\n"), PRIVATE);
});
