/**
 * App for a messenger's bot: `POST /webhook` receives updates, and `handleEvent` handles them.
 *
 * The secret token is in `MESSENGER_SECRET_TOKEN`, the allowed users are in `MESSENGER_ALLOWED_USERS`.
 *
 * @module
 */
import type { Hono } from "@hono/hono";
import {
  type AllowedUsersEnv,
  type AppContext,
  type BaseEnv,
  bindEnv,
  createBaseApp,
  createMessengerIntake,
  type EventHandler,
  readAllowedUsers,
  readTokens,
  runApp,
} from "../mod.ts";

/** Handles an update: put your code here. If it throws, the update is tried again later. */
export const handleEvent: EventHandler = () => {};

/**
 * Creates the app. Its bindings hold the users who may use the bot.
 *
 * @param secrets The secret token, and the old one during a rotation.
 * @param context The event store and the other parts that the app runs on.
 * @returns The app.
 */
export function createMessengerApp(
  secrets: readonly string[],
  { store, ready, trustedProxyHops, log, telemetry }: AppContext,
): Hono<BaseEnv<AllowedUsersEnv>> {
  const app = createBaseApp<AllowedUsersEnv>({
    name: "messenger",
    ready,
    telemetry,
    logger: { trustedProxyHops, log },
    rateLimit: { limit: 100, window: 60_000, failedOnly: true, trustedProxyHops },
  });
  app.route("/", createMessengerIntake({ secrets, store, telemetry }));
  return app;
}

if (import.meta.main) {
  await runApp({
    name: "messenger",
    handler: handleEvent,
    setup: (variables) => {
      const secrets = readTokens(variables, "MESSENGER_SECRET_TOKEN");
      const MESSENGER_ALLOWED_USERS = readAllowedUsers(variables, "MESSENGER_ALLOWED_USERS");
      return (context) =>
        bindEnv(createMessengerApp(secrets, context), { MESSENGER_ALLOWED_USERS });
    },
  });
}
