/**
 * Runs `deno publish --dry-run` on what will be published: a copy of the package without its
 * development files. In place, the dry run wants the folders named in `links` to be part of the
 * package, which they are not.
 *
 * @module
 */
import config from "../deno.json" with { type: "json" };

const ROOT = new URL("../", import.meta.url);

async function copy(from: URL, to: URL): Promise<void> {
  if (!(await Deno.stat(from)).isDirectory) return await Deno.copyFile(from, to);
  await Deno.mkdir(to);
  for await (const { name } of Deno.readDir(from)) {
    await copy(new URL(`${from}/${name}`), new URL(`${to}/${name}`));
  }
}

const folder = await Deno.makeTempDir({ prefix: "edge-base-publish-" });
try {
  const temporary = new URL(`file://${folder.replaceAll("\\", "/")}/`);
  await Deno.mkdir(new URL("package", temporary));
  await copy(new URL("links", ROOT), new URL("links", temporary));
  const published = config.publish.include.filter((name) => name !== "links");
  for (const name of published) {
    await copy(new URL(name, ROOT), new URL(`package/${name}`, temporary));
  }
  const links = config.links.map((link) => `.${link}`);
  await Deno.writeTextFile(
    new URL("package/deno.json", temporary),
    JSON.stringify({ ...config, links, publish: { include: published } }),
  );
  const { code } = await new Deno.Command(Deno.execPath(), {
    args: ["publish", "--dry-run", "--allow-dirty"],
    cwd: new URL("package", temporary),
  }).spawn().status;
  Deno.exitCode = code;
} finally {
  await Deno.remove(folder, { recursive: true });
}
