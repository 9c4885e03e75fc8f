/**
 * App for a messenger's bot: `POST /webhook` receives updates of Telegram, and the handlers handle them.
 *
 * The secret token is in `MESSENGER_SECRET_TOKEN`, the allowed users are in `MESSENGER_ALLOWED_USERS`.
 * `CONSOLE_TOKEN` or `CONSOLE_OPERATOR_TOKEN` turns on its console, `/console`.
 *
 * @module
 */
import { consoleMount } from "../console/mod.ts";
import { defineApp, messenger, runApp } from "../mod.ts";

/** The app. Put your handlers here. If one throws, the update is tried again later. */
const app = defineApp({ name: "messenger", platform: messenger(), mounts: [consoleMount()] });

app.onAny(() => {});

export default app;

if (import.meta.main) await runApp(app);
