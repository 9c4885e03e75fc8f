/**
 * The app for a code host's bot: `POST /webhook` takes its signed events, `handleEvent` gets them.
 *
 * Its secret is in `FORGE_WEBHOOK_SECRET`.
 *
 * @module
 */
import type { Hono } from "@hono/hono";
import {
  type AppContext,
  type BaseEnv,
  bindEnv,
  type ConnectionBindings,
  createBaseApp,
  createEventLogger,
  createForgeIntake,
  type EventHandler,
  readSecrets,
  runApp,
} from "../mod.ts";

/** What is done with an event: put your code here. One that makes it throw comes again later. */
export const handleEvent: EventHandler = createEventLogger();

/**
 * Makes the app.
 *
 * @param secrets The webhook's secret, and the outgoing one during a rotation.
 * @param context The event store and what else the app runs on.
 * @returns The app.
 */
export function createForgeApp(
  secrets: readonly string[],
  { store, ready, trustedProxyHops }: AppContext,
): Hono<BaseEnv<ConnectionBindings>> {
  const app = createBaseApp<ConnectionBindings>({
    name: "forge",
    ready,
    logger: { trustedProxyHops },
    // Code hosts do not send again: nothing genuine may be refused, however much is forged.
    rateLimit: { limit: 100, window: 60_000, failedOnly: true, trustedProxyHops },
  });
  app.route("/", createForgeIntake({ secrets, store }));
  return app;
}

if (import.meta.main) {
  await runApp({
    name: "forge",
    handler: handleEvent,
    setup: (variables) => {
      const secrets = readSecrets(variables, "FORGE_WEBHOOK_SECRET");
      return (context) => bindEnv(createForgeApp(secrets, context), {});
    },
  });
}
