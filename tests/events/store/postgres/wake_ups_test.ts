import { assert, assertEquals } from "@std/assert";
import { Client } from "pg";
import type { EventStore } from "../../../../events/mod.ts";
import { createEventStore } from "../../../../events/store/open_store.ts";
import { OpenDatabase } from "../../../../events/store/postgres/_open_database.ts";
import { addressIn } from "../../../../events/store/postgres/_settings.ts";
import { openPostgresEngine } from "../../../../events/store/postgres/postgres_engine.ts";
import { existingPostgres } from "../../../../events/store/postgres/postgres_store.ts";
import { testWith } from "../../../_permissions.ts";
import { claimOne, delivery, later } from "../_events.ts";
import { LISTENING, type PostgresPlace } from "../engines/postgres.ts";
import { poolerPath, sharedPostgres } from "./_server.ts";

const { needs, missing } = LISTENING;

/** A listener of a store of its own, as another process has it. */
interface Listener extends AsyncDisposable {
  readonly database: OpenDatabase;
  readonly store: EventStore;
  readonly logged: readonly string[];
  /** Resolves once it is woken. */
  woken(): Promise<void>;
}

async function listenAt(place: PostgresPlace, listenUrl: string): Promise<Listener> {
  const { url, schema } = JSON.parse(place.address);
  const logged: string[] = [];
  const database = await OpenDatabase.open(addressIn(url).settings, {
    ...{ schema, handlers: 1, listening: addressIn(listenUrl).settings },
    log: ({ message }) => void logged.push(String(message)),
  });
  const store = createEventStore(openPostgresEngine(database)) as unknown as EventStore;
  let next = Promise.withResolvers<void>();
  const wake = () => {
    next.resolve();
    next = Promise.withResolvers();
  };
  const listening = store.listen({ wake });
  return {
    ...{ database, store, logged, woken: () => next.promise },
    async [Symbol.asyncDispose]() {
      await database.close();
      await listening;
    },
  };
}

function testListening(
  name: string,
  fn: (place: PostgresPlace, urls: { direct: string; pooled: string }) => Promise<void>,
  skipped = missing,
): void {
  testWith(needs, name, async () => {
    const urls = await sharedPostgres();
    await using place = await LISTENING.open();
    await fn(place, urls as { direct: string; pooled: string });
  }, skipped);
}

/** Waits until a listener hears others: once it is woken by its first trial. */
async function listenHearing(place: PostgresPlace, listenUrl: string): Promise<Listener> {
  const listener = await listenAt(place, listenUrl);
  await listener.woken();
  return listener;
}

testListening(
  "a process looks for what is committed by a client of the user's",
  async (place, { direct }) => {
    await using listener = await listenHearing(place, direct);
    const client = new Client({ connectionString: direct });
    await client.connect();
    await client.query("begin");
    const { id } = await listener.store.emit("jobs", "made", {}, { tx: client });
    await client.query("commit");
    await client.end();
    // Nobody notifies anybody of it.
    await listener.woken();
    assertEquals((await claimOne(listener.store)).record.id, id);
  },
);

testListening("another process is woken by each change", async (place, { direct }) => {
  await using listener = await listenHearing(place, direct);
  const store = await place.open();
  for (let i = 0; i < 10; i++) {
    const woken = listener.woken();
    await store.accept(delivery(`d${i}`));
    await woken;
  }
});

testListening("the tool notifies others of all of its changes", async (place, { direct }) => {
  const { url, schema } = JSON.parse(place.address);
  const client = new Client({ connectionString: direct });
  await client.connect();
  let heard = 0;
  client.on("notification", () => heard++);
  await client.query(`listen "${schema}"`);
  const database = await existingPostgres.open(`${url}?store_schema=${schema}`, false);
  const store = await database.openStore({});
  await store.emit("jobs", "first", {});
  await store.emit("jobs", "second", {});
  await database.close();
  await client.query("select 1"); // what was sent before comes with the answer
  await client.end();
  assertEquals(heard, 2);
});

testListening(
  "no worker is woken by its own notification, nor by a trial",
  async (place, { direct }) => {
    await using listener = await listenHearing(place, direct);
    await using other = await listenHearing(place, direct);
    let isWoken = false;
    const [own, others] = [listener.woken().then(() => isWoken = true), other.woken()];
    listener.database.wakeUps!.notify();
    await others;
    assertEquals(isWoken, false);
    other.database.wakeUps!.notify();
    await own;
  },
);

testListening("at most 20 notifications a second are sent", async (place, { direct }) => {
  await using listener = await listenHearing(place, direct);
  await using other = await listenHearing(place, direct);
  let woken = 0;
  const counting = other.store.listen({ wake: () => woken++ });
  const start = performance.now();
  while (performance.now() - start < 500) {
    listener.database.wakeUps!.notify();
    await later(1);
  }
  await other.database.close();
  await counting;
  assert(woken >= 2 && woken <= 12, `${woken}`);
});

testListening(
  "a lost connection is replaced, and what came meanwhile is found",
  async (place, urls) => {
    await using listener = await listenHearing(place, urls.direct);
    const store = await place.open();
    const { schema } = JSON.parse(place.address);
    const listening = () =>
      listener.database.db.all<{ pid: number }>(
        "select pid from pg_stat_activity where query = $1",
        `listen "${schema}"`,
      );
    const [{ pid }] = await listening() as [{ pid: number }];
    const woken = listener.woken();
    await listener.database.db.all("select pg_terminate_backend($1)", pid);
    await woken;
    while ((await listening()).every((each) => each.pid === pid)) await later(20);
    const again = listener.woken();
    await store.accept(delivery("d1"));
    await again;
  },
);

testListening("an app that hears nothing says so, and polls", async (place, { pooled }) => {
  await using listener = await listenAt(place, pooled);
  while (listener.logged.length === 0) await listener.woken();
  assertEquals(listener.logged, ["nothing is heard by 'listenUrl', the app polls"]);
  await listener.woken();
}, poolerPath() === undefined ? "needs pgbouncer" : missing);
