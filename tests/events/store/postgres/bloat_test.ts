import { assert } from "@std/assert";
import type { EventStore } from "../../../../events/mod.ts";
import { createEventStore } from "../../../../events/store/open_store.ts";
import { OpenDatabase } from "../../../../events/store/postgres/_open_database.ts";
import { addressIn } from "../../../../events/store/postgres/_settings.ts";
import { openPostgresEngine } from "../../../../events/store/postgres/postgres_engine.ts";
import { claimAll, delivery, later } from "../_events.ts";
import { testServer } from "./_faulty_app.ts";
import type { OwnPostgres } from "./_own_server.ts";

const [EVENTS, RENEWALS] = [30, 20] as const;

/** Counts the updates of events that have written no index, once there are so many updates. */
async function hotUpdates(server: OwnPostgres, all: number): Promise<number> {
  while (true) {
    const [row] = await server.sql<{ all: string; hot: string }>(
      "select n_tup_upd as all, n_tup_hot_upd as hot from pg_stat_user_tables where relname = 'event'",
    );
    if (Number(row!.all) >= all) return Number(row!.hot);
    await later(20);
  }
}

// On a server of its own: a transaction of somebody else keeps the old rows, and a full page has no room for a new one.
for (const [name, bytes] of [["small", 10], ["usual", 8_000]] as const) {
  testServer(
    `renewing the lease of an event with a ${name} payload writes no index`,
    async (server) => {
      const options = { schema: "edge_base", handlers: 1, log: () => {} };
      const database = await OpenDatabase.open(addressIn(server.direct).settings, options);
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
      // The server counts what a connection has done when that is closed.
      await database.close();
      const hot = await hotUpdates(server, EVENTS * (1 + RENEWALS));
      // A page that was filled has no room for the first one.
      assert(hot >= 0.9 * EVENTS * RENEWALS, `${hot}`);
    },
  );
}
