import { assert, assertEquals, assertMatch } from "@std/assert";
import { createEventStore } from "../../../../events/store/open_store.ts";
import { Connection } from "../../../../events/store/sqlite/_connection.ts";
import { openSqliteFile } from "../../../../events/store/sqlite/_file.ts";
import { openSqliteEngine } from "../../../../events/store/sqlite/sqlite_engine.ts";
import { claimAll, claimOne, delivery } from "../_events.ts";

/** Collects the statements that connections run, with their first values, until it goes out of scope. */
function statements(): Disposable & { readonly found: Map<string, readonly unknown[]> } {
  const found = new Map<string, readonly unknown[]>();
  const methods = ["all", "one", "run"] as const;
  const real = methods.map((name) => Connection.prototype[name]);
  methods.forEach((name, i) => {
    // deno-lint-ignore no-explicit-any -- three methods with other results
    Connection.prototype[name] = function (this: Connection, sql: string, ...values: any[]): any {
      if (!found.has(sql)) found.set(sql, values);
      return real[i]!.call(this, sql, ...values);
    };
  });
  return {
    found,
    [Symbol.dispose]: () =>
      methods.forEach((name, i) => Connection.prototype[name] = real[i] as never),
  };
}

const OF_ROWS = /^\s*(select|insert|update|delete)/i;

/** Each but the last has a page of rows at most to sort. */
const SORTS = /json_each|union all/;

Deno.test("no statement of the engine reads a table from its beginning, or sorts more than a page", async () => {
  const file = await openSqliteFile(":memory:");
  const engine = openSqliteEngine(file);
  const store = createEventStore(engine, { keepPayloads: { forMs: 1_000, maxBytes: 100 } });
  using made = statements();
  const large = "x".repeat(engine.limits.bodyBytes + 1);
  for (const id of ["d1", "d2"]) await store.accept(delivery(id, large, "key"));
  await store.complete(await claimOne(store));
  await store.bury(await claimOne(store), new Error("no"));
  await store.replay("d2");
  await store.emit("source", "type", {}, { delayMs: 1_000 });
  for (const state of [undefined, "queued", "done", "dead"] as const) {
    for (const order of ["oldest", "newest"] as const) {
      await Array.fromAsync(store.list({ state, order, receivedAfter: 1, receivedBefore: 2 }));
    }
  }
  await Array.fromAsync(store.list({ ids: ["d1"] }));
  for (const isNewestFirst of [false, true]) {
    await Array.fromAsync(engine.scan({ filter: {}, onlyOpen: true, isNewestFirst }));
  }
  await store.inspect.count(10);
  for (const lease of await claimAll(store)) await store.bury(lease, new Error("no"));
  const { problems: [problem] } = await store.inspect.problems();
  for (const state of [undefined, "dead"] as const) {
    await Array.fromAsync(store.list({ problem: problem!.id, state, order: "newest" }));
  }
  await engine.group("key", { from: 0, limit: 1 });
  await engine.ids({ before: "x", limit: 1 });
  await store.tidy({ times: 10, groups: true, uploadsOlderThanMs: 1, payloads: true });
  await Array.fromAsync(store.check());
  await Array.fromAsync(store.states());
  const rows = [...made.found.keys()].filter((sql) => OF_ROWS.test(sql));
  assert(rows.length > 20, `${rows.length} statements`);
  for (const sql of rows) {
    const plan = file.db.all(`explain query plan ${sql}`).map(({ detail }) => detail);
    const slow = plan.filter((step) =>
      /^SCAN (event|payload|cell|ordering_group)\b(?!.* USING)|^SEARCH \w+$/.test(String(step))
    );
    assertEquals(slow, [], sql);
    if (!SORTS.test(sql)) assert(!plan.join().includes("TEMP B-TREE"), sql);
  }
  await file.close();
});

Deno.test("a list of a time begins and ends in the index, also in a state", async () => {
  const file = await openSqliteFile(":memory:");
  const store = createEventStore(openSqliteEngine(file));
  for (const state of [undefined, "dead"] as const) {
    for (const [order, begin] of [["oldest", 1], ["newest", 2]] as const) {
      using made = statements();
      await Array.fromAsync(store.list({ state, order, receivedAfter: 1, receivedBefore: 2 }));
      const [[sql, values]] = [...made.found] as [[string, readonly unknown[]]];
      assertEquals(values.slice(0, 2), [begin, ""]);
      const [{ detail }] = file.db.all(`explain query plan ${sql}`) as [{ detail: string }];
      assertMatch(detail, /received_at.*>.* AND .*received_at.*</);
    }
  }
  await file.close();
});
