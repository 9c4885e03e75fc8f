import config from "../../deno.json" with { type: "json" };
import { type Publication, startRegistry } from "./_stand_in_registry.ts";
import { removeLinks } from "./without_links.ts";

const ROOT = new URL("../../", import.meta.url);

/** A package that `deno publish` has sent, and the registry that has it. */
export interface PublishedHere {
  readonly publication: Publication;
  /** The value for `JSR_URL`. */
  readonly url: string;
}

/** Options of {@linkcode publishHere}. */
export interface PublishHereOptions {
  /** Variables for `deno publish`, beside those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** False to leave out the types, which take most of the time. */
  readonly areTypesChecked?: boolean;
}

/**
 * Publishes the package to a registry on this machine: a copy of it, without `links`. All that `deno
 * publish` checks is checked.
 *
 * @param fn Is given what was published, while the registry serves it.
 * @param options Variables, and whether the types are checked.
 * @throws {Error} If `deno publish` refuses.
 */
export async function publishHere<T>(
  fn: (published: PublishedHere) => Promise<T>,
  { env = {}, areTypesChecked = true }: PublishHereOptions = {},
): Promise<T> {
  const folder = await Deno.makeTempDir({ prefix: "edge-base-publish-" });
  try {
    const staged = new URL(`file:///${folder.replaceAll("\\", "/").replace(/^\//, "")}/package/`);
    await Deno.mkdir(staged);
    for (const name of config.publish.include) {
      await Deno.mkdir(new URL(".", new URL(name, staged)), { recursive: true });
      await copy(new URL(name, ROOT), new URL(name, staged));
    }
    await removeLinks(staged);
    await using registry = await startRegistry();
    const flags = areTypesChecked ? [] : ["--no-check"];
    await publish(staged, flags, { ...env, JSR_URL: registry.url, NO_COLOR: "1" });
    return await fn({ publication: registry.published.get(config.name)!, url: registry.url });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function publish(
  staged: URL,
  flags: readonly string[],
  env: Record<string, string>,
): Promise<void> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["publish", "--allow-dirty", "--token", "none", "--quiet", ...flags],
    cwd: staged,
    env,
  }).output();
  if (success) return;
  const output = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes)).join("");
  throw new Error(`Cannot publish: deno publish refuses\n${output}`);
}

async function copy(from: URL, to: URL): Promise<void> {
  if (!(await Deno.stat(from)).isDirectory) return await Deno.copyFile(from, to);
  await Deno.mkdir(to);
  for await (const { name } of Deno.readDir(from)) {
    await copy(new URL(`${from}/${name}`), new URL(`${to}/${name}`));
  }
}
