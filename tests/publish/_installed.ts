import type { PublishedHere } from "../../dev/tools/_publish_here.ts";
import { NPM, OFFLINE, PACKAGES } from "./_packages.ts";

/** Finds out why the package cannot be installed as npm does; undefined where it can. */
export async function missingForNpm(): Promise<string | undefined> {
  if (Deno.permissions.querySync({ name: "run" }).state !== "granted") return "needs --allow-run";
  if (!await succeeds(Deno.execPath(), "pack", "--help")) return "this Deno has no deno pack";
  for (const program of ["node", NPM]) {
    if (!await succeeds(program, "--version")) return `there is no ${program}`;
  }
  return undefined;
}

/** Tells whether a program is there and ends well. */
export async function succeeds(program: string, ...args: string[]): Promise<boolean> {
  try {
    return (await new Deno.Command(program, { args, stdout: "null", stderr: "null" }).output())
      .success;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** Runs a program to its end. */
export async function run(
  folder: string,
  env: Record<string, string>,
  program: string,
  ...args: string[]
): Promise<string> {
  const command = new Deno.Command(program, { args, cwd: folder, env: { ...OFFLINE, ...env } });
  const { success, stdout, stderr } = await command.output();
  const output = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes)).join("");
  if (!success) throw new Error(`${program} ${args.join(" ")} failed:\n${output}`);
  return output;
}

/** Writes files below a folder, with the folders on the way. */
async function writeAll(folder: string, files: ReadonlyMap<string, Uint8Array>): Promise<void> {
  for (const [path, bytes] of files) {
    await Deno.mkdir(`${folder}${path.slice(0, path.lastIndexOf("/"))}`, { recursive: true });
    await Deno.writeFile(`${folder}${path}`, bytes);
  }
}

/**
 * Installs what was published with npm, as JSR hands it to npm: packed by `deno pack`, which as JSR does
 * makes `@jsr/hono__hono` of `jsr:@hono/hono`. That scope is JSR's own registry's, so its two packages
 * are put in its place: Hono from npm, which is the same code, and the stand-in of `@std/crypto`.
 *
 * @returns The folder of a project that has it installed.
 */
export async function installWithNpm(
  { publication, url }: PublishedHere,
  folder: string,
): Promise<string> {
  const env = { JSR_URL: url, NO_COLOR: "1" };
  const project = `${folder}/project`;
  await writeAll(`${folder}/package`, publication.files);
  await pack(`${folder}/package`, env, `${project}/edge-base.tgz`);
  const crypto = await stdCrypto();
  await writeAll(`${folder}/crypto`, crypto);
  await pack(`${folder}/crypto`, env, `${project}/crypto.tgz`);
  const dependencies = {
    ...PACKAGES,
    "@org/edge-base": "file:./edge-base.tgz",
    "@jsr/std__crypto": "file:./crypto.tgz",
  };
  const overrides = {
    "@jsr/hono__hono": `npm:hono@${PACKAGES.hono}`,
    "@jsr/std__crypto": "$@jsr/std__crypto",
  };
  const json = { private: true, type: "module", dependencies, overrides };
  await Deno.writeTextFile(`${project}/package.json`, JSON.stringify(json));
  await run(project, env, NPM, "install", "--no-audit", "--no-fund", "--offline");
  return project;
}

async function pack(folder: string, env: Record<string, string>, to: string): Promise<void> {
  await Deno.mkdir(to.slice(0, to.lastIndexOf("/")), { recursive: true });
  await run(folder, env, Deno.execPath(), "pack", "--allow-dirty", "--output", to);
}

async function stdCrypto(): Promise<Map<string, Uint8Array>> {
  const files = new Map<string, Uint8Array>();
  for (const path of ["/deno.json", "/timing_safe_equal.ts"]) {
    const file = await Deno.readFile(new URL(`../../dev/links/std-crypto${path}`, import.meta.url));
    files.set(path, file);
  }
  return files;
}
