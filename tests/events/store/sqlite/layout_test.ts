import { assertEquals, assertRejects } from "@std/assert";
import { testWith } from "../../../_permissions.ts";
import { withFolder } from "../../../_folder.ts";
import { openSqlite } from "../../../_sqlite.ts";
import { Connection } from "../../../../events/store/sqlite/_connection.ts";
import { openSqliteFile } from "../../../../events/store/sqlite/_file.ts";
import { bringToLayout, type Layout, LAYOUTS } from "../../../../events/store/sqlite/_schema.ts";
import { openSqliteEngine } from "../../../../events/store/sqlite/sqlite_engine.ts";
import { createEventStore } from "../../../../events/store/open_store.ts";
import { claimOne, delivery, listed } from "../_events.ts";

/** A layout of a later version that this program may use, and one that it may not. */
const ADDED: Layout = {
  sql: "alter table event add column later text",
  usableBy: 1,
  since: "0.1.9",
};
const OTHER: Layout = {
  sql: "alter table event add column other text",
  usableBy: LAYOUTS.length + 2,
  since: "0.2.0",
};

/** Brings a file to layouts, as a program does that knows them. */
async function bring(path: string, layouts: readonly Layout[]): Promise<void> {
  using file = openSqlite(path);
  // Deno 2.5 has 5 s by default, for which the other program could not go on either.
  file.database.exec("pragma busy_timeout = 5");
  await bringToLayout(new Connection(file.database), layouts);
}

const columns = (path: string) => {
  using file = openSqlite(path);
  return file.database.prepare("select name from pragma_table_info('event')").all().map((row) =>
    row.name
  );
};

testWith(
  ["read", "write"],
  "a program uses a file with a later layout of its minor version",
  () =>
    withFolder(async (folder) => {
      const path = `${folder}/a.db`;
      const before = await openSqliteFile(path);
      const store = createEventStore(openSqliteEngine(before));
      await store.accept(delivery("d1"));
      // A newer program starts beside it.
      await bring(path, [...LAYOUTS, ADDED]);
      await store.accept(delivery("d2"));
      const after = await openSqliteFile(path);
      const other = createEventStore(openSqliteEngine(after));
      await other.accept(delivery("d3"));
      assertEquals((await Array.fromAsync(store.list())).map(({ id }) => id), ["d1", "d2", "d3"]);
      for (const file of [before, after]) await file.close();
    }),
);

testWith(
  ["read", "write"],
  "a program refuses a file with a layout that it may not use, and says which may",
  () =>
    withFolder(async (folder) => {
      const path = `${folder}/a.db`;
      await bring(path, [...LAYOUTS, ADDED, OTHER]);
      const before = await Deno.readFile(path);
      const message =
        `a newer version of this package has made it, with layout ${OTHER.usableBy}: use version 0.2.0 or a later one`;
      await assertRejects(() => openSqliteFile(path), Error, message);
      await assertRejects(() => bring(path, [...LAYOUTS, ADDED]), Error, message);
      assertEquals(await Deno.readFile(path), before);
    }),
);

testWith(
  ["read", "write"],
  "a migration is made once, as a whole or not at all",
  () =>
    withFolder(async (folder) => {
      const path = `${folder}/a.db`;
      await (await openSqliteFile(path)).close();
      const first = columns(path);
      const failing: Layout = {
        ...OTHER,
        sql: "alter table event add column x; alter table missing add column y text",
      };
      await assertRejects(
        () => bring(path, [...LAYOUTS, ADDED, failing]),
        Error,
        "no such table: missing",
      );
      assertEquals(columns(path), first);
      const layouts = [...LAYOUTS, ADDED, OTHER];
      await Promise.all([bring(path, layouts), bring(path, layouts)]);
      assertEquals(columns(path), [...first, "later", "other"]);
    }),
);

testWith(
  ["read", "write"],
  "an event that has failed in an older version has a problem once it fails again",
  () =>
    withFolder(async (folder) => {
      const path = `${folder}/a.db`;
      await bring(path, LAYOUTS.slice(0, 1));
      const file = await openSqliteFile(path);
      const store = createEventStore(openSqliteEngine(file));
      for (const id of ["d1", "d2"]) {
        await store.accept(delivery(id));
        await store.bury(await claimOne(store), new Error("no"));
      }
      const { id } = (await store.inspect.problems()).problems[0]!;
      {
        using other = openSqlite(path);
        // As that version writes them: it leaves the column as it is.
        other.database.exec(
          `update event set problem = null, record = json_remove(record, '$.problem') where id = 'd1';
          update event set state = 'done', record = json_set(record, '$.state', 'done') where id = 'd2'`,
        );
      }
      // The column still has the problem of the one that is done.
      assertEquals((await store.inspect.problems()).problems, []);
      await store.replay("d1");
      await store.bury(await claimOne(store), new Error("no"));
      const { problems: [problem] } = await store.inspect.problems();
      assertEquals([problem?.id, problem?.dead.count], [id, 1]);
      assertEquals(await listed(store, { problem: id }), ["d1"]);
      await file.close();
    }),
);
