import type { Subject } from "./subjects.ts";

const made = new Map<URL, Promise<URL>>();

/** The subject as one file, which `deno bundle` makes of its modules the first time it is asked for. */
export async function bundled(subject: Subject): Promise<Subject> {
  const script = made.get(subject.script) ?? bundle(subject.script);
  made.set(subject.script, script);
  return { ...subject, script: await script };
}

async function bundle(script: URL): Promise<URL> {
  const file = `${await Deno.makeTempDir({ prefix: "edge-base-bundle-" })}/server.js`;
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["bundle", "--quiet", "--minify", "--output", file, script.href],
    cwd: new URL(".", import.meta.url),
    stdout: "null",
    stderr: "piped",
  }).output();
  if (!success) throw new Error(`Cannot bundle ${script}: ${new TextDecoder().decode(stderr)}`);
  return new URL(`file://${file}`);
}
