import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { until } from "../../../../dev/harness/until.ts";
import { startWorker } from "../../../../events/mod.ts";
import { Pool } from "../../../../events/store/postgres/_pool.ts";
import { addressIn } from "../../../../events/store/postgres/_settings.ts";
import type { PostgresTx } from "../../../../events/store/postgres/mod.ts";
import { IS_LONG } from "../../../_length.ts";
import { claimAll, claimOne, delivery } from "../_events.ts";
import { type PostgresStoreUnderTest, testPostgres } from "./_stores.ts";

/** Settles an event with what a function writes. */
async function settle(
  { store }: PostgresStoreUnderTest,
  effects: (tx: PostgresTx) => unknown,
  id = "d1",
): Promise<boolean> {
  await store.accept(delivery(id));
  return await store.complete(await claimOne(store), { effects });
}

/** Makes a statement that writes into the table of the tests. */
const insert = ({ place }: PostgresStoreUnderTest) =>
  `insert into "${JSON.parse(place.address).schema}".effect values ($1, $2::jsonb)`;

testPostgres("effects may be asynchronous, and are committed with their event", async (sut) => {
  const settled = await settle(sut, async (tx) => {
    const { rows } = await tx.query<{ n: number }>("select 40 + $1::int as n", [2]);
    await tx.query(insert(sut), ["a", rows[0]!.n]);
  });
  assert(settled);
  assertEquals(await sut.place.effects.get("a"), 42);
});

testPostgres("effects that nobody awaits are committed, or fail their attempt", async (sut) => {
  await settle(sut, (tx) => void tx.query(insert(sut), ["a", 1]));
  assertEquals(await sut.place.effects.get("a"), 1);
  const failing = settle(sut, (tx) => {
    tx.query("select 1 / 0");
    tx.query(insert(sut), ["b", 1]);
  }, "d2");
  await assertRejects(() => failing, Error, "division by zero");
  assertEquals(await sut.place.effects.get("b"), null);
});

testPostgres("a failed statement fails its attempt, and no other", async (sut) => {
  const { store, place } = sut;
  for (const id of ["d1", "d2", "d3"]) await store.accept(delivery(id));
  const leases = await claimAll(store);
  const settled = await Promise.allSettled(leases.map((lease, i) =>
    store.complete(lease, {
      effects: async (tx) => {
        await tx.query(insert(sut), [`row/${i}`, i]);
        if (i === 1) await tx.query("select 1 / 0");
      },
    })
  ));
  assertEquals(settled.map(({ status }) => status), ["fulfilled", "rejected", "fulfilled"]);
  assertEquals([...(await place.effects.all("row")).keys()].toSorted(), ["0", "2"]);
});

testPostgres("the error of a statement says where the handler made it", async (sut) => {
  async function makeStatement(tx: PostgresTx): Promise<void> {
    await tx.query("select 1");
    await tx.query("select 1 / 0");
  }
  const error = await assertRejects(() => settle(sut, makeStatement), Error, "division by zero");
  assertMatch(error.stack!, /^Error: division by zero\n(?:.*\n)*.*makeStatement/);
});

testPostgres("a deferred constraint fails the attempt at its commit", async (sut) => {
  const { schema } = JSON.parse(sut.place.address);
  const table = `"${schema}".pair`;
  await sut.store.transact((tx) =>
    tx.query(`create table ${table} (id int primary key,
      other int references ${table} (id) deferrable initially deferred)`)
  );
  const failing = settle(sut, (tx) => tx.query(`insert into ${table} values (1, 2)`));
  await assertRejects(() => failing, Error, "foreign key");
  assertEquals((await sut.store.db.query(`select * from ${table}`)).rows, []);
});

testPostgres("effects cannot end the transaction", async (sut) => {
  const refused = [
    ...["commit", " /* x */ rollback", "-- y\nbegin", "END", "select 1; commit", ";commit"],
    ..."select 'a;', \"b\", $$c$$; commit|select e'it\\'s' as a;rollback--".split("|"),
  ];
  for (const [i, text] of refused.entries()) {
    const failing = settle(sut, async (tx) => {
      await tx.query(insert(sut), [`row/${i}`, i]);
      await tx.query(text);
    }, `d${i}`);
    await assertRejects(() => failing, TypeError, "begins and ends", text);
    await sut.store.purge({});
  }
  assertEquals((await sut.place.effects.all("row")).size, 0);
  const savepoint = settle(sut, async (tx) => {
    await tx.query("savepoint mine");
    await assertRejects(() => tx.query("select 1 / 0"));
    await tx.query("rollback to mine");
    await tx.query(insert(sut), ["kept", 1]);
  }, "last");
  assert(await savepoint);
  assertEquals(await sut.place.effects.get("kept"), 1);
});

testPostgres("a transaction that is ended all the same fails its attempt", async (sut) => {
  const failing = settle(sut, (tx) => tx.query("/* /* */ */ commit"));
  await assertRejects(() => failing, TypeError, "has ended the transaction");
});

testPostgres("no semicolon in a text, a name or a function ends a statement", async (sut) => {
  const texts = [
    `select 'a; commit' as "b; commit", e'it\\'s; commit' as c, $x$d; commit$x$ -- ; commit`,
    "do $$ begin perform 1; end; $$",
    "create function pg_temp.one() returns int begin atomic select 1; end",
  ];
  await settle(sut, async (tx) => {
    for (const text of texts) await tx.query(text);
  });
  assertEquals((await sut.store.get("d1"))?.state, "done");
});

testPostgres("effects set nothing for those of other events", async (sut) => {
  const failing = settle(sut, (tx) => tx.query("select 1; set search_path to pg_catalog"));
  await assertRejects(() => failing, TypeError, "Use 'set local'");
  await settle(sut, async (tx) => {
    await tx.query("set local search_path to pg_catalog");
    await tx.query("set constraints all deferred");
    await tx.query(insert(sut), ["a", 1]);
  }, "d2");
  assertEquals(await sut.place.effects.get("a"), 1);
});

testPostgres("a transaction runs no statement once it has ended", async (sut) => {
  let kept: PostgresTx | undefined;
  await settle(sut, (tx) => void (kept = tx));
  await assertRejects(() => kept!.query("select 1"), TypeError, "the transaction has ended");
});

testPostgres("slow effects hold nobody's intake, and their lease may be renewed", async (sut) => {
  const { store } = sut;
  await store.accept(delivery("d1"));
  const lease = await claimOne(store);
  const [begun, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const settling = store.complete(lease, {
    effects: async (tx) => {
      await tx.query(insert(sut), ["a", 1]);
      begun.resolve();
      await goOn.promise;
    },
  });
  await begun.promise;
  assert(await store.renew(lease, 60_000));
  for (let i = 0; i < 20; i++) await store.accept(delivery(`next${i}`));
  goOn.resolve();
  assert(await settling);
  assertEquals((await store.get("d1"))?.state, "done");
  assertEquals(await sut.place.effects.get("a"), 1);
});

testPostgres("effects of a lease that was taken over meanwhile are taken back", async (sut) => {
  const { store } = sut;
  await store.accept(delivery("d1"));
  const lease = await claimOne(store);
  const settled = await store.complete(lease, {
    effects: async (tx) => {
      await tx.query(insert(sut), ["a", 1]);
      await store.release(lease);
      await claimOne(store);
    },
  });
  assertEquals([settled, await sut.place.effects.get("a")], [false, null]);
});

testPostgres("handlers write asynchronously with settleWith()", async (sut) => {
  const { store, place } = sut;
  const worker = startWorker(store, (event, { settleWith }) => {
    settleWith(async (tx) => {
      await tx.query(insert(sut), [`row/${event.id}`, 1]);
    });
    settleWith((tx) => tx.query(insert(sut), [`row/${event.id}-2`, 2]));
  }, { log: () => {} });
  for (let i = 0; i < 10; i++) await store.accept(delivery(`d${i}`));
  await worker.poll();
  while ((await place.effects.all("row")).size < 20) await worker.poll();
  await worker.stop();
  assertEquals((await store.stats()).dead, 0);
});

testPostgres(
  "a connection that nobody gives back is waited for no longer than said",
  async (sut) => {
    const { url } = JSON.parse(sut.place.address);
    const [pool] = await Pool.ofEach(addressIn(url).settings, [1]);
    const held = await pool!.take();
    const waiting = pool!.take(5_000);
    await assertRejects(() => pool!.take(20), Error, "No connection was free within 20 ms");
    pool!.giveBack(held);
    pool!.giveBack(await waiting);
    await pool!.close();
  },
);

const LONG = IS_LONG ? testPostgres : () => {};

LONG("transactions that wait for each other's connections are given up", async ({ store }) => {
  const waiting = Array.from({ length: 4 }, () =>
    store.transact(async (tx) => {
      await tx.query("select pg_sleep(0.1)");
      await store.db.query("select 1");
    }));
  const ended = await Promise.allSettled(waiting);
  assert(ended.some(({ status }) => status === "rejected"));
  await store.transact((tx) => tx.query("select 1"));
});

LONG(
  "effects that never end fail their attempt, and give their connection back",
  async ({ store }) => {
    for (const id of ["d1", "d2"]) await store.accept(delivery(id));
    const effects = () => new Promise(() => {});
    const failing = (await claimAll(store)).map((each) => store.complete(each, { effects }));
    const reasons = (await Promise.allSettled(failing)).map((each) =>
      each.status === "rejected" && each.reason.message
    );
    assertEquals(reasons, Array(2).fill("What settleWith() does has not ended within 30 s"));
    await store.transact((tx) => tx.query("select 1"));
  },
);

testPostgres("transact() awaits its function", async (sut) => {
  const { store } = sut;
  const id = await store.transact(async (tx, { emit }) => {
    const { rows } = await tx.query<{ n: number }>("select 7 as n");
    await tx.query(insert(sut), ["a", rows[0]!.n]);
    return emit("jobs", "made", { n: rows[0]!.n });
  });
  assertEquals((await claimOne(store)).record.id, id);
  const failing = store.transact(async (tx, { emit }) => {
    await tx.query(insert(sut), ["b", 1]);
    emit("jobs", "made", {}, { id: "b" });
    throw new RangeError("no");
  });
  await assertRejects(() => failing, RangeError, "no");
  assertEquals([await sut.place.effects.get("b"), await store.get("jobs:b")], [null, null]);
});

testPostgres("db only reads", async ({ store }) => {
  assertEquals((await store.db.query("select $1::int as n", [1])).rows, [{ n: 1 }]);
  await assertRejects(() => store.db.query("create table t (id int)"), Error, "read-only");
  const ended = store.db.query("commit; create table t (id int)");
  await assertRejects(() => ended, TypeError, "begins and ends");
});

testPostgres(
  "settlements that wait for a connection go on while their leases are renewed",
  async (sut) => {
    const { store, place } = sut;
    const events = 150;
    const worker = startWorker(store, (event, { settleWith }) => {
      settleWith(async (tx) => {
        await tx.query("select pg_sleep(0.05)");
        await tx.query(insert(sut), [`row/${event.id}`, 1]);
      });
    }, { log: () => {}, leaseMs: 1_000 });
    await Promise.all(Array.from({ length: events }, (_, i) => store.accept(delivery(`d${i}`))));
    // Three at a time: it takes 2.5 s, in which each lease is renewed some times.
    await until(async () => (await place.effects.all("row")).size === events, 40_000);
    await worker.stop();
  },
);
