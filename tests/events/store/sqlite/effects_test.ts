import { assert, assertEquals, assertRejects } from "@std/assert";
import type { Lease, SqliteTx } from "../../../../events/mod.ts";
import { isOfDisk } from "../../../../events/store/sqlite/_connection.ts";
import { MonotonicClock } from "../../../_monotonic_clock.ts";
import { acceptTogether, claimBatch } from "../_batching.ts";
import { claimAll, delivery } from "../_events.ts";
import { type SqliteStore, testFile, testSqlite } from "./_stores.ts";

type Effects = (db: SqliteTx) => void;

const add = (name: string, value = 1): Effects => (db) =>
  void db.prepare("insert into mine values (?, ?)").run(name, value);

/** Takes events in, and leases them. */
async function leaseAll(store: SqliteStore, count: number): Promise<Lease[]> {
  for (let i = 0; i < count; i++) await store.accept(delivery());
  const leases: Lease[] = [];
  while (leases.length < count) leases.push(...await claimAll(store));
  return leases;
}

/** Settles events at the same time, each with its effects, and tells how. */
async function settleAll(
  store: SqliteStore,
  leases: readonly Lease[],
  effectsOf: (i: number) => Effects,
): Promise<string[]> {
  const all = leases.map((lease, i) => store.complete(lease, { effects: effectsOf(i) }));
  return (await Promise.allSettled(all)).map((each) =>
    each.status === "fulfilled" ? String(each.value) : String(each.reason.message)
  );
}

/** Effects that fail, and the error. */
const FAILING: readonly [name: string, message: string, fail: Effects][] = [
  ["throw", "no", () => {
    throw new Error("no");
  }],
  ["break a constraint", "UNIQUE constraint failed: mine.name", add("known")],
  [
    "end the transaction",
    "UNIQUE constraint failed: mine.name",
    (db) => db.exec("insert or rollback into mine values ('known', 1)"),
  ],
  [
    "end the transaction by a trigger",
    "by the trigger",
    (db) => db.exec("insert into mine values ('roll back', 1)"),
  ],
  [
    "end the transaction, and hide that",
    "UNIQUE constraint failed: mine.name",
    (db) => {
      try {
        db.exec("insert or rollback into mine values ('known', 1)");
      } catch {
        // Hidden.
      }
    },
  ],
  [
    "end the transaction, hide that and go on",
    "UNIQUE constraint failed: mine.name",
    (db) => {
      for (const name of ["known", "outside"]) {
        try {
          db.prepare("insert or rollback into mine values (?, 1)").run(name);
        } catch {
          // Hidden.
        }
      }
    },
  ],
  [
    "cannot be committed",
    "FOREIGN KEY constraint failed",
    (db) => db.exec("insert into part values ('nobody')"),
  ],
];

for (const [name, message, fail] of FAILING) {
  const failing: Effects = (db) => {
    add("of the failing one")(db);
    fail(db);
  };

  testFile(
    `effects that ${name} fail their event, and no other one of 256`,
    async ({ store, rows, again }) => {
      await again((db) =>
        db.exec(`create trigger t before insert on mine when new.name = 'roll back'
        begin select raise(rollback, 'by the trigger'); end; insert into mine values ('known', 0)`)
      );
      const leases = await leaseAll(store, 256);
      const calls = new Array(leases.length).fill(0);
      const results = await settleAll(store, leases, (i) => (db) => {
        calls[i]++;
        if (i === 100) failing(db);
        else add(`e${i}`)(db);
      });
      assertEquals(results.splice(100, 1), [message]);
      assertEquals(new Set(results), new Set(["true"]));
      assertEquals(rows("select count(*), sum(name glob 'e*') from mine"), [[256, 255]]);
      assertEquals((await store.get(leases[100]!.record.id))?.state, "running");
      assertEquals(rows("select count(*) from event where state = 'done'"), [255]);
      assert(Math.max(...calls) <= 2, `called ${Math.max(...calls)} times`);
      // The store goes on.
      await store.complete(leases[100]!, { effects: add("later") });
      assertEquals(rows("select value from mine where name = 'later'"), [1]);
    },
  );

  testSqlite(`effects that ${name} leave nothing behind`, async ({ store, rows }) => {
    const [first, second] = await leaseAll(store, 2);
    await store.complete(first!, { effects: add("known") });
    if (name.includes("trigger")) return;
    await assertRejects(() => store.complete(second!, { effects: failing }), Error, message);
    await assertRejects(
      () => store.note(second!, { is: "handler", name: "part" }, failing),
      Error,
      message,
    );
    assertEquals(rows("select name from mine"), ["known"]);
    assertEquals((await store.get(second!.record.id))?.progress, undefined);
    assertEquals(await store.complete(second!), true);
  });
}

testSqlite("effects of a lost lease are not called", async ({ store, rows }) => {
  const [lease] = await leaseAll(store, 1);
  await store.renew(lease!, 30_000);
  let calls = 0;
  assertEquals(await store.complete(lease!, { effects: () => void calls++ }), false);
  assertEquals([calls, rows("select * from mine")], [0, []]);
});

testSqlite(
  "effects of several events of one commit see each other's rows",
  async ({ store, rows }) => {
    const leases = await leaseAll(store, 20);
    const sql = `insert into mine values ('sum', 1) on conflict (name) do update
    set value = value + 1 returning value`;
    const seen: unknown[] = [];
    const effects: Effects = (db) => void seen.push(db.prepare(sql).get()!.value);
    assertEquals(new Set(await settleAll(store, leases, () => effects)), new Set(["true"]));
    assertEquals(seen, leases.map((_, i) => i + 1));
    assertEquals(rows("select value from mine"), [20]);
  },
);

testSqlite("effects may call the store: that comes after them", async ({ store, rows }) => {
  const [lease] = await leaseAll(store, 1);
  const calls: Promise<unknown>[] = [];
  const effects: Effects = (db) => {
    add("a")(db);
    calls.push(
      store.emit("jobs", "made", {}, { id: "1" }),
      store.wake("name"),
      store.accept(delivery("d1")),
      store.get(lease!.record.id),
      store.claim({ limit: 1, owner: "effects", leaseMs: 30_000 }),
      store.cancel(lease!.record.id),
      Array.fromAsync(store.list()),
    );
    assertEquals(store.db.prepare("select count(*) as n from event").get()!.n, 1);
  };
  assertEquals(await store.complete(lease!, { effects }), true);
  await Promise.all(calls);
  assertEquals(rows("select id from event where id in ('jobs:1', 'd1') order by id"), [
    "d1",
    "jobs:1",
  ]);
  assertEquals((await store.get(lease!.record.id))?.outcome, "handled");
});

testSqlite(
  "effects of a batch are made with all of its events, or none",
  async ({ store, rows }) => {
    await acceptTogether(store, ["a", "b", "c"]);
    const lease = await claimBatch(store, "a", "b", "c");
    const done = "select count(*) from event where state = 'done'";
    for (const sql of ["insert", "insert or rollback"]) {
      const failing: Effects = (db) => db.exec(`${sql} into mine values ('a', 1), ('a', 1)`);
      await assertRejects(() => store.complete(lease, { effects: failing }), Error, "UNIQUE");
      assertEquals([rows(done), rows("select name from mine")], [[0], []]);
    }
    await store.complete(lease, { effects: add("a") });
    assertEquals([rows(done), rows("select name from mine")], [[3], ["a"]]);
  },
);

testSqlite(
  "effects on a full disk can be made once there is room again",
  async ({ store, db, rows }) => {
    const [lease, other] = await leaseAll(store, 2);
    const { page_count: pages } = db.one<{ page_count: number }>("pragma page_count")!;
    db.one(`pragma max_page_count = ${pages + 20}`);
    const large: Effects = (tx) => {
      try {
        tx.prepare("insert into mine values (hex(zeroblob(1000000)), 1)").run();
      } catch {
        add("small")(tx);
      }
    };
    const both = await Promise.allSettled([
      store.complete(lease!, { effects: large }),
      store.complete(other!, { effects: add("other") }),
    ]);
    assertEquals(both.map(({ status }) => status), ["rejected", "fulfilled"]);
    const { reason } = both[0] as PromiseRejectedResult;
    assert(isOfDisk(reason), reason.message);
    assertEquals(rows("select name from mine"), ["other"]);
    db.one("pragma max_page_count = 1000000");
    assertEquals(await store.complete(lease!, { effects: large }), true);
    assertEquals(rows("select length(name) from mine order by 1"), [5, 2_000_000]);
  },
);

testSqlite(
  "transact() that shares a failed transaction is called again, and stores each event once",
  async ({ store, rows }) => {
    await store.emit("jobs", "first", {});
    // On a busy machine the first one could take the time of a transaction alone.
    using _clock = new MonotonicClock();
    let calls = 0;
    const good = store.transact((db, { emit }) => {
      add(`call ${++calls}`)(db);
      return emit("jobs", "made", { calls });
    });
    const bad = store.transact((db, { emit }) => {
      emit("jobs", "lost", {});
      db.exec("insert or rollback into mine values ('a', 1), ('a', 1)");
    });
    await assertRejects(() => bad, Error, "UNIQUE constraint failed");
    const made = [await good];
    assertEquals([calls, rows("select name from mine")], [2, ["call 2"]]);
    assertEquals(rows("select id from event where type <> 'first'"), made);
  },
);

testSqlite(
  "transact() reads its own rows, and gives the result of the function",
  async ({ store }) => {
    const total = await store.transact((db) => {
      add("a", 2)(db);
      const { sum } = db.prepare("select sum(value) as sum from mine").get()!;
      return { sum, seen: store.db.prepare("select count(*) as n from mine").get()!.n };
    });
    assertEquals(total, { sum: 2, seen: 1 });
  },
);
