import { assert, assertEquals, assertRejects } from "@std/assert";
import type { EventStore, Lease } from "../../../../events/mod.ts";
import type { PostgresReader, PostgresTx } from "../../../../events/store/postgres/mod.ts";
import { testWith } from "../../../_permissions.ts";
import { claimOne, delivery } from "../_events.ts";
import { POSTGRES, type PostgresPlace } from "../engines/postgres.ts";
import { type CutWhen, openProxy, type Proxy } from "./_proxy.ts";
import { sharedPostgres } from "./_server.ts";

const { needs, missing } = POSTGRES.kinds[0];

type Store = EventStore<PostgresTx, PostgresReader>;

interface CutStore {
  /** A store whose connections can be cut. */
  readonly store: Store;
  readonly proxy: Proxy;
  readonly place: PostgresPlace;
  /** Table of the effects. */
  readonly table: string;
}

/** Runs a test with a store behind a proxy. */
function testCut(name: string, fn: (sut: CutStore) => Promise<void>): void {
  testWith(needs, name, async () => {
    const { direct } = await sharedPostgres();
    await using proxy = openProxy(direct);
    await using place = await POSTGRES.kinds[0].open();
    const { schema } = JSON.parse(place.address);
    const opened = await POSTGRES.openAt(JSON.stringify({ url: proxy.url, schema }), {});
    try {
      const store = opened.store as unknown as Store;
      await fn({ store, proxy, place, table: `"${schema}".effect` });
    } finally {
      await opened.close();
    }
  }, missing);
}

const COMMIT = "commit\0";

/** Ways to make a change, with the text that is sent for it at last, and what must be there then. */
const CHANGES: Readonly<
  Record<string, {
    readonly text: string;
    readonly prepare?: (sut: CutStore) => Promise<Lease>;
    readonly make: (sut: CutStore, lease: Lease) => Promise<unknown>;
    readonly isMade: (sut: CutStore) => Promise<boolean>;
  }>
> = {
  "an acceptance": {
    text: "insert into",
    make: ({ store }) => store.accept(delivery("d1")),
    isMade: async ({ store }) => (await store.get("d1"))?.state === "queued",
  },
  "an acceptance in a group": {
    text: COMMIT,
    make: ({ store }) => store.accept(delivery("d1", "{}", "g")),
    isMade: async ({ store }) => (await store.get("d1"))?.state === "queued",
  },
  "a settlement": {
    text: "update",
    prepare: ({ store }) => store.accept(delivery("d1")).then(() => claimOne(store)),
    make: async ({ store }, lease) => assert(await store.complete(lease)),
    isMade: async ({ store }) => (await store.get("d1"))?.state === "done",
  },
  "a settlement with effects": {
    text: COMMIT,
    prepare: ({ store }) => store.accept(delivery("d1")).then(() => claimOne(store)),
    make: async ({ store, table }, lease) =>
      assert(
        await store.complete(lease, {
          effects: (tx) => tx.query(`insert into ${table} values ('a', '1')`),
        }),
      ),
    isMade: async ({ store, place }) =>
      (await store.get("d1"))?.state === "done" && await place.effects.get("a") === 1,
  },
  "a transaction": {
    text: COMMIT,
    make: ({ store, table }) =>
      store.transact(async (tx, { emit }) => {
        await tx.query(`insert into ${table} values ('a', '1')`);
        emit("jobs", "made", {}, { id: "1" });
      }),
    isMade: async ({ store, place }) =>
      await store.get("jobs:1") !== null && await place.effects.get("a") === 1,
  },
};

for (const [name, { text, prepare, make, isMade }] of Object.entries(CHANGES)) {
  for (const when of ["before", "during", "after"] as const satisfies CutWhen[]) {
    testCut(`${name} is made once if its connection is cut ${when} the commit`, async (sut) => {
      const lease = await prepare?.(sut);
      const cut = sut.proxy.cut(text, when);
      await make(sut, lease!);
      await cut;
      assert(await isMade(sut));
      assertEquals((await sut.store.stats()).running, 0);
    });
  }
}

/** Has the server do something when a table changes. */
async function addTrigger({ store, table }: CutStore, trigger: string, body: string) {
  const name = table.replace("effect", "act");
  await store.transact(async (tx) => {
    await tx.query(
      `create function ${name}() returns trigger language plpgsql as $$ begin ${body}; end $$`,
    );
    await tx.query(`create ${trigger} for each row execute function ${name}()`);
  });
}

testCut("a commit that still runs is waited for", async (sut) => {
  const { proxy, table } = sut;
  await addTrigger(
    sut,
    `constraint trigger slow after insert on ${table} deferrable initially deferred`,
    "perform pg_sleep(0.7); return null",
  );
  const cut = proxy.cut(COMMIT, "during");
  const { make, isMade } = CHANGES["a transaction"]!;
  await make(sut, undefined!);
  await cut;
  assert(await isMade(sut));
});

testCut("a transaction that was lost in the middle is made again", async (sut) => {
  const { store, proxy, table, place } = sut;
  const cut = proxy.cut("select 7", "before");
  let calls = 0;
  await store.transact(async (tx) => {
    calls++;
    await tx.query(`insert into ${table} values ('a', '1')`);
    await tx.query("select 7");
  });
  await cut;
  assertEquals([calls, await place.effects.get("a")], [2, 1]);
});

testCut("it is not guessed what became of an event that others have changed since", async (sut) => {
  const { store, proxy, table } = sut;
  await store.accept(delivery("d1"));
  const lease = await claimOne(store);
  // As if another one had changed the event at once.
  const events = table.replace("effect", "event");
  await addTrigger(
    sut,
    `trigger other before update on ${events}`,
    "new.version := 'x'; return new",
  );
  const cut = proxy.cut("update", "after");
  await assertRejects(
    () => store.complete(lease),
    Error,
    "connection was lost before the database",
  );
  await cut;
});
