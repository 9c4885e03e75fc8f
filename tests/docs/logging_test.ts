import { assertEquals } from "@std/assert";
import { testWith } from "../_permissions.ts";
import { blocks, documents, paths, read } from "./_documents.ts";

/** Calls that an example may make: with its own words, numbers, times, and types, whose form is checked. */
const OWN =
  /^console\.log\((?:"[\w ]*"|`\$\{imported\} imported, .*`|"received", event|(?:event\.)?type|payload\.at)\)$/;

/** Finds the calls of the console in an example. */
const callsIn = (code: string) => code.match(/\bconsole\.\w+\((?:[^()]|\([^()]*\))*\)/g) ?? [];

/** Comments of a module, where its examples are. */
const commentsIn = (code: string) => code.match(/^ *\/\*\*[^]*?\*\//gm)?.join("\n") ?? "";

// Its lines are no records of the log, so a title with a line break would forge one.
testWith(["read"], "no example writes to the console what others have written", async () => {
  const examples: [path: string, code: string][] = [];
  for (const [path, text] of await documents()) {
    for (const kind of ["ts", "ts ignore"]) {
      for (const code of blocks(text, kind)) examples.push([path, code]);
    }
  }
  for (const path of await paths()) {
    if (!path.endsWith(".ts") || /^(?:tests|dev)\//.test(path)) continue;
    const code = await read(path);
    examples.push([path, path.startsWith("examples/") ? code : commentsIn(code)]);
  }
  const calls = examples.flatMap(([path, code]) => callsIn(code).map((call) => `${path}: ${call}`));
  const isOwn = (call: string) => OWN.test(call.slice(call.indexOf(": ") + 2));
  assertEquals(calls.filter((call) => !isOwn(call)), []);
  assertEquals(calls.length > 2, true);
});
