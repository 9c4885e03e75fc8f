import { assertEquals } from "@std/assert";
import { openEventStore } from "../../mod.ts";
import { FORGE_SECRET, MESSENGER_SECRET } from "../_deliveries.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { until } from "../../dev/harness/until.ts";
import { delivery } from "../events/store/_events.ts";
import { APP_NEEDS, spawnApp, spawnOwnApp } from "./_app.ts";
import { deliver } from "./_deliver.ts";

/** Nothing but the cron can find an event that another process takes in: no timer of the worker does. */
const NEVER_BY_TIMER = { pollMs: 2 ** 31 - 1 };

/** Deno's own tests have a cron tick this often: each so many milliseconds, whatever its schedule. */
const TICKING = { DENO_CRON_TEST_SCHEDULE_OFFSET: "100" };

const ENV = {
  FORGE_WEBHOOK_SECRET: FORGE_SECRET,
  MESSENGER_SECRET_TOKEN: MESSENGER_SECRET,
  KV_URL: ":memory:",
};

/** Runs an app, stores an event from this process, and tells whether the app handles it within a time. */
async function isHandled(env: Record<string, string>, withinMs: number): Promise<boolean> {
  let handled = false;
  await withFolder(async (folder) => {
    const kvPath = `${folder}/kv.db`;
    await using app = spawnOwnApp(NEVER_BY_TIMER, { KV_URL: kvPath, ...env });
    await deliver(app, "d0");
    await app.line(({ message }) => message === "end");
    // The worker looks for more once it has settled an event, and then has no reason to.
    await new Promise((resolve) => setTimeout(resolve, 300));
    using kv = await Deno.openKv(kvPath);
    const store = await openEventStore(kv, { namespace: "own", notifier: "watch" });
    await store.accept({ ...delivery("d1"), intake: "forge" });
    handled = await until(() => app.count("end", "d1") === 1, withinMs).then(
      () => true,
      () => false,
    );
  });
  return handled;
}

testWith(APP_NEEDS, "runApp() handles on Deno Deploy what the cron finds", async () => {
  // A file has a queue, and on Deno Deploy has to be asked for by it.
  const env = { ...TICKING, DENO_DEPLOY: "true", NOTIFIER: "enqueue" };
  assertEquals(await isHandled(env, 10_000), true);
});

for (const name of ["forge", "messenger"] as const) {
  testWith(
    APP_NEEDS,
    `apps/${name}.ts registers its cron before it waits for anything`,
    async () => {
      const probe = new URL("./_cron_probe.ts", import.meta.url).href;
      await using app = spawnApp(name, { ...ENV, DENO_DEPLOY: "true" }, [], [`--preload=${probe}`]);
      const { time: _, ...cron } = await app.line(({ message }) => message === "cron");
      const schedule = "* * * * *";
      assertEquals(cron, { message: "cron", name: `${name} events`, schedule, waited: false });
    },
  );
}

testWith(APP_NEEDS, "runApp() has no cron elsewhere", async () => {
  assertEquals(await isHandled(TICKING, 1_000), false);
});
