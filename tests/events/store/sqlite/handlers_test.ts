import { assertEquals, assertStringIncludes } from "@std/assert";
import { defineApp, github, sqlite } from "../../../../mod.ts";
import { forgeDelivery, startTestBot } from "../../../../testing/mod.ts";
import { TABLES } from "./_stores.ts";

/** Is checked by the compiler alone, and is not called. */
const typed = (..._values: unknown[]) => {};

const botOf = () =>
  defineApp({
    name: "bot",
    platform: github(),
    store: sqlite({ setup: (db) => db.exec(TABLES) }),
    routes: (app, { store, db }) => {
      app.post("/orders/:name", async (c) => {
        const name = c.req.param("name");
        const id = await store.transact((tx, { emit }) => {
          const id = emit("orders", "placed", { name });
          tx.prepare("insert into mine values (?, 1)").run(id);
          return id;
        });
        return c.json(db.prepare("select name from mine where name = ?").get(id) ?? null);
      });
    },
  });

Deno.test("handlers and routes write rows with their events, and read them", async () => {
  const bot = botOf();
  bot.on("push", async (_event, { settleWith, step, db }) => {
    await step("part", ({ settleWith }) => {
      settleWith((tx) => tx.prepare("insert into mine values ('part', ?)").run(1));
    });
    const { value } = db.prepare("select value from mine where name = 'part'").get()!;
    settleWith((tx) => tx.prepare("insert into mine values ('end', ?)").run(Number(value) + 1));
    settleWith((tx) => void tx.exec("update mine set value = value * 10"));
  });
  const placed: unknown[] = [];
  bot.onOther((event) => void placed.push(event.id));
  await using test = await startTestBot(bot);
  await test.deliver(forgeDelivery("push", {}));
  const rows = () => test.db.prepare("select name, value from mine order by value").all();
  assertEquals(rows().map(({ name, value }) => `${name} ${value}`), ["part 10", "end 20"]);
  const answer = await test.fetch("/orders/a", { method: "POST" });
  const { name } = await answer.json();
  assertEquals((await test.store.get(name))?.type, "placed");
});

Deno.test("an effect that fails, or is a promise, fails the attempt of its event", async () => {
  const bot = botOf();
  const thenable = { then: (resolve: () => void) => resolve() };
  const results: (() => unknown)[] = [() => Promise.resolve(), () => thenable, () => {
    throw new Error("no such luck");
  }];
  bot.on("push", (_event, { settleWith }) => {
    const effects = results.shift() ?? (() => {});
    settleWith((tx) => tx.prepare("insert into mine values ('a', 1)").run());
    settleWith(effects as () => void);
  });
  await using test = await startTestBot(bot);
  const { event } = await test.deliver(forgeDelivery("push", {}), { expectFailure: true });
  assertEquals(test.db.prepare("select count(*) as n from mine").get()!.n, 0);
  await test.advance(3_600_000, { expectFailure: true });
  assertEquals(test.db.prepare("select count(*) as n from mine").get()!.n, 1);
  const { attempts, state } = (await test.store.get(event!.id))!;
  assertEquals([state, attempts.length], ["done", 4]);
  const expected = ["must be synchronous, got a promise", "must be synchronous", "no such luck"];
  for (const [i, text] of expected.entries()) assertStringIncludes(attempts[i]!.error!, text);
});

Deno.test("the types of sqlite() refuse what its transaction refuses", () => {
  typed(() => {
    const bot = botOf();
    bot.on("push", async (_event, { db, settleWith, step }) => {
      // @ts-expect-error: what is added later would be lost.
      settleWith((tx) => Promise.resolve(tx.exec("select 1")));
      await step("part", ({ settleWith }) => {
        // @ts-expect-error: as above.
        settleWith((tx) => Promise.resolve(tx));
      });
      // @ts-expect-error: of a KV.
      settleWith((tx) => tx.set(["a"], 1));
      // @ts-expect-error: the store closes it.
      settleWith((tx) => tx.close());
      // @ts-expect-error: it only reads.
      db.exec("delete from mine");
      // @ts-expect-error: the store closes it.
      db.close();
    });
    // @ts-expect-error: it would be committed before.
    sqlite({ setup: (db) => Promise.resolve(db.exec("select 1")) });
  });
});
