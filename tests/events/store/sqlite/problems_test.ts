import { assert, assertEquals } from "@std/assert";
import type { Change, Engine } from "../../../../events/store/engine.ts";
import { createEventStore } from "../../../../events/store/open_store.ts";
import type { SqliteTx } from "../../../../events/store/sqlite/_guard.ts";
import { openSqliteFile } from "../../../../events/store/sqlite/_file.ts";
import { openSqliteEngine } from "../../../../events/store/sqlite/sqlite_engine.ts";
import { claimOne, delivery } from "../_events.ts";

const HOUR_MS = 3_600_000;

/** Opens a store that counts the calls of its engine, and the cells of lists. */
async function openCounting(now?: () => number) {
  const file = await openSqliteFile(":memory:");
  const engine = openSqliteEngine(file, now);
  const count = { calls: 0, listed: 0 };
  const counting: Engine = {
    ...engine as Engine,
    cells(keys) {
      count.calls++;
      return engine.cells(keys);
    },
    apply(change) {
      count.calls++;
      return engine.apply(change as Change<SqliteTx>);
    },
    async *list(begin, options) {
      for await (const cell of engine.list(begin, options)) {
        count.listed++;
        yield cell;
      }
    },
  };
  const store = createEventStore(counting);
  return { engine, store, count, [Symbol.asyncDispose]: () => file.close() };
}

Deno.test("problems that are over are forgotten many at a time", async () => {
  let now = Date.now();
  await using opened = await openCounting(() => now);
  const { store, count } = opened;
  for (let i = 0; i < 150; i++) {
    await store.accept(delivery(`e${i}`));
    await store.bury(await claimOne(store), new Error(`no ${"x".repeat(i)}`));
  }
  await store.purge({ state: "dead" });
  now += 200 * HOUR_MS;
  count.calls = 0;
  assertEquals((await store.tidy({ problems: true })).problems, 150);
  assert(count.calls < 10, `${count.calls} reads`);
});

Deno.test("a list of problems reads a bounded number of hours, whatever others there are", async () => {
  await using opened = await openCounting();
  const { engine, store, count } = opened;
  for (const error of ["a", "b", "c"]) {
    await store.accept(delivery(error));
    await store.bury(await claimOne(store), new Error(error));
  }
  const hour = Math.floor(Date.now() / HOUR_MS);
  const others = Array.from({ length: 6_000 }, (_, i) => `other${i}`);
  const sums = others.map((id) => ({ key: ["problemHour", hour - 1, id] as const, by: 1 }));
  await engine.apply({ sums, urgency: "work" });
  const { problems } = await store.inspect.problems();
  assertEquals(problems.map(({ hours }) => hours.reduce((sum, each) => sum + each, 0)), [1, 1, 1]);
  assert(count.listed <= 5_001, `${count.listed} cells`);
});
