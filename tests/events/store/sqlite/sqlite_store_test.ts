import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { testWith } from "../../../_permissions.ts";
import { withFolder } from "../../../_folder.ts";
import { openSqlite } from "../../../_sqlite.ts";
import { VariableError } from "../../../../core/env.ts";
import { defineApp, github, openApp, sqlite } from "../../../../mod.ts";
import { environmentOf } from "../../../../dev/harness/environment.ts";
import { runDeno } from "../../../../dev/harness/run.ts";
import { forgeDelivery, startTestBot } from "../../../../testing/mod.ts";

const exists = (path: string) => Deno.stat(path).then(() => true, () => false);

const SECRET = { GITHUB_WEBHOOK_SECRET: "a long random text" };

const TABLE = "create table if not exists push (repository text)";

function open(env: Record<string, string>, { name = "bot", setup = TABLE } = {}) {
  const store = sqlite({ setup: (db) => db.exec(setup) });
  const bot = defineApp({ name, platform: github(), store });
  return openApp(bot, { env: { ...SECRET, ...env }, log: () => {} });
}

/** Opens an app in the folder of the process, without any variable of its own. */
const PROGRAM = `
import { defineApp, github, openApp, sqlite } from "${new URL(
  "../../../../mod.ts",
  import.meta.url,
)}";
const [name, namespace] = Deno.args as [string, string?];
const bot = defineApp({ name, namespace, platform: github(), store: sqlite() });
const env = { GITHUB_WEBHOOK_SECRET: "a long random text" };
await using app = await openApp(bot, { env, log: () => {} });
`;

testWith(
  ["read", "write", "run", "env"],
  "sqlite() makes ./data/<namespace>.db and its folder, with the permissions of that folder",
  () =>
    withFolder(async (folder) => {
      await Deno.writeTextFile(`${folder}/app.ts`, PROGRAM);
      const config = new URL("../../../../deno.json", import.meta.url).pathname;
      const flags = ["--cached-only", "--no-check", "--no-prompt", `--config=${config}`];
      for (
        const [names, file] of [
          [["my-bot"], "my-bot"],
          [["../élan bot/x"], "..-élan bot-x"],
          [["new-bot", "old-bot"], "old-bot"],
        ] as const
      ) {
        const args = [
          ...["run", ...flags, "--allow-read=data", "--allow-write=data", "app.ts", ...names],
        ];
        const options = { cwd: folder, env: environmentOf({}), clearEnv: true };
        assertEquals(await runDeno(args, options), { code: 0, stdout: "", stderr: "" });
        using found = openSqlite(`${folder}/data/${file}.db`);
        const sql = "select value from layout where name = 'namespace'";
        assertEquals(found.database.prepare(sql).get()?.value, names.at(-1));
      }
    }),
);

testWith(
  ["read", "write"],
  "sqlite() takes the file that SQLITE_FILE names, in a folder that is there",
  () =>
    withFolder(async (folder) => {
      await (await open({ SQLITE_FILE: ` ${folder}/a.db ` })).stop();
      assert(await exists(`${folder}/a.db`));
      await assertRejects(
        () => open({ SQLITE_FILE: `${folder}/mount/a.db` }),
        Error,
        `the SQLite file ${folder}/mount/a.db cannot be used: the folder of its file does not exist, or cannot be read`,
      );
      assert(!await exists(`${folder}/mount`));
    }),
);

testWith([], "sqlite() refuses what is no path", async () => {
  for (const SQLITE_FILE of ["sqlite:a.db", "file:a.db", "kv:a.db", "postgres://bob:s3cret@db"]) {
    const { message } = await assertRejects(() => open({ SQLITE_FILE }), VariableError);
    const scheme = SQLITE_FILE.split(":")[0];
    assertEquals(message, `SQLITE_FILE must be a path or :memory:, and begins with ${scheme}:`);
  }
});

testWith(
  [],
  "sqlite() refuses Deno Deploy with one sentence, but for a file in memory",
  async () => {
    const { message } = await assertRejects(() => open({ DENO_DEPLOY: "1" }), VariableError);
    const sentence = "sqlite() cannot be used on Deno Deploy, which has no disk that lasts";
    assertEquals(message, `${sentence}: take kv() there`);
  },
);

testWith([], "sqlite() refuses options that it does not have", () => {
  assertThrows(() => sqlite({ setup: 1 } as never), TypeError, "'setup' must be a function");
  assertThrows(() => sqlite({ path: "x" } as never), TypeError, 'there is no option "path"');
});

testWith(
  ["read", "write"],
  "a SQLite file has the events of one app, which may get another name",
  () =>
    withFolder(async (folder) => {
      const SQLITE_FILE = `${folder}/a.db`;
      await (await open({ SQLITE_FILE })).stop();
      const other = () => open({ SQLITE_FILE }, { name: "other" });
      const reason =
        "it has the events of 'bot', and not of 'other': give each app a file of its own";
      await assertRejects(other, Error, reason);
      const store = sqlite();
      const renamed = defineApp({ name: "other", namespace: "bot", platform: github(), store });
      await (await openApp(renamed, { env: { ...SECRET, SQLITE_FILE }, log: () => {} })).stop();
    }),
);

testWith(
  ["read", "write"],
  "sqlite() leaves the file of another program as it is",
  () =>
    withFolder(async (folder) => {
      const files: [path: string, reason: string][] = [
        [`${folder}/other.db`, "it is a database of something else"],
        [`${folder}/text.db`, "file is not a database"],
        [folder, "it is a folder, and must be a file"],
      ];
      {
        using other = openSqlite(files[0]![0]);
        other.database.exec("create table event (id text)");
      }
      await Deno.writeTextFile(files[1]![0], "This text is no database, and has no header of one.");
      for (const [path, reason] of files) {
        const before = path === folder ? undefined : await Deno.readFile(path);
        const message = `the SQLite file ${path} cannot be used: ${reason}`;
        await assertRejects(() => open({ SQLITE_FILE: path }), Error, message);
        if (before) assertEquals(await Deno.readFile(path), before);
      }
      assertEquals([...Deno.readDirSync(folder)].map(({ name }) => name).sort(), [
        "other.db",
        "text.db",
      ]);
    }),
);

testWith(
  ["read", "write"],
  "a 'setup' that fails keeps the app from starting, and leaves nothing",
  () =>
    withFolder(async (folder) => {
      const SQLITE_FILE = `${folder}/a.db`;
      const failing = () => open({ SQLITE_FILE }, { setup: `${TABLE}; create table push (x)` });
      await assertRejects(
        failing,
        Error,
        `${SQLITE_FILE} cannot be used: its 'setup' has failed: table push already exists`,
      );
      await (await open({ SQLITE_FILE }, { setup: TABLE })).stop();
    }),
);

testWith([], "a test bot of sqlite() keeps its file in memory, and runs 'setup'", async () => {
  const store = sqlite({ setup: (db) => db.exec(TABLE) });
  const bot = defineApp({ name: "bot", platform: github(), store });
  bot.on("push", (event, { settleWith }) => {
    settleWith((db) => db.prepare("insert into push values (?)").run(event.type));
  });
  await using test = await startTestBot(bot);
  await test.deliver(forgeDelivery("push", {}));
  assertEquals(test.db.prepare("select * from push").get()?.repository, "push");
});
