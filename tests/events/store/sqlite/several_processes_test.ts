import { assert, assertEquals } from "@std/assert";
import { withFolder } from "../../../_folder.ts";
import { testWith } from "../../../_permissions.ts";
import type { Written } from "./_turns_writer.ts";

/** Time for which the processes write, and in which a loaded machine starts them. */
const [FOR_MS, STARTING_MS] = [3_000, 5_000] as const;

/** Share of the changes that each process makes at least, of what it would have if all had the same. */
const FAIR = 0.4;

/** Longest time of a change: a sender waits for 5.5 s at most. */
const LONGEST_MS = 2_000;

async function write(path: string, beginsAt: number): Promise<Written> {
  const script = new URL("./_turns_writer.ts", import.meta.url).pathname;
  const flags = ["run", "-A", "--no-check", "--cached-only"];
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: [...flags, script, path, String(beginsAt), String(FOR_MS)],
    stderr: "inherit",
  }).output();
  return JSON.parse(new TextDecoder().decode(stdout));
}

for (const processes of [2, 3]) {
  testWith(
    ["read", "write", "run"],
    `${processes} processes that write into one file without a pause take fair turns`,
    () =>
      withFolder(async (folder) => {
        const beginsAt = Date.now() + STARTING_MS;
        const all = await Promise.all(
          Array.from({ length: processes }, () => write(`${folder}/store.db`, beginsAt)),
        );
        assertEquals(all.map(({ error }) => error), all.map(() => undefined));
        const mean = all.reduce((sum, { changes }) => sum + changes, 0) / processes;
        const shown = JSON.stringify(all);
        assert(all.every(({ changes }) => changes > FAIR * mean), shown);
        assert(all.every(({ longestMs }) => longestMs < LONGEST_MS), shown);
      }),
  );
}
