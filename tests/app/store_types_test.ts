/** Types that an app's store gives to what the app is made of: by the value alone, without a type argument. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import type { DefinedStore } from "../../events/store/store_definition.ts";
import {
  type ContextOf,
  createEventRouter,
  defineApp,
  type EventHandler,
  github,
  type HandlerContext,
  kv,
  type KvCommit,
  openApp,
  openEventStore,
  startApp,
  startWorker,
  type StoreDefinition,
} from "../../mod.ts";
import { forgeDelivery, startTestBot } from "../../testing/mod.ts";

/** Transaction and reader of another database. */
interface Transaction {
  insert(row: string): void;
}

interface Tables {
  rows(table: string): string[];
}

/** A store of another engine. Nothing opens it. */
const sql = (): StoreDefinition<Transaction, Tables> => {
  const store: DefinedStore<Transaction, Tables> = {
    name: "sql",
    variables: ["SQL_FILE"],
    prepare: () => ({ open: () => Promise.reject(new Error("not opened here")) }),
    forTests: () => store,
    elsewhere: () => undefined,
  };
  return store;
};

/** Does nothing with what only the compiler looks at. */
const typed = (..._: unknown[]) => {};

Deno.test("an app without a store has a KV, and its handlers write and read with that", async () => {
  const bot = defineApp({
    name: "bot",
    platform: github(),
    resources: async ({ db }) => ({ before: (await db.get<number>(["pushes"])).value }),
    routes: (app, { db, store }) =>
      app.get("/pushes", async (c) => {
        assertStrictEquals(db, store.db);
        return c.json((await db.get<number>(["pushes"])).value);
      }),
  });
  bot.use(async (_event, { db }, next) => {
    assertEquals((await db.get(["pushes"])).value, null);
    await next();
  });
  bot.on("push", async (_event, { db, settleWith, step }) => {
    const { value } = await db.get<number>(["pushes"]);
    await step("part", ({ settleWith }) => settleWith((commit) => commit.set(["part"], true)));
    settleWith((commit) => commit.set(["pushes"], (value ?? 0) + 1));
    // @ts-expect-error: of another store.
    typed(() => db.rows("pushes"));
    // @ts-expect-error: the store commits it.
    typed(() => settleWith((commit) => commit.set(["pushes"], 1).commit()));
    // @ts-expect-error: what is added later would be lost.
    typed(() => settleWith(async (commit) => void commit.set(["pushes"], await value)));
    // @ts-expect-error: as above.
    typed(() => step("part", (own) => own.settleWith((commit) => Promise.resolve(commit))));
    const number: number = await step("number", () => 1);
    // @ts-expect-error: what it returns is a number.
    typed(() => step("number", () => 1).then((text) => text.length));
    // @ts-expect-error: what is found is what it returns.
    typed(number, () => step("number", () => 1, { unknown: () => "one" }));
    // @ts-expect-error: of another store.
    typed(() => settleWith((tx: Transaction) => tx.insert("push")));
    // @ts-expect-error: of another store.
    typed(() => settleWith((commit) => commit.insert("push")));
  });
  await using test = await startTestBot(bot);
  await test.deliver(forgeDelivery("push", {}));
  assertEquals((await test.db.get(["pushes"])).value, 1);
  assertEquals((await test.store.db.get(["part"])).value, true);
  assertEquals(await (await test.fetch("/pushes")).json(), 1);
});

Deno.test("a store given by value types all that works with it", () => {
  const bot = defineApp({
    name: "bot",
    platform: github(),
    store: sql(),
    resources: ({ db }) => ({ names: db.rows("names") }),
    routes: (_app, { db, resources }) => typed(db.rows("names"), resources.names.at(0)),
  });
  const write = ({ db, settleWith, resources }: ContextOf<typeof bot>) => {
    settleWith((tx) => tx.insert(db.rows("names")[0] ?? resources.names[0]!));
    // @ts-expect-error: of a KV.
    typed(() => db.get(["names"]));
    // @ts-expect-error: of a KV.
    typed(() => settleWith((tx) => tx.set(["names"], 1)));
  };
  bot.use((_event, { db }, next) => (typed(db.rows("names")), next()))
    .on("push", (_event, context) => write(context))
    .onAny((_event, { step }) =>
      step("part", ({ settleWith }) => settleWith((tx) => tx.insert("any")))
    )
    .onOther((_event, context) => write(context))
    .onDead((_event, context) => write(context))
    .schedule("daily", "@daily", (_slot, context) => write(context));
  const router = createEventRouter({ platform: github(), store: sql() })
    .on("issues.opened", ({ payload }, { db, settleWith }) => {
      settleWith((tx) => tx.insert(`${payload.issue.title} ${db.rows("names")}`));
      // @ts-expect-error: of a KV.
      typed(() => db.get(["names"]));
    });
  bot.onAny(router.handle, { id: "router" });
  // For any store.
  bot.onOther(
    createEventRouter({ platform: github() })
      .on("push", ({ payload }, { db }) => typed(payload.ref, db)).handle,
    { id: "any" },
  );
  typed(async () => {
    await openApp(bot, { store: sql() });
    // @ts-expect-error: another store than the app's.
    await openApp(bot, { store: kv() });
    // @ts-expect-error: another store than the app's.
    await startApp(bot, { store: kv() });
    // @ts-expect-error: another store than the app's.
    await startTestBot(bot, { store: kv() });
    const { db, store } = await startTestBot(bot);
    return [db.rows("names"), store.db.rows("names")];
  });
  assertEquals([bot.store.name, defineApp({ name: "bot", platform: github() }).store.name], [
    "sql",
    "kv",
  ]);
});

Deno.test("a handler for any store works with each, and one for a store with no other", () => {
  const any: EventHandler = ({ id }, { emit, db, settleWith }) => {
    emit("jobs", "seen", { id });
    settleWith(() => typed(db));
    // @ts-expect-error: it is not known what this is.
    typed(() => settleWith((tx) => tx.set(["a"], 1)));
  };
  const count = ({ settleWith }: HandlerContext<KvCommit>) =>
    settleWith((commit) => commit.sum(["count"], 1n));
  const inKv = defineApp({ name: "bot", platform: github(), store: kv() });
  inKv.onAny(any).on("push", (_event, context) => count(context));
  const inSql = defineApp({ name: "bot", platform: github(), store: sql() });
  inSql.onAny(any);
  // @ts-expect-error: for a store in a KV.
  typed(() => inSql.on("push", (_event, context) => count(context)));
  const router = createEventRouter({ store: kv() });
  inKv.onAny(router.handle, { id: "router" });
  // @ts-expect-error: for a store in a KV.
  typed(() => inSql.onAny(router.handle, { id: "router" }));
  // @ts-expect-error: a function, which has not been called.
  typed(() => defineApp({ name: "bot", platform: github(), store: kv }));
});

Deno.test("startWorker() types its handler by the store", async () => {
  using opened = await Deno.openKv(":memory:");
  const store = await openEventStore(opened);
  const worker = startWorker(store, (_event, { db, settleWith }) => {
    settleWith((commit) => commit.set(["a"], 1));
    // @ts-expect-error: of another store.
    typed(() => db.rows("a"));
  });
  await worker.stop();
  const router = createEventRouter({ store: sql() });
  // @ts-expect-error: for another store.
  typed(() => startWorker(store, router.handle));
});
