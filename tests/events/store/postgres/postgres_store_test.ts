import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Client } from "pg";
import { defineApp, forge, openApp, optional, required } from "../../../../mod.ts";
import {
  postgres,
  type PostgresReader,
  type PostgresTx,
} from "../../../../events/store/postgres/mod.ts";
import { startTestBot } from "../../../../testing/mod.ts";
import { existingPostgres } from "../../../../events/store/postgres/postgres_store.ts";
import { freePort } from "../../../../dev/harness/free_port.ts";
import { testWith } from "../../../_permissions.ts";
import { POSTGRES } from "../engines/postgres.ts";
import { sharedPostgres } from "./_server.ts";

const { needs, missing } = POSTGRES.kinds[0];

const log = () => {};
const FORGE_WEBHOOK_SECRET = "It's a Secret to Everybody, of 32 characters";

/** Opens an app in an own schema, which goes with it. */
async function openOn(url: string, schema = newSchema(), name = "bot") {
  const store = postgres({ schema });
  const app = await openApp(defineApp({ name, platform: forge(), store }), {
    env: { FORGE_WEBHOOK_SECRET, DATABASE_URL: url },
    log,
  });
  return { app, schema };
}

const newSchema = () => `app_${crypto.randomUUID().replaceAll("-", "")}`;

testWith(needs, "postgres() opens the database of DATABASE_URL, and makes its schema", async () => {
  const { app, schema } = await openOn((await sharedPostgres()).direct);
  await using _app = app;
  await app.store.emit("jobs", "made", { n: 1 });
  const sql = `select id, type from ${schema}.event`;
  const { rows } = await app.db.query<{ type: string }>(sql);
  assertEquals(rows.map(({ type }) => type), ["made"]);
}, missing);

testWith(needs, "postgres() reads the variables of psql", async () => {
  const { hostname, port } = new URL((await sharedPostgres()).direct);
  const store = postgres({ schema: newSchema() });
  await using app = await openApp(defineApp({ name: "bot", platform: forge(), store }), {
    env: {
      FORGE_WEBHOOK_SECRET,
      ...{ PGHOST: hostname, PGPORT: port, PGUSER: "tests", PGDATABASE: "postgres" },
    },
    log,
  });
  assertEquals((await app.db.query("select current_user as name")).rows, [{ name: "tests" }]);
}, missing);

testWith(needs, "an app may read the variables of its database itself", async () => {
  const env = { DATABASE_URL: required, PGPASSWORD: optional("none") };
  const DATABASE_URL = (await sharedPostgres()).direct;
  const read: string[] = [];
  const resources = ({ env }: { env: { DATABASE_URL: string } }) => read.push(env.DATABASE_URL);
  const bot = defineApp({ name: "bot", platform: forge(), store: postgres(), env, resources });
  await using _test = await startTestBot(bot, { env: { DATABASE_URL } });
  assertEquals(read, [DATABASE_URL]);
}, missing);

testWith(needs, "processes that start at the same time make the tables once", async () => {
  const schema = newSchema();
  const opened = await Promise.all(
    Array.from({ length: 20 }, async () => await openOn((await sharedPostgres()).direct, schema)),
  );
  const [{ app }] = opened as [typeof opened[number]];
  await app.store.emit("jobs", "made", {}, { id: "1" });
  for (const { app } of opened) assert(await app.store.get("jobs:1"));
  for (const { app } of opened) await app[Symbol.asyncDispose]();
}, missing);

testWith(needs, "a schema has the events of one app", async () => {
  const { app, schema } = await openOn((await sharedPostgres()).direct);
  await using _app = app;
  await assertRejects(
    async () => await openOn((await sharedPostgres()).direct, schema, "other"),
    Error,
    "its schema has the events of 'bot', and not of 'other': give each app a schema of its own",
  );
}, missing);

testWith(needs, "setup makes tables, and an error of it keeps the app from starting", async () => {
  const schema = newSchema();
  const url = (await sharedPostgres()).direct;
  const open = (setup: NonNullable<Parameters<typeof postgres>[0]>["setup"]) => {
    const store = postgres({ schema, setup });
    return openApp(defineApp({ name: "bot", platform: forge(), store }), {
      env: { FORGE_WEBHOOK_SECRET, DATABASE_URL: url },
      log,
    });
  };
  await using app = await open((tx) =>
    tx.query(`create table if not exists mine_${schema} (n int)`)
  );
  assertEquals((await app.db.query(`select * from mine_${schema}`)).rows, []);
  await assertRejects(() => open((tx) => tx.query("create tabel x")), Error, "syntax error");
  await app.store.transact((tx) => tx.query(`drop table mine_${schema}`));
}, missing);

testWith(needs, "each test bot has its own tables, which go with it", async () => {
  const table = `mine_${crypto.randomUUID().slice(0, 8)}`;
  const setup = (tx: PostgresTx) => tx.query(`create table ${table} (n int)`);
  const bot = defineApp({ name: "bot", platform: forge(), store: postgres({ setup }) });
  const env = { DATABASE_URL: (await sharedPostgres()).direct };
  const schemas = async (reader: PostgresReader) =>
    (await reader.query(`select schemaname from pg_tables where tablename = '${table}'`)).rows;
  {
    await using one = await startTestBot(bot, { env });
    await using other = await startTestBot(bot, { env });
    await one.store.transact((tx) => tx.query(`insert into ${table} values (1)`));
    assertEquals((await one.db.query(`select n from ${table}`)).rows, [{ n: 1 }]);
    assertEquals((await other.db.query(`select n from ${table}`)).rows, []);
    assertEquals((await schemas(other.db)).length, 2);
  }
  await using after = await startTestBot(bot, { env });
  assertEquals((await schemas(after.db)).length, 1);
}, missing);

testWith(needs, "an app says why its database cannot be used", async () => {
  const url = new URL((await sharedPostgres()).direct);
  const nowhere = Object.assign(new URL(url), { pathname: "/nowhere" }).href;
  await assertRejects(
    () => openOn(nowhere),
    Error,
    "the database nowhere at 127.0.0.1 cannot be used: there is no database of that name",
  );
  const refused = Object.assign(new URL(url), { port: String(freePort()) }).href;
  const opening = existingPostgres.open(refused, false);
  await assertRejects(() => opening, Error, "Cannot open the database: nothing listens there");
  const plain = `${url.href}?sslmode=require`;
  await assertRejects(() => openOn(plain), Error, "it takes no encrypted connection: say sslmode=");
  const nobody = Object.assign(new URL(url), { username: "nobody" }).href;
  const refusal = 'its user may not connect: role "nobody" does not exist';
  await assertRejects(() => openOn(nobody), Error, refusal);
}, missing);

/** Makes an empty database, and returns its URL. */
async function newDatabase(name: string, more = ""): Promise<string> {
  const { direct } = await sharedPostgres();
  await run(direct, `create database ${name} template template0 ${more}`);
  return Object.assign(new URL(direct), { pathname: `/${name}` }).href;
}

testWith(needs, "a database that cannot hold every text is refused", async () => {
  const url = await newDatabase("latin", "encoding LATIN1");
  const refusal = "it has the encoding LATIN1, which lacks characters: make one with UTF8";
  await assertRejects(() => openOn(url), Error, refusal);
  await assertRejects(() => existingPostgres.open(url, true), Error, refusal);
}, missing);

testWith(needs, "bytes are read in whatever way a database writes them", async () => {
  const url = await newDatabase("escaping");
  await run(url, "alter database escaping set bytea_output = 'escape'");
  const { app } = await openOn(url);
  await using _ = app;
  const all = String.fromCharCode(...Array(0x180).keys()) + "\\x00\\000";
  const { id } = await app.store.emit("jobs", "made", {}, { id: all });
  assertEquals((await app.store.get(id))?.deliveryId, all);
}, missing);

testWith(needs, "an app shows no password of its database", async () => {
  const url = (await sharedPostgres()).direct;
  const [user, password] = [newSchema(), "s3cret-pw"];
  await run(url, `create role ${user} login password '${password}'`);
  const wrong = Object.assign(new URL(url), { username: user, password, pathname: "/nowhere" });
  const error = await assertRejects(() => openOn(wrong.href), Error, "cannot be used");
  assert(!Deno.inspect(error, { depth: 9 }).includes(password));
  await run(url, `drop role ${user}`);
}, missing);

testWith(needs, "the tool opens only what is there", async () => {
  const url = (await sharedPostgres()).direct;
  const { app, schema } = await openOn(url);
  await using _app = app;
  const database = await existingPostgres.open(`${url}?store_schema=${schema}`, false);
  assertEquals(await database.namespaces(), ["bot"]);
  await database.close();
  const missing = existingPostgres.open(`${url}?store_schema=${newSchema()}`, false);
  await assertRejects(
    () => missing,
    Error,
    "has no event store. The URL may name another by ?store_schema=",
  );
}, missing);

testWith(
  needs,
  "an app that may not make tables uses those of the printed statements",
  async () => {
    const url = (await sharedPostgres()).direct;
    const [schema, user] = [newSchema(), newSchema()];
    const as = Object.assign(new URL(url), { username: user }).href;
    await run(
      url,
      `create role ${user} login; ${existingPostgres.migrations!(`${as}?store_schema=${schema}`)}`,
    );
    await assertRejects(() => openOn(as), Error, "If it may not make tables, have");
    const { app } = await openOn(as, schema);
    await app.store.emit("jobs", "made", {}, { id: "1" });
    assert(await app.store.get("jobs:1"));
    await app[Symbol.asyncDispose]();
    await run(url, `drop schema ${schema} cascade; drop role ${user}`);
  },
  missing,
);

/** Runs statements as `psql` does. */
async function run(url: string, statements: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query(statements);
  await client.end();
}

Deno.test("postgres() checks its options", () => {
  assertThrows(() => postgres({ schema: 'a"b' }), TypeError, "'schema' must be a name");
  assertThrows(() => postgres({ connections: 0 }), RangeError, "'connections'");
  assertThrows(() => postgres({ setup: 1 as never }), TypeError, "'setup'");
});
