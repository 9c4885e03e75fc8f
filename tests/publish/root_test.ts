import { assertGreater, assertLessOrEqual } from "@std/assert";
import { testWith } from "../_permissions.ts";

/** Most names of the root: a reader of its documentation has to find what an app needs. */
const MAX_NAMES = 84;

interface Symbol {
  readonly name: string;
}

/** Output of `deno doc --json`, whose nodes are a list of symbols on Deno 2.5. */
interface Documentation {
  readonly nodes: readonly Symbol[] | Readonly<Record<string, { symbols?: readonly Symbol[] }>>;
}

function namesIn({ nodes }: Documentation): Set<string> {
  const symbols = Array.isArray(nodes)
    ? nodes as readonly Symbol[]
    : Object.values(nodes).flatMap(({ symbols = [] }) => symbols);
  return new Set(symbols.map(({ name }) => name).filter((name) => name !== ""));
}

testWith(["read", "run"], `the root exports at most ${MAX_NAMES} names`, async () => {
  const root = new URL("../../mod.ts", import.meta.url).pathname;
  const { stdout } = await new Deno.Command(Deno.execPath(), { args: ["doc", "--json", root] })
    .output();
  const { size } = namesIn(JSON.parse(new TextDecoder().decode(stdout)));
  assertGreater(size, 0);
  assertLessOrEqual(size, MAX_NAMES);
});
