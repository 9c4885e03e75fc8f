/**
 * This package, as `apps/forge.ts` uses it: log, limiter, duplicate check and worker are on. With `sqlite` as its
 * argument, its events are in a SQLite file, and with `postgres` in the database of `DATABASE_URL`.
 */
import {
  bindEnv,
  createBaseApp,
  createIntake,
  defineApp,
  forge,
  type GroupBy,
  kv,
  runApp,
  sqlite,
  type StoreDefinition,
} from "../../../mod.ts";
import { openStore } from "./_store.ts";
import { createLogSummary } from "../../../middleware/mod.ts";
import { startServer } from "./_server.ts";

const { port, hostname, secret, worker, orderingKeys, handled } = startServer();
const store = await storeOf(Deno.args[0]);
const groupBy = orderByNumber(orderingKeys);

async function storeOf(engine: string | undefined): Promise<StoreDefinition> {
  if (engine !== "postgres") return engine === "sqlite" ? sqlite() : kv();
  // Nobody else loads its client.
  const { postgres } = await import("../../../events/store/postgres/mod.ts");
  return postgres();
}

/** The intake alone, for what is measured without a worker. */
async function serveWithoutWorker(): Promise<void> {
  const { store: events } = await openStore(store);
  const { log } = createLogSummary();
  const app = createBaseApp({
    name: "forge",
    logger: { log },
    rateLimit: { limit: 100, window: 60_000, failedOnly: true },
  });
  app.route("/", createIntake(forge({ secrets: [secret], groupBy }), { store: events }));
  Deno.serve({ port, hostname, onListen: () => {} }, bindEnv(app, {}));
}

if (worker) {
  const app = defineApp({ name: "forge", platform: forge({ groupBy }), store });
  app.onAny(({ receivedAt }) => handled(receivedAt));
  await runApp(app);
} else {
  await serveWithoutWorker();
}

/**
 * Spreads deliveries over a number of ordering keys, by the number at the end of their ids.
 *
 * @param keys How many; 0 for no ordering.
 */
function orderByNumber(keys: number): GroupBy | undefined {
  if (keys === 0) return undefined;
  return ({ deliveryId }) => String(Number(/\d+$/.exec(deliveryId ?? "")?.[0] ?? 0) % keys);
}
