import { DatabaseSync } from "node:sqlite";
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { VariableError, variablesIn } from "../../../../core/env.ts";
import { readKvPlace } from "../../../../events/store/kv/kv_store.ts";
import { prepareStore } from "../../../../events/store/store_definition.ts";
import { defineApp, github, kv, openApp } from "../../../../mod.ts";
import { runHere } from "../../../cli/_cli.ts";
import { run } from "../../../../dev/harness/run.ts";
import { openOn } from "../_file_app.ts";
import { withFolder } from "../../../_folder.ts";
import { testWith, UNLESS_LINUX } from "../../../_permissions.ts";

type Values = Record<string, string>;

const placeIn = (values: Values) => readKvPlace(variablesIn(values, () => {}));

const NOTIFIERS: readonly [Values, string][] = [
  [{}, "auto"],
  [{ NOTIFIER: " " }, "auto"],
  ...["auto", "enqueue", "watch"].flatMap((name): [Values, string][] => [
    [{ NOTIFIER: name }, name],
    [{ NOTIFIER: ` ${name} ` }, name],
  ]),
  [{ DENO_DEPLOY: "true" }, "watch"],
  [{ DENO_DEPLOY: "1" }, "watch"],
  [{ NOTIFIER: "auto", DENO_DEPLOY: "true" }, "watch"],
  [{ NOTIFIER: "enqueue", DENO_DEPLOY: "true" }, "enqueue"],
  [{ DENO_DEPLOY: "false" }, "auto"],
];

Deno.test("NOTIFIER names a notifier: by default auto, and watch on Deno Deploy, which has no queues", () => {
  for (const [values, notifier] of NOTIFIERS) assertEquals(placeIn(values).notifier, notifier);
});

Deno.test("KV_URL names the place of a KV, and none of another database", () => {
  const urlIn = (KV_URL: string) => placeIn({ KV_URL }).url;
  const places = ["", " ", " ./kv.db ", ":memory:", "https://kv.test", "HTTP://kv.test"];
  assertEquals(places.map(urlIn), [
    ...[undefined, undefined, "./kv.db", ":memory:", "https://kv.test", "HTTP://kv.test"],
  ]);
  for (const KV_URL of ["postgres://kv.test", "htp://bob:s3cret@kv.test", "kv:./kv.db"]) {
    const { message } = assertThrows(() => placeIn({ KV_URL }), VariableError);
    const must = "KV_URL must be a path, :memory: or a URL with http or https";
    assertEquals(message, `${must}, and begins with ${KV_URL.split(":")[0]}:`);
  }
});

Deno.test("kv() names all that is wrong with its variables at once", () => {
  const wrong = { NOTIFIER: "queue", KV_URL: "postgres://kv.test" };
  const { message } = assertThrows(() => placeIn(wrong), VariableError);
  assertEquals(message.split("; ").map((flaw) => flaw.split(" ")[0]), ["NOTIFIER", "KV_URL"]);
});

Deno.test("kv() reads no place of a KV that is open already", async () => {
  using opened = await Deno.openKv(":memory:");
  assertEquals([kv().variables, kv(opened).variables], [["NOTIFIER", "KV_URL"], ["NOTIFIER"]]);
  const place = readKvPlace(variablesIn({ KV_URL: "postgres://kv.test" }, () => {}), { opened });
  assertEquals([place.opened, place.url], [opened, undefined]);
});

Deno.test("kv() says that the KV it was given is closed", async () => {
  const closed = await Deno.openKv(":memory:");
  closed.close();
  const bot = defineApp({ name: "bot", platform: github() });
  const env = { GITHUB_WEBHOOK_SECRET: "a long random text" };
  const open = () => openApp(bot, { env, store: kv(closed), log: () => {} });
  await assertRejects(open, Error, "the KV that kv() was given cannot be used: it is closed");
});

Deno.test("kv() refuses what is no open KV", () => {
  for (const wrong of [null, ":memory:", {}, Promise.resolve()]) {
    assertThrows(() => kv(wrong as never), TypeError, "the KV must be what Deno.openKv() resolves");
  }
});

const NOT_A_KV = "the KV that KV_URL names cannot be used: it is the file of a SQLite store: " +
  "define the app with 'store: sqlite()', whose file is in SQLITE_FILE, or give KV_URL another path";

/** The names of what is in a file, and of the files in its folder. */
function contentsOf(path: string): unknown {
  const db = new DatabaseSync(path);
  const names = db.prepare("select name from sqlite_schema order by 1").all().map(Object.values);
  db.close();
  return [names, [...Deno.readDirSync(path.replace(/[^/]*$/, ""))].map(({ name }) => name).sort()];
}

testWith(
  ["read", "write"],
  "kv() leaves the file of a SQLite store as it is, whether its app runs or not",
  () =>
    withFolder(async (folder) => {
      const path = `${folder}/a.db`;
      const refuse = async () => {
        const before = contentsOf(path);
        await assertRejects(() => openOn("Deno KV", path), Error, NOT_A_KV);
        const args = ["events", "list", "--store", `kv:${path}`];
        const err = [`The file ${path} is that of a SQLite store: give --store sqlite:PATH`];
        assertEquals(await runHere(args), { code: 2, out: [], err });
        assertEquals(contentsOf(path), before);
      };
      {
        await using _running = await openOn("SQLite", path);
        await refuse();
      }
      await refuse();
    }),
);

testWith(
  ["read", "write", "run"],
  "kv() keeps the locks of a KV that its process has open already",
  () =>
    withFolder(async (folder) => {
      const path = `${folder}/kv.db`;
      using other = await Deno.openKv(path);
      await other.set(["a"], 1);
      const { ino } = await Deno.stat(path);
      const locks = async () =>
        (await run("cat", ["/proc/locks"])).stdout.split(`:${ino} `).length - 1;
      const before = await locks();
      {
        await using _app = await openOn("Deno KV", path);
      }
      assertEquals(await locks(), before);
    }),
  UNLESS_LINUX,
);

for (const notifier of ["enqueue", "watch"]) {
  Deno.test(`a KV is closed once nothing listens on it any more: ${notifier}`, async () => {
    const values = variablesIn({ KV_URL: ":memory:", NOTIFIER: notifier }, () => {});
    const database = await prepareStore(kv(), values, "bot").open(() => {});
    const store = await database.openStore({});
    let listens = true;
    const listening = store.listen({ wake: () => {} }).then(() => listens = false);
    await database.close();
    assertEquals(listens, false);
    await listening;
  });
}
