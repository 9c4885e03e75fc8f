/**
 * Looks for the secrets that the tests use in what a run of them has written: `find_secrets.ts PATH...`. A
 * path is a file with the run's own output, or a folder that `tests/_record.ts` has filled. It names the
 * secrets that it finds, plain, in base64, hex or URL encoding, and where, and ends with exit code 1.
 *
 * @module
 */
import { TEST_SECRETS } from "../../testing/mod.ts";
import { CANARIES } from "../../tests/apps/_canary_requests.ts";
import { SECRETS } from "../../tests/apps/_confined.ts";
import { formsOf } from "../../tests/_canaries.ts";
import { FORGE_SECRET, MESSENGER_SECRET } from "../harness/sign.ts";

const ALL: Readonly<Record<string, string>> = {
  ...CANARIES,
  ...TEST_SECRETS,
  FORGE_SECRET,
  MESSENGER_SECRET,
  FORGE_WEBHOOK_TOKEN: SECRETS.FORGE_WEBHOOK_TOKEN,
};

/** A payload is stored, that is what a KV is for. */
const { payload: _, ...NOT_STORED } = ALL;

/** Sizes of the parts in which a file is searched, and of their overlap. */
const WINDOW = { size: 64 * 1024 * 1024, overlap: 4_096 };

if (Deno.args.length === 0) throw new TypeError("Usage: find_secrets.ts PATH...");
const found: string[] = [];
let files = 0;
for (const path of Deno.args) {
  const before = files;
  await search(path, false);
  if (files === before) throw new TypeError(`Nothing was recorded in ${path}`);
}
for (const each of found) console.error(`The tests have written a secret: ${each}`);
console.error(`Looked for ${Object.keys(ALL).length} secrets in ${files} files`);
if (found.length > 0) Deno.exit(1);

async function search(path: string, stored: boolean): Promise<void> {
  const { isDirectory, mode } = await Deno.stat(path);
  if (isDirectory) {
    for await (const { name } of Deno.readDir(path)) {
      await search(`${path}/${name}`, stored || name === "kvs");
    }
    return;
  }
  files++;
  // A program that a test has built holds the published secrets of the console's examples.
  if (stored && (path.endsWith(".js") || ((mode ?? 0) & 0o100) !== 0)) return;
  const names = await findIn(path, stored ? NOT_STORED : ALL);
  found.push(...Array.from(names, (name) => `${name} in ${path}`));
}

/** Finds texts in a file in one pass: there are hundreds of forms, and hundreds of megabytes. */
async function findIn(path: string, texts: Readonly<Record<string, string>>): Promise<Set<string>> {
  const forms = new Map(
    Object.entries(texts).flatMap(([name, text]) => formsOf(text).map((form) => [form, name])),
  );
  const pattern = new RegExp([...forms.keys()].map(RegExp.escape).join("|"), "g");
  const names = new Set<string>();
  using file = await Deno.open(path);
  const window = new Uint8Array(WINDOW.size);
  const decoder = new TextDecoder("latin1");
  for (let kept = 0;;) {
    const count = await file.read(window.subarray(kept));
    if (count === null) return names;
    const text = decoder.decode(window.subarray(0, kept + count));
    for (const [form] of text.matchAll(pattern)) names.add(forms.get(form)!);
    window.copyWithin(0, Math.max(0, kept + count - WINDOW.overlap), kept + count);
    kept = Math.min(WINDOW.overlap, kept + count);
  }
}
