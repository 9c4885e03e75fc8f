/** This package, as `apps/forge.ts` uses it: log, limiter, duplicate check and worker are on. */
import {
  type AppContext,
  bindEnv,
  type ConnectionBindings,
  createBaseApp,
  createForgeIntake,
  openEventStore,
  readSecrets,
  runApp,
} from "../../../mod.ts";
import { createLogSummary } from "../../../middleware/mod.ts";
import { countHandled } from "./_handled.ts";
import { orderByNumber } from "./_ordering.ts";
import { endWithBenchmark } from "./_parent.ts";
import { readServerSettings } from "./_settings.ts";

const { port, hostname, kvUrl, secret, worker, orderingKeys } = readServerSettings();
const handled = countHandled();
endWithBenchmark();
const orderBy = orderByNumber(orderingKeys);

function createApp(secrets: readonly string[], context: Omit<AppContext, "kv">) {
  const { store, ready, trustedProxyHops, log } = context;
  const app = createBaseApp<ConnectionBindings>({
    name: "forge",
    ready,
    logger: { trustedProxyHops, log },
    rateLimit: { limit: 100, window: 60_000, failedOnly: true, trustedProxyHops },
  });
  app.route("/", createForgeIntake({ secrets, store, orderBy }));
  return bindEnv(app, {});
}

/** The intake alone, for what is measured without a worker. */
async function serveWithoutWorker(): Promise<void> {
  const store = await openEventStore(await Deno.openKv(kvUrl), { namespace: "forge" });
  const { log } = createLogSummary();
  const app = createApp([secret], { store, log, ready: () => {}, trustedProxyHops: 0 });
  Deno.serve({ port, hostname, onListen: () => {} }, app);
}

if (worker) {
  await runApp({
    name: "forge",
    handler: ({ receivedAt }) => handled(receivedAt),
    setup: (variables) => {
      const secrets = readSecrets(variables, "FORGE_WEBHOOK_SECRET");
      return (context) => createApp(secrets, context);
    },
  });
} else {
  await serveWithoutWorker();
}
