/** Places where the events of a test bot lie: never where the app has its own. */
import { assertEquals, assertRejects } from "@std/assert";
import { defineApp, github, kv, sqlite, type StoreDefinition } from "../../mod.ts";
import { postgres } from "../../events/store/postgres/mod.ts";
import { forgeDelivery, startTestBot } from "../../testing/mod.ts";
import { sharedPostgres } from "../events/store/postgres/_server.ts";
import { POSTGRES } from "../events/store/engines/postgres.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";

const appWith = (store: StoreDefinition) => {
  const bot = defineApp({ name: "bot", platform: github(), store });
  bot.on("push", () => {});
  return bot;
};

const DATABASE_URL = "postgres://user@127.0.0.1/db";

const REFUSED: readonly (readonly [StoreDefinition, Record<string, string>, string])[] = [
  [sqlite(), {}, "Name its file: { env: { SQLITE_FILE: path } }, or leave 'store' out"],
  [sqlite(), { SQLITE_FILE: " " }, "Name its file"],
  [kv(), {}, "Name its place, { env: { KV_URL: path } }, or give one that is open, kv(opened)"],
  [postgres(), { DATABASE_URL }, "Give it a schema of its own: postgres({ schema })"],
];

for (const [store, env, remedy] of REFUSED) {
  Deno.test(`startTestBot() refuses the default place of ${store.name}() with ${JSON.stringify(env)}`, async () => {
    const start = () => startTestBot(appWith(store), { store, env });
    const { message } = await assertRejects(start, TypeError, remedy);
    assertEquals(message.startsWith("Cannot start the test bot: 'store' would open"), true);
  });
}

const FILES: readonly (readonly [() => StoreDefinition, variable: string])[] = [
  [sqlite, "SQLITE_FILE"],
  [kv, "KV_URL"],
];

for (const [define, variable] of FILES) {
  for (const given of [{}, { store: define() }]) {
    const how = "store" in given ? "with 'store'" : "without 'store'";
    testWith(["read", "write"], `two test bots share the file of ${variable}, ${how}`, async () => {
      await withFolder(async (folder) => {
        const options = { ...given, env: { [variable]: `${folder}/test.db` } };
        const deliver = async () => {
          await using bot = await startTestBot(appWith(define()), options);
          await bot.deliver(forgeDelivery("push", {}));
          return (await Array.fromAsync(bot.store.list())).length;
        };
        assertEquals([await deliver(), await deliver()], [1, 2]);
      });
    });
  }
}

testWith(
  POSTGRES.kinds[0].needs,
  "two test bots share a schema of a Postgres database",
  async () => {
    const env = { DATABASE_URL: (await sharedPostgres()).direct };
    const store = postgres({ schema: `places_${crypto.randomUUID().replaceAll("-", "")}` });
    const deliver = async () => {
      await using bot = await startTestBot(appWith(postgres()), { store, env });
      await bot.deliver(forgeDelivery("push", {}));
      return (await Array.fromAsync(bot.store.list())).length;
    };
    assertEquals([await deliver(), await deliver()], [1, 2]);
  },
  POSTGRES.kinds[0].missing,
);
