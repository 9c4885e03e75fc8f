import { assertEquals } from "@std/assert";
import { withFolder } from "../../_folder.ts";
import { testWith } from "../../_permissions.ts";
import { until } from "../worker/_worker.ts";
import { IN_FILES, openOn, REFUSED } from "./_file_app.ts";

/** Takes a file away. It is not removed: a run that keeps what tests have written would leave it there. */
const lose = (path: string) => Deno.rename(path, `${path}.lost`);

const LOSSES: Readonly<Record<string, (path: string) => Promise<void>>> = {
  deleted: lose,
  "deleted but for its database": (path) => lose(`${path}-wal`),
  "deleted as to its locks": (path) => lose(`${path}-shm`),
  replaced: async (path) => {
    await Deno.copyFile(path, `${path}.new`);
    await Deno.rename(`${path}.new`, path);
  },
};

/** Registers a test on the file of each engine. */
function testFile(
  name: (file: string) => string,
  fn: (engine: keyof typeof IN_FILES, path: string) => Promise<void>,
): void {
  for (const engine of Object.keys(IN_FILES) as (keyof typeof IN_FILES)[]) {
    testWith(["read", "write"], name(`${engine} file`), async () => {
      if (Deno.build.os !== "windows") await withFolder((folder) => fn(engine, `${folder}/a.db`));
    });
  }
}

for (const [what, loseAs] of Object.entries(LOSSES)) {
  testFile(
    (file) => `an app whose ${file} is ${what} takes nothing more, and says so once`,
    async (engine, path) => {
      await using app = await openOn(engine, path);
      assertEquals([await app.isReady(), await app.deliver("d1")], [true, [200, null]]);
      await loseAs(path);
      await until(async () => !await app.isReady());
      assertEquals([await app.deliver("d2"), await app.deliver("d3")], [REFUSED, REFUSED]);
      assertEquals(app.lines("file of the database"), [["error", what.split(" ")[0]]]);
    },
  );
}

testFile(
  (file) => `an app whose ${file} is put back takes deliveries again, and loses none`,
  async (engine, path) => {
    const taken: string[] = [];
    {
      await using app = await openOn(engine, path);
      assertEquals(await app.deliver("d1"), [200, null]);
      await Deno.rename(path, `${path}.elsewhere`);
      // What is taken before the loss is noticed is in the file as well.
      for (let i = 2; await app.isReady(); i++) {
        const [status] = await app.deliver(`d${i}`);
        if (status === 200) taken.push(`d${i}`);
      }
      await Deno.rename(`${path}.elsewhere`, path);
      await until(app.isReady);
      assertEquals(await app.deliver("last"), [200, null]);
    }
    await using again = await openOn(engine, path);
    for (const id of ["d1", ...taken, "last"]) {
      assertEquals((await again.events.get(`forge:${id}`))?.id, `forge:${id}`);
    }
  },
);
