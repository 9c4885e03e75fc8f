/**
 * Installs what the tests need, so that nothing is downloaded inside one of them: `deno task test` begins
 * with it. What is there already is not asked for again.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import config from "../deno.json" with { type: "json" };
import { findRuntime } from "./deploy/_runtime.ts";
import { NPM, PACKAGES } from "./publish/_packages.ts";

const ROOT = new URL("../", import.meta.url);

/** Runs a program to its end, with the user's own environment: it tells where to download from. */
async function run(cwd: URL | string, program: string, ...args: string[]): Promise<void> {
  const command = new Deno.Command(program, { args, cwd, stdout: "null", stderr: "inherit" });
  const { success } = await command.output();
  if (!success) throw new Error(`Cannot install what the tests need: ${args.join(" ")} failed`);
}

const deno = (cwd: URL, ...args: string[]) => run(cwd, Deno.execPath(), ...args);

async function installBundler(folder: string): Promise<void> {
  const file = fileURLToPath(new URL("tests/_deno_version.ts", ROOT));
  await deno(ROOT, "bundle", "--quiet", "--output", `${folder}/bundle.js`, file);
}

/** Time after which a download is given up, in milliseconds. */
const TIMEOUT_MS = 60_000;

/** The runtime of `deno compile`, into Deno's cache. Where it cannot be had, the test that needs it is skipped. */
async function installRuntime(folder: string): Promise<void> {
  if (await findRuntime() !== undefined) return;
  const file = fileURLToPath(new URL("tests/_deno_version.ts", ROOT));
  const args = ["compile", "--quiet", "--no-check", "--exclude-unused-npm"];
  const silent = { stdout: "null", stderr: "null" } as const;
  await new Deno.Command(Deno.execPath(), {
    ...{ args: [...args, "--output", `${folder}/compiled`, file], cwd: ROOT, ...silent },
    signal: AbortSignal.timeout(TIMEOUT_MS),
  }).output();
}

/** Into npm's cache. Without npm, the tests that need it are skipped. */
async function installForNpm(folder: string): Promise<void> {
  const versionOf = (name: keyof typeof config.imports) => config.imports[name].replace(/^.*@/, "");
  const own = ["@opentelemetry/api", "croner", "pg"] as const;
  const ownVersions = Object.fromEntries(own.map((name) => [name, versionOf(name)]));
  const dependencies = { ...PACKAGES, ...ownVersions };
  await Deno.writeTextFile(`${folder}/package.json`, JSON.stringify({ dependencies }));
  try {
    await run(folder, NPM, "install", "--no-audit", "--no-fund", "--prefer-offline", "--silent");
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

if (import.meta.main) {
  console.log("Installing what the tests need");
  await deno(ROOT, "install", "--quiet");
  await deno(new URL("dev/bench/", ROOT), "install", "--quiet");
  // As a user of the package resolves its dependencies.
  await deno(ROOT, "cache", "--quiet", "--no-lock", ...Object.values(config.exports));
  const folder = await Deno.makeTempDir();
  try {
    await installBundler(folder);
    await installRuntime(folder);
    await installForNpm(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
