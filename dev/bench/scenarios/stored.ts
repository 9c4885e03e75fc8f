import { DatabaseSync } from "node:sqlite";
import { sqlite } from "../../../mod.ts";
import { parseForgeDelivery } from "../../../webhook/mod.ts";
import { MEDIAN_BODY } from "../delivery.ts";
import { DATABASE, withApp } from "../loaded_app.ts";
import type { Run, Scenario } from "../scenario.ts";
import { openStore } from "../servers/_store.ts";
import { EDGE_BASE_SQLITE } from "../subjects.ts";
import { CPU, measureCost } from "./_cost.ts";
import { LOAD_MEASURES } from "./_load.ts";

/** Number of events that are stored. */
const STORED = 1_000_000;

const CONNECTIONS = 32;

/** Intake into a file in which many events are. */
export const stored: Scenario = {
  name: "stored",
  title: "A SQLite file with many events",
  what:
    `Deliveries of 7.7 KB on ${CONNECTIONS} connections, after a burst of one second, until all are handled, into an ` +
    "empty file and into one with events that are done, which are kept for seven days.",
  compare: "rows",
  measures: [
    CPU,
    LOAD_MEASURES.perSecond,
    { ...LOAD_MEASURES.p50Ms, digits: 2 },
    { ...LOAD_MEASURES.p99Ms, digits: 2 },
    LOAD_MEASURES.peakMb,
  ],
  runs: ({ seconds }) => {
    let folder: Promise<string> | undefined;
    const run = (count: number): Run => ({
      row: count === 0 ? "an empty file" : `${count.toLocaleString("en")} stored`,
      subject: EDGE_BASE_SQLITE,
      measure: async () => {
        const from = count === 0 ? undefined : await (folder ??= fill(count));
        return await withApp(EDGE_BASE_SQLITE, async (app) => {
          const load = { connections: CONNECTIONS };
          return (await measureCost(app, EDGE_BASE_SQLITE, load, seconds)).values;
        }, { from });
      },
    });
    return [run(0), run(STORED)];
  },
};

/** Makes a file with events that are done: the first one by a store, and the others of that in one statement. */
async function fill(count: number): Promise<string> {
  const folder = await Deno.makeTempDir({ prefix: "stored-" });
  const path = `${folder}/${DATABASE}`;
  {
    await using opened = await openStore(sqlite(), { SQLITE_FILE: path });
    const { headers } = EDGE_BASE_SQLITE.sign(MEDIAN_BODY);
    const all = new Headers({ ...headers, "X-GitHub-Delivery": "first" });
    await opened.store.accept(parseForgeDelivery(all, MEDIAN_BODY));
    const [lease] = await opened.store.claim({ limit: 1, owner: "bench", leaseMs: 30_000 });
    await opened.store.complete(lease!);
  }
  const db = new DatabaseSync(path);
  db.exec(`pragma journal_mode = off; pragma synchronous = off; pragma cache_size = -2000000;
    with recursive n (n) as (select 1 union all select n + 1 from n where n < ${count - 1}),
      other (id, at) as (select 'forge:' || lower(hex(randomblob(16))), n * 500 from n)
    insert into event (id, received_at, state, settled_at, forget_at, version, record)
    select other.id, received_at - at, state, settled_at - at, forget_at, version,
      json_set(record, '$.id', other.id, '$.receivedAt', received_at - at, '$.settledAt', settled_at - at)
    from other, event where event.id like '%first';
    pragma journal_mode = wal`);
  db.close();
  return folder;
}
