import { withFolder } from "./_folder.ts";
import { testWith } from "./_permissions.ts";
import { testDenokv } from "./events/store/kv/_denokv.ts";

/** Registers a test once for each kind of KV: in memory, in a file, and on a server. */
export function testKv(
  name: string,
  fn: (kv: Deno.Kv, other: () => Promise<Deno.Kv>) => Promise<void>,
): void {
  Deno.test(`${name} [memory]`, async () => {
    using kv = await Deno.openKv(":memory:");
    await fn(kv, () => Promise.resolve(kv));
  });
  testWith(
    ["read", "write"],
    `${name} [file]`,
    () => withFolder((folder) => at(`${folder}/kv.db`)),
  );
  testDenokv(["read", "write", "net", "run", "env"], `${name} [denokv]`, at);

  async function at(url: string): Promise<void> {
    using kv = await Deno.openKv(url);
    const others: Deno.Kv[] = [];
    try {
      await fn(kv, async () => {
        others.push(await Deno.openKv(url));
        return others.at(-1)!;
      });
    } finally {
      for (const other of others) other.close();
    }
  }
}
