/**
 * App for a code host's bot: `POST /webhook` receives signed events of GitHub, GitLab, Gitea and Forgejo, and
 * the handlers handle them.
 *
 * The secret is in `FORGE_WEBHOOK_SECRET`. If GitLab does not sign, its token is in `FORGE_WEBHOOK_TOKEN`.
 * `CONSOLE_TOKEN` or `CONSOLE_OPERATOR_TOKEN` turns on its console, `/console`.
 *
 * @module
 */
import { consoleMount } from "../console/mod.ts";
import { defineApp, forge, runApp } from "../mod.ts";

/** The app. Put your handlers here. If one throws, the event is tried again later. */
const app = defineApp({ name: "forge", platform: forge(), mounts: [consoleMount()] });

app.onAny(() => {});

export default app;

if (import.meta.main) await runApp(app);
