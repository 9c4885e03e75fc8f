/**
 * The app for a code host's bot: `POST /webhook` takes its signed events, `handleEvent` gets them.
 *
 * Its secret is in `FORGE_WEBHOOK_SECRET`; a token of GitLab's, where that does not sign, in
 * `FORGE_WEBHOOK_TOKEN`.
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
  type ForgeSecrets,
  readForgeSecrets,
  runApp,
} from "../mod.ts";

/** What is done with an event: put your code here. One that makes it throw comes again later. */
export const handleEvent: EventHandler = createEventLogger();

/**
 * Makes the app.
 *
 * @param secrets What deliveries are proved by, each with the outgoing one during a rotation.
 * @param context The event store and what else the app runs on.
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
    // Code hosts do not send again: nothing genuine may be refused, however much is forged.
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
