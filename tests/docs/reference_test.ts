import { assert, assertEquals, assertGreater, assertLessOrEqual } from "@std/assert";
import { runDeno } from "../../dev/harness/run.ts";
import config from "../../deno.json" with { type: "json" };
import { testWith } from "../_permissions.ts";
import { ROOT } from "./_documents.ts";

/** Most names of the root: a reader of its documentation has to find what an app needs. */
const MAX_ROOT_NAMES = 84;

interface Tag {
  readonly kind: string;
  readonly doc?: string;
}

interface Documented {
  readonly jsDoc?: { readonly tags?: readonly Tag[] };
}

interface Symbol extends Documented {
  readonly name: string;
  /** On Deno 2.5; "import" is none of the entry point's own. */
  readonly kind?: string;
  readonly declarations?: readonly Documented[];
}

/** Output of `deno doc --json`, whose nodes are a list of symbols on Deno 2.5. */
interface Documentation {
  readonly nodes: readonly Symbol[] | Readonly<Record<string, { symbols?: readonly Symbol[] }>>;
}

/** Reads the symbols of an entry point, with their categories. */
async function categories(entrypoint: string): Promise<Map<string, string | undefined>> {
  const args = ["doc", "--json", new URL(entrypoint, ROOT).pathname];
  const { nodes }: Documentation = JSON.parse((await runDeno(args)).stdout);
  const symbols = Array.isArray(nodes)
    ? nodes as readonly Symbol[]
    : Object.values(nodes).flatMap(({ symbols = [] }) => symbols);
  const own = symbols.filter(({ name, kind }) => name !== "" && kind !== "import");
  const found = new Map<string, string | undefined>();
  for (const { name, declarations = [], ...symbol } of own) {
    const tags = [symbol, ...declarations].flatMap(({ jsDoc }) => jsDoc?.tags ?? []);
    const category = tags.find(({ kind }) => kind === "category")?.doc;
    found.set(name, found.get(name) ?? category); // overloads are symbols of their own on Deno 2.5
  }
  return found;
}

for (const [name, entrypoint] of Object.entries(config.exports)) {
  testWith(["read", "run"], `each name of ${name} is in a group of the reference`, async () => {
    const found = await categories(entrypoint);
    const without = [...found].filter(([, category]) => category === undefined);
    assertEquals(without.map(([name]) => name), []);
  });

  testWith(["read"], `the page of ${name} has an example`, async () => {
    const text = await Deno.readTextFile(new URL(entrypoint, ROOT));
    const page = /^\/\*\*[^]*?@module\n \*\//.exec(text)?.[0] ?? "";
    assert(/ \* @example.*\n \* ```ts\n/.test(page), `${entrypoint} begins with no example`);
  });
}

testWith(["read", "run"], "the root has few names, in groups of some size", async () => {
  const found = await categories("mod.ts");
  assertGreater(found.size, 50);
  assertLessOrEqual(found.size, MAX_ROOT_NAMES);
  const sizes = Map.groupBy(found.values(), (category) => category);
  // A group of one is a mistake in spelling, or a name that belongs elsewhere.
  assertEquals([...sizes].filter(([, { length }]) => length < 4).map(([category]) => category), []);
});
