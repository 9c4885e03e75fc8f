/** This package, as `apps/forge.ts` uses it: log, limiter, duplicate check and worker are on. */
import {
  bindEnv,
  type ConnectionBindings,
  createBaseApp,
  createForgeIntake,
  readSecrets,
  runApp,
} from "../../mod.ts";
import { countHandled } from "./_handled.ts";

const handled = countHandled();

await runApp({
  name: "forge",
  handler: ({ receivedAt }) => handled(Date.parse(receivedAt)),
  setup: (variables) => {
    const secrets = readSecrets(variables, "FORGE_WEBHOOK_SECRET");
    return ({ store, ready, trustedProxyHops }) => {
      const app = createBaseApp<ConnectionBindings>({
        name: "forge",
        ready,
        logger: { trustedProxyHops },
        rateLimit: { limit: 100, window: 60_000, failedOnly: true, trustedProxyHops },
      });
      app.route("/", createForgeIntake({ secrets, store }));
      return bindEnv(app, {});
    };
  },
});
