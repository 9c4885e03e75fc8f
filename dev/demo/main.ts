/**
 * Shows the main job on real input: starts both apps as processes of their own, on free ports and with
 * KV files in a temporary folder, sends them signed deliveries over HTTP, some of them wrong on
 * purpose, and shows what was answered, how fast, and that each accepted event was handled once.
 *
 * Ends with exit code 1 if anything is not as it should be.
 *
 * @module
 */
import { forgeCases } from "./forge_cases.ts";
import { messengerCases } from "./messenger_cases.ts";
import { formatTable, type Outcome, quantile, runCases } from "./report.ts";
import { startApp } from "./running_app.ts";

/** The time within which a webhook is to be answered. */
const TARGET_MS = 6;

/** The user who may talk to the messenger bot. */
const USER = 4711;

const secretOf = () => crypto.randomUUID();

async function runForge(folder: string): Promise<Outcome[]> {
  const secret = secretOf();
  await using app = await startApp(new URL("../../apps/forge.ts", import.meta.url), {
    FORGE_WEBHOOK_SECRET: secret,
    KV_URL: `${folder}/forge.db`,
  });
  return await runCases(app, forgeCases(secret, secretOf()));
}

async function runMessenger(folder: string): Promise<Outcome[]> {
  const token = secretOf();
  await using app = await startApp(new URL("../../apps/messenger.ts", import.meta.url), {
    MESSENGER_SECRET_TOKEN: token,
    MESSENGER_ALLOWED_USERS: String(USER),
    KV_URL: `${folder}/messenger.db`,
  });
  return await runCases(app, messengerCases(token, secretOf(), USER));
}

const folder = await Deno.makeTempDir({ prefix: "edge-base-demo-" });
let outcomes: Outcome[];
try {
  outcomes = [];
  for (const [name, run] of [["forge", runForge], ["messenger", runMessenger]] as const) {
    const its = await run(folder);
    console.log(`\n${name} app, POST /webhook\n\n${formatTable(its)}`);
    outcomes.push(...its);
  }
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
