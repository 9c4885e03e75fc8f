/**
 * The app of any checkout since 1cdc988, whose folder is the argument: its `mod.ts`, and a handler that
 * counts. It logs one line for each request and one for each event.
 */
import { startServer } from "./_server.ts";

const { handled } = startServer();
const mod = await import(`file://${Deno.args[0]}/mod.ts`);

if (mod.defineApp) {
  const app = mod.defineApp({ name: "forge", platform: mod.forge() });
  app.onAny(({ receivedAt }: { receivedAt: number }) => handled(receivedAt));
  await mod.runApp(app);
} else {
  await runWithSetup();
}

/** Runs an app as they were written before `defineApp`, when the handler logged its event. */
async function runWithSetup(): Promise<void> {
  const { bindEnv, createBaseApp, createEventLogger, createForgeIntake, readSecrets, runApp } = mod;
  let logEvent: ReturnType<typeof createEventLogger>;
  await runApp({
    name: "forge",
    handler: (event: { receivedAt: string }) => {
      handled(Date.parse(event.receivedAt));
      return logEvent(event);
    },
    setup: (variables: unknown) => {
      const secrets = readSecrets(variables, "FORGE_WEBHOOK_SECRET");
      // deno-lint-ignore no-explicit-any
      return ({ store, ready, trustedProxyHops, log }: any) => {
        logEvent = createEventLogger(log);
        const rateLimit = { limit: 100, window: 60_000, failedOnly: true, trustedProxyHops };
        const logger = { trustedProxyHops, sink: log };
        const app = createBaseApp({ name: "forge", ready, logger, rateLimit });
        app.route("/", createForgeIntake({ secrets, store }));
        return bindEnv(app, {});
      };
    },
  });
}
