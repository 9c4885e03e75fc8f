/**
 * App for a code host's bot: `POST /webhook` receives signed events, and `handleEvent` handles them.
 *
 * The secret is in `FORGE_WEBHOOK_SECRET`. If GitLab does not sign, its token is in `FORGE_WEBHOOK_TOKEN`.
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
  createForgeIntake,
  type EventHandler,
  type ForgeSecrets,
  readForgeSecrets,
  runApp,
} from "../mod.ts";

/** Handles an event: put your code here. If it throws, the event is tried again later. */
export const handleEvent: EventHandler = () => {};

/**
 * Creates the app.
 *
 * @param secrets The secrets and tokens that deliveries are verified with.
 * @param context The event store and the other parts that the app runs on.
 * @returns The app.
 */
export function createForgeApp(
  secrets: ForgeSecrets,
  { store, ready, trustedProxyHops, log, telemetry }: AppContext,
): Hono<BaseEnv<ConnectionBindings>> {
  const app = createBaseApp<ConnectionBindings>({
    name: "forge",
    ready,
    telemetry,
    logger: { trustedProxyHops, log },
    // Code hosts do not retry: a flood of forged deliveries must not get a genuine one refused.
    rateLimit: { limit: 100, window: 60_000, failedOnly: true, trustedProxyHops },
  });
  app.route("/", createForgeIntake({ ...secrets, store, telemetry }));
  return app;
}

if (import.meta.main) {
  await runApp({
    name: "forge",
    handler: handleEvent,
    setup: (variables) => {
      const secrets = readForgeSecrets(variables);
      return (context) => bindEnv(createForgeApp(secrets, context), {});
    },
  });
}
