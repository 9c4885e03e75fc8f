import { assert, assertEquals, assertLess, assertMatch, assertRejects } from "@std/assert";
import { createEventStore } from "../../../../events/store/open_store.ts";
import { OpenDatabase } from "../../../../events/store/postgres/_open_database.ts";
import { migrationOf } from "../../../../events/store/postgres/_schema.ts";
import { addressIn } from "../../../../events/store/postgres/_settings.ts";
import { openPostgresEngine } from "../../../../events/store/postgres/postgres_engine.ts";
import { pause, until } from "../../../../dev/harness/until.ts";
import type { LogRecord } from "../../../../mod.ts";
import { ANSWERED_WITHIN_MS } from "../../../apps/_deliver.ts";
import { claimOne, delivery } from "../_events.ts";
import { IS_LONG } from "../../../_length.ts";
import { openProxy } from "./_proxy.ts";
import { handled, openOn, testServer } from "./_faulty_app.ts";
import { POSTGRES } from "../engines/postgres.ts";
import { type OwnPostgres, sqlAt } from "./_own_server.ts";

type FaultyApp = Awaited<ReturnType<typeof openOn>>;

/** Longest wait for an app to go on, once it can. */
const SOON_MS = 20_000;

/** Reason to skip a test that mounts a disk; undefined if it may. */
const CANNOT_MOUNT = POSTGRES.kinds[0].missing ?? (isRoot() ? undefined : "needs to mount a disk");

function isRoot(): boolean {
  if (Deno.build.os !== "linux") return false;
  const { stdout } = new Deno.Command("id", { args: ["-u"] }).outputSync();
  return new TextDecoder().decode(stdout).trim() === "0";
}

/** Reason to skip what takes longer than half a minute. */
const IS_SHORT = POSTGRES.kinds[0].missing ?? (IS_LONG ? undefined : "takes long");

/** Makes a role that is no administrator, which may make schemas. Returns the URL with it. */
async function withRole(server: OwnPostgres, settings = ""): Promise<string> {
  await server.sql(`create role app login password 'first secret' ${settings};
    grant create on database postgres to app; grant create, usage on schema public to app`);
  return server.url.replace("tests@", "app:first%20secret@");
}

/** Sends deliveries, some at a time, until the signal. Returns the ids that were answered 200, and all other answers. */
async function deliverUntil(app: FaultyApp, signal: AbortSignal) {
  const [acknowledged, others] = [[] as string[], [] as { status: number; ms: number }[]];
  const send = async () => {
    while (!signal.aborted) {
      const id = crypto.randomUUID();
      const answer = await app.deliver(id);
      if (answer.status === 200) acknowledged.push(id);
      else others.push(answer);
      await pause(5);
    }
  };
  await Promise.all(Array.from({ length: 8 }, send));
  return { acknowledged, others };
}

/** Sends deliveries while something happens, and then until some are acknowledged again. All must be handled. */
async function deliverDuring(app: FaultyApp, server: OwnPostgres, fault: () => Promise<unknown>) {
  const end = new AbortController();
  const sending = deliverUntil(app, end.signal);
  await pause(200);
  await fault();
  let inARow = 0;
  await until(async () => {
    const { status } = await app.deliver(`after ${inARow}`.replace(" ", "-"));
    return (inARow = status === 200 ? inARow + 1 : 0) >= 10;
  }, SOON_MS);
  end.abort();
  const { acknowledged, others } = await sending;
  assert(acknowledged.length > 20);
  for (const { status, ms } of others) {
    assertEquals(status, 503);
    assertLess(ms, ANSWERED_WITHIN_MS);
  }
  await assertHandled(server, acknowledged);
  return others.length;
}

/** Waits until all events are handled, and checks that each has left one row. */
async function assertHandled(server: OwnPostgres, ids: readonly string[]): Promise<void> {
  await until(async () => {
    const [row] = await server.sql(
      "select count(*)::int as n from edge_base.event where state <> 'done'",
    );
    return row!.n === 0;
  }, SOON_MS);
  const rows = await handled(server);
  assertEquals(new Set(rows).size, rows.length);
  const found = new Set(rows);
  assertEquals(ids.filter((id) => !found.has(id)), []);
}

/** Reads the reasons that a log has. */
const reasons = (records: readonly LogRecord[]) =>
  Deno.inspect(records, { depth: 9, iterableLimit: Infinity, strAbbreviateSize: Infinity });

testServer("an app waits for a server that starts, and says so", async (server) => {
  await server.stop("fast");
  const records: LogRecord[] = [];
  const opening = openOn(server.url, {}, records);
  await until(() => records.length > 0, SOON_MS);
  const [{ level, message, reason }] = records as [LogRecord & { reason: string }];
  assertEquals([level, message], ["warn", "database not there yet: trying again"]);
  assertEquals(reason, "nothing listens there");
  await server.start();
  await using app = await opening;
  assertEquals((await app.deliver("d1")).status, 200);
});

for (const mode of ["fast", "immediate"] as const) {
  testServer(`an app goes on after a server was restarted under load: ${mode}`, async (server) => {
    await using app = await openOn(server.url);
    const refused = await deliverDuring(app, server, async () => {
      await server.stop(mode);
      assertEquals((await app.deliver("meanwhile")).status, 503);
      await pause(300);
      await server.start();
    });
    assert(refused > 0);
  });
}

testServer(
  "an app goes on when its connections are ended in the midst of transactions",
  async (server) => {
    await using app = await openOn(server.url, {
      effects: (tx) => tx.query("select pg_sleep(0.01)"),
    });
    await deliverDuring(app, server, async () => {
      for (let i = 0; i < 10; i++) {
        await server.sql(
          "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'edge-base'",
        );
        await pause(50);
      }
    });
  },
);

testServer(
  "a connection that is lost in a handler's transaction takes its writes back",
  async (server) => {
    let isFirst = true;
    await using app = await openOn(server.url, {
      effects: async (tx, id) => {
        if (!isFirst) return;
        isFirst = false;
        await tx.query("insert into handled values ($1)", [`${id} lost`]);
        await tx.query("select pg_terminate_backend(pg_backend_pid())");
      },
    });
    assertEquals((await app.deliver("d1")).status, 200);
    await until(async () => (await app.store.get("forge:d1"))?.state === "done", SOON_MS);
    assertEquals(await handled(server), ["d1"]);
  },
);

testServer(
  "an app that gets few connections does with those, and with none answers 503",
  async (server) => {
    const url = await withRole(server, "connection limit 4");
    await using app = await openOn(url, { connections: 2 });
    const ids = Array.from({ length: 50 }, (_, i) => `d${i}`);
    const answers = await Promise.all(ids.map((id) => app.deliver(id)));
    assertEquals(answers.filter(({ status }) => status !== 200), []);
    await server.sql("alter role app connection limit 0");
    await server.sql(
      "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'",
    );
    await until(async () => (await app.deliver(crypto.randomUUID())).status === 503, SOON_MS);
    await assertRejects(() => app.store.get("forge:d1"), Error, "too many connections");
    await server.sql("alter role app connection limit 10");
    await until(async () => (await app.deliver("later")).status === 200, SOON_MS);
    await assertHandled(server, [...ids, "later"]);
  },
);

testServer(
  "time limits of the server fail the attempt that meets them, and no other",
  async (server) => {
    const url = await withRole(server);
    await server.sql(`alter role app set statement_timeout = '400ms';
    alter role app set lock_timeout = '200ms';
    alter role app set idle_in_transaction_session_timeout = '400ms'`);
    const slow = new Set(["statement", "idle"]);
    await using app = await openOn(url, {
      effects: async (tx, id) => {
        if (!slow.delete(id)) return;
        if (id === "statement") await tx.query("select pg_sleep(1)");
        else await pause(800);
      },
    });
    const ids = ["statement", "idle", ...Array.from({ length: 20 }, (_, i) => `d${i}`)];
    for (const id of ids) assertEquals((await app.deliver(id)).status, 200);
    await assertHandled(server, ids);
    const errors = async (id: string) =>
      (await app.store.get(`forge:${id}`))!.attempts.map(({ error }) => error ?? "");
    assertMatch((await errors("statement")).join(), /statement timeout/);
    assertMatch((await errors("idle")).join(), /idle-in-transaction|connection/i);
  },
);

testServer(
  "a table that somebody holds for longer than the server lets wait is 503",
  async (server) => {
    const url = await withRole(server);
    await server.sql("alter role app set lock_timeout = '200ms'");
    await using app = await openOn(url);
    await deliverDuring(app, server, () =>
      server.sql(
        "begin; lock table edge_base.event in access exclusive mode; select pg_sleep(1); commit",
      ));
  },
);

for (const level of ["serializable", "repeatable read"]) {
  testServer(`two apps share a database whose default is ${level}`, async (server) => {
    await server.sql(`alter database postgres set default_transaction_isolation = '${level}'`);
    await using first = await openOn(server.url);
    await using second = await openOn(server.url);
    const ids = Array.from({ length: 150 }, (_, i) => `d${i}`);
    const answers = await Promise.all(
      ids.flatMap((id) => [first.deliver(id), second.deliver(id)]),
    );
    assertEquals(answers.filter(({ status }) => status !== 200), []);
    await assertHandled(server, ids);
    assertEquals((await handled(server)).length, ids.length);
    const failed = [...first.records, ...second.records].filter(({ level }) => level === "error");
    assertEquals(failed, []);
  });

  testServer(`a change waits for another one where the default is ${level}`, async (server) => {
    await server.sql(`alter database postgres set default_transaction_isolation = '${level}'`);
    const { settings } = addressIn(server.url);
    const database = await OpenDatabase.open(settings, { schema: "edge_base", handlers: 1 });
    const store = createEventStore(openPostgresEngine(database), { log: () => {} });
    await store.accept(delivery("d1"));
    const lease = await claimOne(store);
    // One is changed by others again and again, as soon as the one before lets go of it.
    const touch =
      "begin isolation level read committed; update edge_base.event set attempts = attempts; select pg_sleep(0.05); commit;";
    const touching = server.sql(touch.repeat(60));
    await pause(100);
    assert(await store.renew(lease, 60_000));
    await touching;
    await database.close();
  });
}

testServer(
  "a wrong password is said at the start, and one that has changed is 503 meanwhile",
  async (server) => {
    const url = await withRole(server);
    await server.requirePasswords();
    const wrong = openOn(url.replace("first", "other"));
    const error = await assertRejects(() => wrong, Error, "its user or password is wrong");
    assert(!error.message.includes("secret"));
    await using app = await openOn(url);
    assertEquals((await app.deliver("d1")).status, 200);
    await server.sql("alter role app password 'second secret'");
    await server.sql(
      "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'",
    );
    await until(async () => (await app.deliver(crypto.randomUUID())).status === 503, SOON_MS);
    assertMatch(reasons(app.records), /password authentication failed/);
    assert(!/(?:first|second)(?: |%20)secret/.test(reasons(app.records)));
    await server.sql("alter role app password 'first secret'");
    await until(async () => (await app.deliver("d2")).status === 200, SOON_MS);
    await assertHandled(server, ["d1", "d2"]);
  },
);

testServer("an expired password is said at the start", async (server) => {
  const url = await withRole(server, "valid until '2001-01-01'");
  await server.requirePasswords();
  await assertRejects(() => openOn(url), Error, "its user or password is wrong");
});

testServer(
  "a role that may not make tables is told how to get them, and needs no more",
  async (server) => {
    await server.sql(`create role app login; create table handled (id text);
    grant insert, select on handled to app`);
    const url = server.url.replace("tests@", "app@");
    await assertRejects(
      () => openOn(url, { hasSetup: false }),
      Error,
      "have somebody else run what `events migrate --print` prints",
    );
    await server.sql(migrationOf("edge_base", "app"));
    await server.sql("revoke create on schema public from public");
    await assertRejects(
      () => openOn(url),
      Error,
      "cannot be used: its 'setup' has failed: permission denied for schema public",
    );
    await using app = await openOn(url, { hasSetup: false });
    assertEquals((await app.deliver("d1")).status, 200);
    await assertHandled(server, ["d1"]);
  },
);

testServer("a role that may not connect is told so", async (server) => {
  await server.sql("create role app login; revoke connect on database postgres from public");
  const url = server.url.replace("tests@", "app@");
  await assertRejects(() => openOn(url), Error, "its user may not connect");
});

testServer(
  "a database that can only be read is said at the start, and is 503 later",
  async (server) => {
    const url = await withRole(server);
    const readOnly = (value: string) =>
      server.sql(`alter role app set default_transaction_read_only = ${value}`);
    await using app = await openOn(url);
    assertEquals((await app.deliver("d1")).status, 200);
    await assertHandled(server, ["d1"]);
    await readOnly("on");
    const records: LogRecord[] = [];
    const opening = openOn(url, { hasSetup: false }, records);
    await until(() => records.length > 0, SOON_MS);
    assertMatch(reasons(records), /it can only be read: it is a standby/);
    await server.sql(
      "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'",
    );
    await until(async () => (await app.deliver(crypto.randomUUID())).status === 503, SOON_MS);
    await readOnly("off");
    await using second = await opening;
    await until(async () => (await app.deliver("d2")).status === 200, SOON_MS);
    assertEquals((await second.deliver("d3")).status, 200);
    await assertHandled(server, ["d1", "d2", "d3"]);
  },
);

testServer(
  "an app that is busy goes on once a database can be written again",
  async (server) => {
    const url = await withRole(server);
    await using app = await openOn(url);
    await deliverDuring(app, server, async () => {
      await server.sql("alter role app set default_transaction_read_only = on");
      await server.sql(
        "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'",
      );
      await until(async () => (await app.deliver(crypto.randomUUID())).status === 503, SOON_MS);
      await server.sql("alter role app set default_transaction_read_only = off");
    });
  },
);

testServer(
  "a full disk is 503, and the app goes on once there is space",
  async (server) => {
    await server.sql(`create tablespace small location '${server.disk}'`);
    await server.sql("create database small tablespace small");
    const url = server.url.replace("/postgres", "/small");
    await using app = await openOn(url);
    assertEquals((await app.deliver("d1")).status, 200);
    const body = JSON.stringify({ text: "x".repeat(500_000) });
    const ids: string[] = [];
    await until(async () => {
      const id = crypto.randomUUID();
      const { status } = await app.deliver(id, body);
      if (status === 200) ids.push(id);
      return status === 503;
    }, SOON_MS);
    assertMatch(reasons(app.records), /No space left on device/);
    await server.growDisk();
    await until(async () => (await app.deliver("later", body)).status === 200, SOON_MS);
    await until(async () => {
      const [row] = await sqlAt(
        server.direct.replace("/postgres", "/small"),
        "select count(*)::int as n from handled",
      );
      return row!.n === ids.length + 2;
    }, SOON_MS);
  },
  { hasSmallDisk: true },
  CANNOT_MOUNT,
);

testServer(
  "an app goes on when a machine in between is gone and closes nothing",
  async (server) => {
    await using proxy = openProxy(server.url);
    const held = Promise.withResolvers<void>();
    await using app = await openOn(proxy.url, { effects: () => held.promise });
    assertEquals((await app.deliver("d1")).status, 200);
    await pause(500);
    proxy.silence();
    held.resolve();
    const { status, ms } = await app.deliver("d2");
    assertEquals(status, 503);
    assertLess(ms, ANSWERED_WITHIN_MS);
    await until(async () => (await app.deliver("d3")).status === 200, 60_000);
    await assertHandled(server, ["d1", "d3"]);
  },
  {},
  IS_SHORT,
);

testServer(
  "what waits for a lock for long is given up, and waits no more at the server",
  async (server) => {
    await using app = await openOn(server.url);
    let isLocked = true;
    const locking = server.sql(
      "begin; lock table edge_base.event in access exclusive mode; select pg_sleep(45); commit",
    ).finally(() => isLocked = false);
    let most = 0;
    while (isLocked) {
      await app.deliver(crypto.randomUUID());
      const waiting =
        "select count(*)::int as n from pg_stat_activity where wait_event_type = 'Lock'";
      const [row] = await server.sql<{ n: number }>(waiting);
      most = Math.max(most, row!.n);
    }
    await locking;
    // Five of the store, and five of handlers.
    assert(most > 0 && most <= 10, `${most} wait`);
    assertMatch(reasons(app.records), /canceling statement due to user request/);
    await until(async () => (await app.deliver("later")).status === 200, SOON_MS);
    await assertHandled(server, ["later"]);
  },
  {},
  IS_SHORT,
);
