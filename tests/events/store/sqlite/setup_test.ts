import { assertEquals, assertRejects } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import type { NotPromise, SqliteTx } from "../../../../events/mod.ts";
import { withFolder } from "../../../_folder.ts";
import { testWith } from "../../../_permissions.ts";
import { claimOne, delivery } from "../_events.ts";
import { type SqliteUnderTest, testFile } from "./_stores.ts";

/** Checks that a store is not opened with a `setup`, and that nothing of that is left. */
async function assertFails(
  { again, rows }: SqliteUnderTest,
  setup: string | ((db: SqliteTx) => unknown),
  message: string,
): Promise<void> {
  const before = rows("select type, name, sql from sqlite_schema order by 1, 2");
  const run = typeof setup === "string" ? (db: SqliteTx) => db.exec(setup) : setup;
  const opening = () =>
    again((db) => {
      db.exec("create table if not exists gone (x)");
      return run(db) as NotPromise;
    });
  await assertRejects(opening, Error, message);
  assertEquals(rows("select type, name, sql from sqlite_schema order by 1, 2"), before);
}

testFile("'setup' makes tables, indexes, views and triggers, and fills them", async (sut) => {
  const { again, rows } = sut;
  const setup = (db: SqliteTx) =>
    db.exec(`
      -- Of one's own; with comments.
      create table if not exists person (name text primary key, event text, state text);
      create index if not exists person_event on person (event) /* ; */ ;
      create view if not exists open_person as select * from person where state = 'open';
      create view if not exists person_event_of as select p.name, e.type from person p join event e on e.id = p.event;
      create trigger if not exists opened after insert on person when new.state is null
        begin update person set state = 'open' where name = new.name; select 1; end;
      create virtual table if not exists note using fts5 (body);
      insert or ignore into person (name) values ('a');
    `);
  for (let i = 0; i < 3; i++) {
    const store = await again(setup);
    await store.accept(delivery(`d${i}`));
    const effects = (db: SqliteTx) => {
      db.prepare("insert into person (name, event) values (?, ?)").run(`p${i}`, `d${i}`);
      db.prepare("insert into note values (?)").run(`hello ${i}`);
    };
    await store.complete(await claimOne(store), { effects });
    const found = store.db.prepare("select body from note where note match 'hello'").all();
    assertEquals(found.length, i + 1);
  }
  assertEquals(rows("select name from open_person order by 1"), ["a", "p0", "p1", "p2"]);
  assertEquals(rows("select type from person_event_of"), ["push", "push", "push"]);
});

/** Statements that `setup` cannot run, and the error. */
const REFUSED: readonly [setup: string, message: string][] = [
  ["pragma foreign_keys = off", 'it begins with "pragma", and only select'],
  ["create table a (b); commit; create table c (d)", 'it begins with "commit"'],
  ["begin", 'it begins with "begin"'],
  ["attach ':memory:' as other", 'it begins with "attach"'],
  ["vacuum", 'it begins with "vacuum"'],
  ["insert or rollback into mine values ('a', 1), ('a', 1)", "UNIQUE constraint failed"],
  ["insert into part values ('nobody')", "its 'setup' has failed: FOREIGN KEY constraint failed"],
  ["create table", "incomplete input"],
  ["delete from event", 'Cannot change "event": it belongs to the event store'],
  ["create table a (event references event)", 'a foreign key in "a" to a table of the event store'],
  [
    'create table a (b, foreign key (b) references "PAYLOAD" (id))',
    'a foreign key in "a" to a table of the event store',
  ],
];

/** Statements that change tables of the store, or hide them, or take their names. */
const OF_STORE = [
  "drop table cell",
  "drop view dead",
  "alter table event add column mine",
  "alter table event rename to mine2",
  "create temp table event (id)",
  "create temp view dead as select 1",
  "create table if not exists edge_next (id)",
  "alter table mine rename to edge_mine",
  "create index mine_event on event (type)",
  "create trigger mine_event after insert on event begin delete from mine; end",
  "drop index event_due",
];

testFile(
  "'setup' that is refused keeps the store from opening, and leaves nothing",
  async (sut) => {
    for (const [setup, message] of REFUSED) await assertFails(sut, setup, message);
    await assertFails(sut, () => Promise.resolve(), "must be synchronous");
    await assertFails(sut, () => {
      throw new Error("no");
    }, "its 'setup' has failed: no");
    const { again, rows } = sut;
    const store = await again();
    await store.accept(delivery("d1"));
    assertEquals(rows("select id from event"), ["d1"]);
  },
);

for (const setup of OF_STORE) {
  testFile(`'setup' cannot change the store: ${setup}`, async (sut) => {
    await assertFails(sut, setup, "its 'setup' has ");
  });
}

testFile(
  "'setup' cannot make what the store has, also 'if not exists'",
  async ({ again, rows }) => {
    const opening = () => again((db) => db.exec("create table if not exists event (mine)"));
    await assertRejects(opening, Error, 'Cannot change "event"');
    assertEquals(rows("select count(*) from pragma_table_info('event') where name = 'mine'"), [0]);
  },
);

testWith(
  ["read", "write", "run"],
  "'setup' of processes that start at once is run one after the other",
  () =>
    withFolder(async (folder) => {
      const path = `${folder}/a.db`;
      const script = new URL("./_setup.ts", import.meta.url).href;
      const args = ["run", "--cached-only", "--quiet", "--no-prompt", "-A", script, path];
      const processes = [1, 2, 3].map(() => new Deno.Command(Deno.execPath(), { args }).output());
      for (const { success, stderr } of await Promise.all(processes)) {
        assertEquals([success, new TextDecoder().decode(stderr)], [true, ""]);
      }
      const db = new DatabaseSync(path);
      const made = db.prepare("select what from made").all().map(({ what }) => what);
      db.prepare("insert into person (name, mail) values ('a', 'b')").run();
      db.close();
      assertEquals(made, ["mail"]);
    }),
);
