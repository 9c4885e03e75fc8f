import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import type { SqliteReader, SqliteTx } from "../../../../events/mod.ts";
import { claimOne, delivery } from "../_events.ts";
import { type SqliteStore, testFile, testSqlite } from "./_stores.ts";

/** Settles an event with effects. */
async function settle(store: SqliteStore, effects: (db: SqliteTx) => unknown): Promise<void> {
  await store.accept(delivery());
  await store.complete(await claimOne(store), { effects: effects as () => void });
}

/** Checks that effects are refused, and that nothing of them is left. */
async function assertRefused(
  store: SqliteStore,
  effects: (db: SqliteTx) => unknown,
  message: string,
): Promise<void> {
  const add = "insert into mine values (?, 1)";
  await store.accept(delivery());
  const lease = await claimOne(store);
  const both = (db: SqliteTx) => {
    db.prepare(add).run(crypto.randomUUID());
    return effects(db);
  };
  await assertRejects(
    () => store.complete(lease, { effects: both as () => void }),
    TypeError,
    message,
  );
  await store.complete(lease);
  assertEquals(countIn(store.db), 0);
}

function countIn(db: SqliteReader): unknown {
  return db.prepare("select count(*) as n from mine").get()!.n;
}

/** Statements that nobody but the store runs, by the word that they are refused for. */
const CONTROL: readonly [word: string, sql: string][] = [
  ["begin", "begin"],
  ["BEGIN", "  BEGIN immediate"],
  ["commit", "-- a comment\n/* and ; another */ ; commit"],
  ["end", "/* /* */ end transaction"],
  ["rollback", "rollback"],
  ["savepoint", "savepoint a"],
  ["release", "release part"],
  ["attach", "attach ':memory:' as other"],
  ["detach", "detach main"],
  ["pragma", "pragma foreign_keys = off"],
  ["pragma", "explain pragma query_only = 1"],
  ["pragma", "explain /* */ query\tplan pragma query_only = 1"],
  ["vacuum", "vacuum into 'copy.db'"],
  ["create", "create table event2 (id)"],
  ["drop", "drop table mine"],
  ["alter", "alter table mine add column x"],
  ["reindex", "reindex"],
  ["analyze", "analyze"],
  ["", ""],
  ["", " -- nothing"],
  ["", "/* to the end"],
];

for (const [word, sql] of CONTROL) {
  testSqlite(`effects cannot run ${JSON.stringify(sql)}`, async ({ store }) => {
    const message = `it begins with "${word}", and only select, values,`;
    await assertRefused(store, (db) => db.prepare(sql), message);
    if (word === "") return await settle(store, (db) => db.exec(sql));
    await assertRefused(store, (db) => db.exec(sql), message);
    const behind = `insert into mine values ('a;--', 'b'';') /* ; */; -- ;\n ${sql}; select 1`;
    await assertRefused(store, (db) => db.exec(behind), message);
  });
}

/** Statements that change tables of the store. */
const OWN: readonly [table: string, sql: string][] = [
  ["event", "delete from event"],
  ["event", "delete from event where id = 'x'"],
  ["event", 'update main."EVENT" set state = state'],
  ["event", "insert or ignore into event (id) values (1)"],
  ["event", "with a as (select 1) update event set id = 1"],
  ["event", "with a as (select 1) delete from [event]"],
  ["cell", "replace into cell (key) values (1)"],
  ["payload", "delete from payload where id in (select payload from event)"],
  ["ordering_group", "update ordering_group set next = 7"],
  ["layout", "update layout set value = '7'"],
];

for (const [table, sql] of OWN) {
  testSqlite(`effects cannot change ${table}: ${sql}`, async ({ store }) => {
    const message = `Cannot change "${table}": it belongs to the event store`;
    await assertRefused(store, (db) => db.prepare(sql).run(), message);
    await assertRefused(store, (db) => db.exec(sql), message);
  });
}

testFile("effects cannot change the store by a trigger", async ({ store, again }) => {
  await again((db) =>
    db.exec("create trigger gone after insert on mine begin delete from event; select 1; end;")
  );
  await store.accept(delivery());
  const lease = await claimOne(store);
  const effects = (db: SqliteTx) => db.exec("insert into mine values ('a', 1)");
  const message = 'Cannot change "event"';
  await assertRejects(() => store.complete(lease, { effects }), TypeError, message);
  assertEquals((await store.get(lease.record.id))?.state, "running");
});

testSqlite(
  "effects read tables of the store, and their own columns may have any name",
  async ({ store }) => {
    const seen: unknown[] = [];
    await settle(store, (db) => {
      db.exec("insert into mine values ('a', (select count(*) from event)); select 1");
      db.prepare("update mine set value = value + 1 where name = ?").run("a");
      seen.push(...db.prepare("select value, (select id from event) as event from mine").all());
      seen.push(
        ...db.prepare("explain query plan delete from mine").all().map(({ detail }) => detail),
      );
    });
    assert(seen.length > 1);
    assertEquals((seen[0] as { value: unknown }).value, 2);
  },
);

testSqlite("statements work as those of node:sqlite do", async ({ store }) => {
  await settle(store, (db) => {
    const insert = db.prepare("insert into mine values (?, $value) returning name");
    assertEquals(db.prepare("insert into mine values ('a', 1), ('b', 2)").run().changes, 2);
    assertEquals(insert.all({ $value: 3 }, "c").map(({ name }) => name), ["c"]);
    const select = db.prepare("select value from mine where name = ?");
    assertEquals(select.get("c")!.value, 3);
    assertEquals(select.get("none"), undefined);
    select.setReadBigInts(true);
    assertEquals(select.get("c")!.value, 3n);
    assertEquals(select.columns()[0]!.name, "value");
    assertEquals(select.sourceSQL, "select value from mine where name = ?");
    const wide = db.prepare("select 9007199254740993 as n");
    assertThrows(() => wide.get(), Error);
    wide.setReadBigInts(true);
    assertEquals(wide.get()!.n, 9007199254740993n);
    const update = db.prepare("update mine set value = ?");
    update.setReadBigInts(true);
    assertEquals(update.run(5n).changes, 3n);
    assertEquals([...db.prepare("select name from mine").iterate()].length, 3);
    assertThrows(() => db.prepare("insert into mine values ('a', 1)").run(), Error, "UNIQUE");
    assertEquals(update.run(5).changes, 3n);
    assertEquals(db.prepare("select changes() as n").get()!.n, 3);
  });
  assertEquals(countIn(store.db), 3);
});

testSqlite(
  "a statement can be kept from one call to the next, and used in none",
  async ({ store }) => {
    const kept: { db?: SqliteTx; statement?: ReturnType<SqliteTx["prepare"]> } = {};
    const effects = (name: string) => (db: SqliteTx) => {
      kept.db = db;
      kept.statement ??= db.prepare("insert into mine values (?, 1)");
      kept.statement.run(name);
    };
    const ended = "Cannot use the transaction: it has ended";
    await settle(store, effects("a"));
    for (const use of ["run", "get", "all", "iterate"] as const) {
      assertThrows(() => kept.statement![use]("b"), TypeError, ended);
    }
    assertThrows(() => kept.db!.exec("insert into mine values ('b', 1)"), TypeError, ended);
    assertThrows(() => kept.db!.prepare("select 1"), TypeError, ended);
    await settle(store, effects("c"));
    assertEquals(countIn(store.db), 2);
  },
);

testSqlite("an iterator that effects leave open holds nothing up", async ({ store }) => {
  const iterators: Iterator<unknown>[] = [];
  await settle(store, (db) => {
    const added = db.prepare("insert into mine values ('a', 1), ('b', 2) returning name").iterate();
    const read = db.prepare("select name from mine").iterate();
    for (const iterator of [added, read]) iterators.push(iterator), iterator.next();
  });
  await settle(store, (db) => db.exec("insert into mine values ('c', 3)"));
  assertEquals(countIn(store.db), 3);
  assertEquals(iterators.map((iterator) => (iterator.next().value as { name: string }).name), [
    "b",
    "b",
  ]);
});

testSqlite("effects must be synchronous", async ({ store }) => {
  const thenable = { then: (resolve: () => void) => resolve() };
  const results = [() => Promise.resolve(), () => Promise.reject(new Error("no")), () => thenable];
  for (const result of results) {
    await assertRefused(store, result, "The function must be synchronous");
  }
  await assertRefused(store, async (db) => {
    await 0;
    db.exec("insert into mine values ('late', 1)");
  }, "The function must be synchronous");
});

testSqlite("store.db reads what is committed, and changes nothing", async ({ store }) => {
  const { db } = store;
  await settle(store, (tx) => tx.exec("insert into mine values ('a', 1), ('b', 2)"));
  assertEquals(db.prepare("select value from mine where name = ?").get("b")!.value, 2);
  assertEquals(
    [...db.prepare("with m as (select * from mine) select name from m").iterate()].length,
    2,
  );
  assertEquals(db.prepare("select count(*) as n from event").get()!.n, 1);
  const writes = [
    "insert into mine values ('c', 1)",
    "delete from event",
    "begin",
    "create table a (b)",
  ];
  for (
    const sql of [...writes, "pragma query_only = 0", "attach ':memory:' as other", "", "vacuum"]
  ) {
    assertThrows(() => db.prepare(sql), TypeError, "Write with settleWith()");
  }
  for (const table of ["event", "mine"]) {
    const write = () => db.prepare(`with a as (select 1) delete from ${table}`).run();
    assertThrows(write, TypeError, `Cannot change "${table}": 'db' only reads`);
  }
  assertEquals(countIn(db), 2);
  for (const name of ["close", "exec", "setAuthorizer", "enableLoadExtension"]) {
    assertEquals(name === "exec" || !(name in db), true);
  }
});

testFile("an iterator of store.db that is left open holds nothing up", async ({ store, again }) => {
  await settle(store, (tx) => tx.exec("insert into mine values ('a', 1), ('b', 2)"));
  const iterator = store.db.prepare("select name from mine order by name").iterate();
  iterator.next();
  const other = await again();
  for (const each of [other, store, other]) {
    const add = (db: SqliteTx) => db.exec("insert into mine values (hex(randomblob(8)), 3)");
    await settle(each, add);
  }
  assertEquals([countIn(store.db), countIn(other.db)], [5, 5]);
  assertEquals(iterator.next().value!.name, "b");
  assertEquals(iterator.next().done, true);
});
