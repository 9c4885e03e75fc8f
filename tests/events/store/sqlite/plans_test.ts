import { assert, assertEquals } from "@std/assert";
import { createEventStore } from "../../../../events/store/open_store.ts";
import { Connection } from "../../../../events/store/sqlite/_connection.ts";
import { openSqliteFile } from "../../../../events/store/sqlite/_file.ts";
import { openSqliteEngine } from "../../../../events/store/sqlite/sqlite_engine.ts";
import { claimOne, delivery } from "../_events.ts";

/** Collects the statements that connections prepare, until it goes out of scope. */
function statements(): Disposable & { readonly found: Set<string> } {
  const found = new Set<string>();
  const methods = ["all", "one", "run"] as const;
  const real = methods.map((name) => Connection.prototype[name]);
  methods.forEach((name, i) => {
    // deno-lint-ignore no-explicit-any -- three methods with other results
    Connection.prototype[name] = function (this: Connection, sql: string, ...values: any[]): any {
      found.add(sql);
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
  await engine.group("key", { from: 0, limit: 1 });
  await engine.ids({ before: "x", limit: 1 });
  await store.tidy({ times: 10, groups: true, uploadsOlderThanMs: 1, payloads: true });
  await Array.fromAsync(store.check());
  await Array.fromAsync(store.states());
  const rows = [...made.found].filter((sql) => OF_ROWS.test(sql));
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
