import { assert, assertEquals, assertThrows } from "@std/assert";
import { addressFrom, addressIn } from "../../../../events/store/postgres/_settings.ts";

const read = (env: Readonly<Record<string, string>>) =>
  addressFrom({ get: (name) => env[name], warn: () => {} });

const SECRET = "s3cret";

const FORM = "DATABASE_URL must begin with postgres:// and go on with USER:PASSWORD@HOST/DATABASE";

const MODES = "disable, allow, prefer, require, verify-ca, verify-full, no-verify";

/** Variables with a mistake, and the message about it. */
const WRONG: readonly (readonly [Readonly<Record<string, string>>, string])[] = [
  [{}, "DATABASE_URL is missing: give the URL of the database"],
  [{ DATABASE_URL: " " }, "DATABASE_URL is missing"],
  [{ PGUSER: "u", PGPASSWORD: SECRET }, "DATABASE_URL is missing"],
  ...["my_db", `mysql://u:${SECRET}@h/d`, "postgres://h/d", `postgres://u:${SECRET}@/d`].map(
    (url) => [{ DATABASE_URL: url }, FORM] as const,
  ),
  // Of a / or # in a password nobody but its user can know that it is one.
  [
    { DATABASE_URL: `postgres://u:1/${SECRET}@h/d` },
    `${FORM}. In the user and the password, write`,
  ],
  [{ DATABASE_URL: `postgres://u:1#${SECRET}@h/d` }, FORM],
  [{ DATABASE_URL: `postgres://u:%${SECRET}@h/d` }, "has a % that begins no character: write %25"],
  [{ DATABASE_URL: "postgres:///d?host=/run" }, "must not have 'host' behind its ?"],
  [{ DATABASE_URL: "postgres://u@h/d?ssl=true" }, "must not have 'ssl' behind its ?"],
  [{ DATABASE_URL: "postgres://u@h/d?sslrootcert=x" }, "which is not read there: give sslmode"],
  [{ DATABASE_URL: "postgres://u@h/d?sslmode=maybe" }, `'sslmode' must be one of ${MODES}`],
  [
    { DATABASE_URL: "postgres://u@h/d?store_schema=A-b" },
    "names no schema: 'store_schema' must be a name of",
  ],
  [{ DATABASE_URL: 'postgres://u@h/d?store_schema=a"b' }, "names no schema"],
  [{ DATABASE_URL: "postgres://u@h/d", PGSSLMODE: "x" }, `PGSSLMODE must be one of ${MODES}`],
  [{ PGHOST: "h", PGDATABASE: "d" }, "PGUSER is not set"],
  [{ PGHOST: "h", PGUSER: "u", PGPORT: "0" }, "PGPORT must be a number from 1 to 65535"],
  [{ PGHOST: "h", PGUSER: "u", PGSSLMODE: "x" }, `PGSSLMODE must be one of ${MODES}`],
];

for (const [env, message] of WRONG) {
  Deno.test(`postgres() explains ${JSON.stringify(env)}`, () => {
    const error = assertThrows(() => read(env), Error, message);
    assertEquals((error as Error).name, "VariableError");
    assert(!Deno.inspect(error).includes(SECRET));
  });
}

Deno.test("postgres() reads a URL", () => {
  const url =
    "postgresql://a%40b:p%2Fw@[::1]:6543/d?store_schema=mine&sslmode=require&pgbouncer=true";
  assertEquals(read({ DATABASE_URL: ` ${url} `, PGHOST: "other" }), {
    settings: {
      ...{ host: "::1", port: 6543, user: "a@b", password: "p/w", database: "d", ssl: true },
    },
    schema: "mine",
  });
  // A URL that Prisma reads has the schema of its tables.
  const { settings, schema } = addressIn("postgres://u@localhost?schema=public");
  assertEquals([settings.port, settings.database, schema], [5432, "u", "edge_base"]);
});

Deno.test("postgres() reads the variables of psql", () => {
  const env = { PGHOST: "/run/postgresql", PGUSER: "u", PGPASSWORD: SECRET, PGDATABASE: "d" };
  assertEquals(read(env).settings, {
    ...{ host: "/run/postgresql", port: 5432, user: "u", password: SECRET, database: "d" },
    ssl: false,
  });
  assertEquals(read({ PGDATABASE: "d", PGUSER: "u" }).settings.host, "127.0.0.1");
});

Deno.test("postgres() encrypts what leaves the private network, unless it is told otherwise", () => {
  const hosts = { "db.example.com": true, "8.8.8.8": true, "db": false, "10.0.0.7": false };
  for (const [host, ssl] of Object.entries(hosts)) {
    assertEquals([host, addressIn(`postgres://u@${host}/d`).settings.ssl], [host, ssl]);
    assertEquals([host, read({ PGHOST: host, PGUSER: "u" }).settings.ssl], [host, ssl]);
  }
  const url = "postgres://u@db.example.com/d";
  assertEquals(read({ DATABASE_URL: url, PGSSLMODE: "disable" }).settings.ssl, false);
  const own = { DATABASE_URL: `${url}?sslmode=no-verify`, PGSSLMODE: "disable" };
  assertEquals(read(own).settings.ssl, { rejectUnauthorized: false });
});
