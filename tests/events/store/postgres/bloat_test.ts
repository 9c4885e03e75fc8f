import { assert } from "@std/assert";
import type { EventStore } from "../../../../events/mod.ts";
import { createEventStore } from "../../../../events/store/open_store.ts";
import { openPostgresEngine } from "../../../../events/store/postgres/postgres_engine.ts";
import { claimAll, delivery, later } from "../_events.ts";
import { type PostgresStoreUnderTest, testPostgres } from "./_stores.ts";

const [EVENTS, RENEWALS] = [30, 20] as const;

/** Counts the updates of events that have written no index, once there are so many updates. */
async function hotUpdates({ store, place }: PostgresStoreUnderTest, all: number): Promise<number> {
  const { schema } = JSON.parse(place.address);
  while (true) {
    const { rows: [row] } = await store.db.query<{ all: string; hot: string }>(
      `select n_tup_upd as all, n_tup_hot_upd as hot from pg_stat_user_tables
      where schemaname = $1 and relname = 'event'`,
      [schema],
    );
    if (Number(row!.all) >= all) return Number(row!.hot);
    await later(20);
  }
}

for (const [name, bytes] of [["small", 10], ["usual", 8_000]] as const) {
  testPostgres(
    `renewing the lease of an event with a ${name} payload writes no index`,
    async (sut) => {
      // The server counts what a connection has done when that is closed.
      const database = await sut.place.openDatabase();
      const store = createEventStore(openPostgresEngine(database)) as unknown as EventStore;
      const text = JSON.stringify({ a: "x".repeat(bytes) });
      await Promise.all(
        Array.from({ length: EVENTS }, (_, i) => store.accept(delivery(`d${i}`, text))),
      );
      let leases = await claimAll(store);
      for (let i = 0; i < RENEWALS; i++) {
        const renewed = leases.map((lease) => store.renew(lease, 60_000 + i));
        leases = (await Promise.all(renewed)).map((lease) => lease!);
      }
      await database.close();
      const hot = await hotUpdates(sut, EVENTS * (1 + RENEWALS));
      // A page that was filled has no room for the first one.
      assert(hot >= 0.9 * EVENTS * RENEWALS, `${hot}`);
    },
  );
}
