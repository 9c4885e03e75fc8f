/** Data of an app beside its events: keys of a KV, and tables of a SQLite file. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { events } from "../../app/mod.ts";
import { exportEvents, importEvents } from "../../events/mod.ts";
import {
  type App,
  defineApp,
  type EventStore,
  github,
  type HandlerContext,
  kv,
  type KvCommit,
  sqlite,
} from "../../mod.ts";
import type { SqliteReader, SqliteTx } from "../../events/store/sqlite/mod.ts";
import { forgeDelivery, startTestBot } from "../../testing/mod.ts";

/** Data of an app in the database of an engine: numbers by name. */
interface OwnData {
  readonly store: () => App["store"];
  set(tx: unknown, name: string, value: number): void;
  list(db: unknown): Promise<[name: string, value: number][]>;
}

const KEYS: OwnData = {
  store: () => kv(),
  set: (tx, name, value) => void (tx as KvCommit).set(["bot", "own", name], value),
  list: async (db) => {
    const found = await Array.fromAsync((db as Deno.Kv).list<number>({ prefix: ["bot", "own"] }));
    return found.map(({ key, value }) => [String(key[2]), value]);
  },
};

const TABLE: OwnData = {
  store: () =>
    sqlite({
      setup: (db) =>
        db.exec("create table if not exists own (name text primary key, value integer)"),
    }),
  set: (tx, name, value) => {
    (tx as SqliteTx).prepare("insert or replace into own values (?, ?)").run(name, value);
  },
  list: (db) => {
    const rows = (db as SqliteReader).prepare("select name, value from own order by name").all();
    return Promise.resolve(rows.map(({ name, value }) => [String(name), Number(value)]));
  },
};

/** An app that uses much of what a store keeps, and sets own data in each way. */
function botWith({ store, set, list }: OwnData, seen: unknown[] = []): App {
  const bot = defineApp({
    ...{ name: "bot", platform: github(), store: store() },
    keepPayloads: { forMs: 60_000, maxBytes: 100_000 },
    routes: (app, { store }) =>
      app.post("/own", async (c) => {
        await (store as EventStore).transact((tx) => set(tx, "route", 1));
        return c.text("OK");
      }),
  });
  bot.on("push", async (_event, context: HandlerContext) => {
    (await context.state<number>("count")).set(1);
    context.emit("jobs", "job", {}, { group: "g", id: "one" });
    context.settleWith((tx) => set(tx, "settled", 2));
    seen.push(await list(context.db));
  });
  bot.on("star", async ({ idempotencyKey }, { waitFor }) => {
    await waitFor(idempotencyKey());
  });
  bot.on("fork", () => {
    throw new Error("no");
  }, { retry: { maxAttempts: 1 } });
  bot.from(events("jobs")).on("job", () => {});
  bot.schedule("daily", "0 0 * * *", () => {}).onDead(() => {});
  return bot;
}

const ALL: [string, number][] = [["route", 1], ["settled", 2]];

for (const [engine, data] of Object.entries({ kv: KEYS, sqlite: TABLE })) {
  Deno.test(`own data is committed with events and by routes, and read [${engine}]`, async () => {
    const seen: unknown[] = [];
    await using test = await startTestBot(botWith(data, seen));
    assertEquals((await test.fetch("/own", { method: "POST" })).status, 200);
    await test.deliver(forgeDelivery("push", {}));
    assertEquals(seen, [[["route", 1]]]);
    assertEquals(await data.list(test.db), ALL);
  });

  Deno.test(`nothing of a store changes or exports own data [${engine}]`, async () => {
    await using test = await startTestBot(botWith(data));
    await test.fetch("/own", { method: "POST" });
    for (const type of ["push", "star", "fork"]) {
      await test.deliver(forgeDelivery(type, {}), { expectFailure: true });
    }
    await test.run("daily");
    const { store } = test;
    const lines = await Array.fromAsync(exportEvents(store));
    assert(lines.length > 4);
    assertEquals(lines.join("").includes("route"), false);
    await importEvents(store, exportEvents(store));
    for await (const _ of store.check({ discard: true }));
    await store.tidy({ times: Infinity, groups: true, uploadsOlderThanMs: 0, payloads: true });
    await store.cancelAll({});
    assert((await store.purge({})).changed > 4);
    assertEquals(await Array.fromAsync(store.list()), []);
    assertEquals(await data.list(test.db), ALL);
  });
}

Deno.test("a store writes no key where own data is", async () => {
  await using test = await startTestBot(botWith({ ...KEYS, set: () => {} }));
  for (const type of ["push", "star", "fork"]) {
    await test.deliver(forgeDelivery(type, {}), { expectFailure: true });
  }
  await test.run("daily");
  const kinds = new Set<unknown>();
  for await (const { key } of (test.db as Deno.Kv).list({ prefix: ["bot"] })) kinds.add(key[1]);
  assert(kinds.size > 8, [...kinds].join());
  assertEquals(kinds.has("own"), false);
});

Deno.test("of the keys below a namespace, only those of own data can be changed", async () => {
  const bot = defineApp({ name: "bot", platform: github(), store: kv() });
  await using test = await startTestBot(bot);
  const { db } = test;
  await db.set(["bot", "own"], 1);
  await db.set(["bot", "own", 7, "a"], 2);
  assert((await db.atomic().sum(["bot", "own", "sum"], 1n).delete(["bot", "own"]).commit()).ok);
  assertEquals((await db.get(["bot", "own", 7, "a"])).value, 2);
  for (const key of [["bot"], ["bot", "owned"], ["bot", ["own"]], ["bot", "event", "own"]]) {
    assertThrows(() => db.set(key as Deno.KvKey, 1), TypeError, 'Begin yours with ["bot", "own"]');
  }
});
