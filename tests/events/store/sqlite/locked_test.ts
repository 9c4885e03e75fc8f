import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { NoTurnError } from "../../../../events/store/engine.ts";
import { Connection, isBusy } from "../../../../events/store/sqlite/_connection.ts";
import { delivery } from "../_events.ts";
import { openOn } from "../_file_app.ts";
import { withFolder } from "../../../_folder.ts";
import { testWith } from "../../../_permissions.ts";
import { testFile } from "./_stores.ts";

testFile(
  "all that waits for a locked file is refused in the time of one",
  async ({ store, path }) => {
    const other = new DatabaseSync(path);
    other.exec("begin immediate");
    const begun = performance.now();
    const first = Array.from({ length: 4 }, (_, i) => store.accept(delivery(`a${i}`)));
    const refused = await Promise.any(first).catch(({ errors }) => errors);
    assert(performance.now() - begun < 6_000);
    for (const error of refused) assert(error instanceof NoTurnError, String(error));
    // What comes later waits by itself.
    const later = [store.accept(delivery("b")), store.accept(delivery("c"))];
    other.exec("rollback");
    other.close();
    for (const { duplicate } of await Promise.all(later)) assertEquals(duplicate, false);
    assertEquals((await Array.fromAsync(store.list())).map(({ id }) => id).toSorted(), ["b", "c"]);
  },
);

testWith(
  ["read", "write"],
  "a start on a file that another program has locked says so, and how long it has waited",
  () =>
    withFolder(async (folder) => {
      const path = `${folder}/a.db`;
      const other = new DatabaseSync(path);
      other.exec("begin exclusive");
      const begun = performance.now();
      const { message } = await assertRejects(() => openOn("SQLite", path), Error);
      const [, seconds] =
        /^the SQLite file .*a\.db cannot be used: another program has locked it, and was waited for ([\d.]+) s: end that program, or the transaction that it has begun$/
          .exec(message) ?? [];
      assert(Math.abs(Number(seconds) - (performance.now() - begun) / 1_000) < 1, message);
      other.close();
      await (await openOn("SQLite", path))[Symbol.asyncDispose]();
    }),
);

testWith(
  ["read", "write"],
  "a statement that cannot be prepared while a file is locked can be tried again, and a wrong one cannot",
  () =>
    withFolder((folder) => {
      const other = new DatabaseSync(`${folder}/a.db`);
      other.exec("create table a (b); begin exclusive");
      const handle = new DatabaseSync(`${folder}/a.db`);
      const db = new Connection(handle);
      db.one("pragma busy_timeout = 5");
      const read = () => db.one("select count(*) as n from sqlite_schema");
      assert(isBusy(assertThrows(read)));
      const error = assertThrows(() => db.one("selec"), Error, "syntax error");
      assertEquals(isBusy(error), false);
      other.exec("commit");
      assertEquals({ ...read() }, { n: 1 });
      for (const each of [handle, other]) each.close();
      return Promise.resolve();
    }),
);
