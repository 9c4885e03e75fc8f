/**
 * An app on Postgres in a process of its own. Its handler leaves a row in a table of its own for each event, in the
 * transaction that settles the event.
 */
import { defineApp, forge, runApp } from "../../mod.ts";
import { postgres } from "../../events/store/postgres/mod.ts";

const TABLE = "create table if not exists public.handled (id text)";

const app = defineApp({
  name: "bot",
  platform: forge(),
  store: postgres({ setup: (tx) => tx.query(TABLE) }),
  worker: { leaseMs: 3_000, retry: { minDelayMs: 200, maxDelayMs: 1_000, maxAttempts: 1_000 } },
});

app.onAny(({ deliveryId }, { settleWith }) => {
  settleWith((tx) => tx.query("insert into handled values ($1)", [deliveryId]));
});

await runApp(app);
