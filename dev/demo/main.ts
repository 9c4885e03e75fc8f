/**
 * Shows the main job on real input: starts a bot with a SQLite file and both apps with KV files as processes of their
 * own, on free ports and in a temporary folder, sends them signed deliveries over HTTP, some of them wrong on
 * purpose, and shows what was answered, how fast, and that each accepted event was handled once.
 *
 * Ends with exit code 1 if anything is not as it should be.
 *
 * @module
 */
import { type RunningApp, startApp } from "../harness/start_app.ts";
import { forgeCases } from "./forge_cases.ts";
import { messengerCases } from "./messenger_cases.ts";
import { formatTable, type Outcome, quantile, runCases } from "./report.ts";

/** The time within which a webhook is to be answered. */
const TARGET_MS = 6;

/** The user who may talk to the messenger bot. */
const USER = 4711;

const secretOf = () => crypto.randomUUID();

async function runForge(script: string, database: Record<string, string>): Promise<Outcome[]> {
  const secret = secretOf();
  await using app = start(script, { FORGE_WEBHOOK_SECRET: secret, ...database });
  return await stopped(app, await runCases(app, forgeCases(secret, secretOf())));
}

async function runMessenger(folder: string): Promise<Outcome[]> {
  const token = secretOf();
  await using app = start("../../apps/messenger.ts", {
    MESSENGER_SECRET_TOKEN: token,
    MESSENGER_ALLOWED_USERS: String(USER),
    KV_URL: `${folder}/messenger.db`,
  });
  return await stopped(app, await runCases(app, messengerCases(token, secretOf(), USER)));
}

/** Starts an app, whose handlers may write lines of their own. */
function start(script: string, env: Record<string, string>): RunningApp {
  return startApp({ script: new URL(script, import.meta.url), env, text: true });
}

/** Stops an app that has been sent everything, and expects it to end well. */
async function stopped(app: RunningApp, outcomes: Outcome[]): Promise<Outcome[]> {
  const code = await app.stop();
  if (code !== 0) throw new Error(`The app ended with ${code}: ${await app.ended}`);
  return outcomes;
}

const folder = await Deno.makeTempDir({ prefix: "edge-base-demo-" });
let outcomes: Outcome[];
try {
  outcomes = [];
  const show = (name: string, its: Outcome[]) => {
    console.log(`\n${name}, POST /webhook\n\n${formatTable(its)}`);
    outcomes.push(...its);
  };
  show("bot on SQLite", await runForge("bot.ts", { SQLITE_FILE: `${folder}/bot.db` }));
  show("forge app", await runForge("../../apps/forge.ts", { KV_URL: `${folder}/forge.db` }));
  show("messenger app", await runMessenger(folder));
} finally {
  await Deno.remove(folder, { recursive: true });
}

const accepted = outcomes.filter(({ case: { status } }) => status === 200);
const median = quantile(accepted.flatMap(({ appMs }) => appMs), 0.5);
const allOk = outcomes.every(({ ok }) => ok);
console.log(`
Median time in the app of an accepted delivery: ${
  median.toFixed(1)
} ms (target: under ${TARGET_MS} ms).
${
  allOk
    ? "Every accepted event reached its handler exactly once."
    : "NOT everything is as it should be."
}`);
Deno.exit(allOk ? 0 : 1);
