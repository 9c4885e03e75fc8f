/**
 * Makes `llms.txt` and `llms-full.txt` of the README and the documents: for programs that read. The first lists the
 * documents, each with what it is for; the second has all of them, one after the other, and the programs of `examples/`.
 *
 * @module
 */

/** A document: its path in the repository, and its text. */
export interface Document {
  readonly path: string;
  readonly text: string;
}

/** Reads the README, and the documents that its table of all documents links, in that order. */
export async function readDocuments(root: URL): Promise<Document[]> {
  const read = async (path: string) => ({
    path,
    text: await Deno.readTextFile(new URL(path, root)),
  });
  const readme = await read("README.md");
  const [, table = ""] = readme.text.split("\n## All documents\n");
  const links = new Set([...table.matchAll(/\]\(([\w/]+\.md)\)/g)].map(([, path]) => path!));
  links.delete("CHANGELOG.md");
  return [readme, ...await Promise.all([...links].map(read))];
}

/** Reads the programs of `examples/`, by name, each as a block of code. */
export async function readExamples(root: URL): Promise<Document[]> {
  const folder = new URL("examples/", root);
  const names = Array.from(Deno.readDirSync(folder), ({ name }) => name);
  const programs = names.filter((name) => name.endsWith(".ts")).sort();
  return await Promise.all(programs.map(async (name) => {
    const code = await Deno.readTextFile(new URL(name, folder));
    return { path: `examples/${name}`, text: `\`\`\`\`ts\n${code}\`\`\`\`` };
  }));
}

/** Makes the list: title and beginning of the first document, then a line for each other one. */
export function listOf([readme, ...others]: readonly Document[]): string {
  const lines = others.map((each) => `- [${titleOf(each)}](${each.path}): ${purposeOf(each)}`);
  return [
    `# ${titleOf(readme!)}`,
    `> ${purposeOf(readme!)}`,
    "## Documents",
    ["- [README](README.md): Installation, two bots, what is guaranteed.", ...lines].join("\n"),
    "## Optional",
    "- [All of it](llms-full.txt): The README, these documents and the programs of examples/.\n",
  ].join("\n\n");
}

/** Puts the texts together, each behind a line with its path. */
export function wholeOf(documents: readonly Document[]): string {
  return documents.map(({ path, text }) => `<!-- ${path} -->\n\n${text.trim()}\n`).join("\n");
}

function titleOf({ path, text }: Document): string {
  const [, title] = /^# (.+)$/m.exec(text) ?? [];
  if (title === undefined) throw new Error(`${path} has no title`);
  return title;
}

/** Shortest text that says what a page is for: a shorter first sentence gets the second one as well. */
const MIN_PURPOSE = 50;

/** The beginning of the first paragraph, without links. */
function purposeOf({ path, text }: Document): string {
  const [, paragraph] = /^# .+\n+((?:[^\n#!|].*\n)+)/m.exec(text) ?? [];
  if (paragraph === undefined) throw new Error(`${path} does not begin with what it is for`);
  const plain = paragraph.trim().replaceAll(/\s+/g, " ")
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1");
  const [first = plain, second = ""] = plain.match(/.+?[.:](?= [A-Z`]|$)/g) ?? [];
  return first.length < MIN_PURPOSE ? `${first}${second}` : first;
}

if (import.meta.main) {
  const root = new URL("../../", import.meta.url);
  const documents = await readDocuments(root);
  await Deno.writeTextFile(new URL("llms.txt", root), listOf(documents));
  const whole = wholeOf([...documents, ...await readExamples(root)]);
  await Deno.writeTextFile(new URL("llms-full.txt", root), whole);
}
