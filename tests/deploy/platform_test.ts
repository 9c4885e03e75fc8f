import { assert, assertEquals } from "@std/assert";
import { FORGE_SECRET, forgeDelivery, MESSENGER_SECRET, messengerUpdate } from "../_deliveries.ts";
import { environmentOf } from "../../dev/harness/environment.ts";
import { follow, type RunningApp } from "../../dev/harness/follow_app.ts";
import { APP_NEEDS } from "../apps/_app.ts";
import { deliver } from "../apps/_deliver.ts";
import { testDenokv } from "../events/store/kv/_denokv.ts";

/** Time after SIGINT at which Deno Deploy kills. */
const KILL_MS = 5_000;

/** Time that an instance does nothing before it is told to stop. */
const IDLE_MS = 1_000;

const ROOT = new URL("../../", import.meta.url);

/**
 * Starts an entrypoint as Deno Deploy does: all permissions, no flag of its own, and the assigned
 * database, which has no queues, as the default one.
 */
function start(entrypoint: string, kv: string, ...args: string[]): RunningApp {
  const env = environmentOf({
    ...{
      PORT: "0",
      HOST: "127.0.0.1",
      DENO_DEPLOY: "true",
      DENO_KV_DEFAULT_PATH: kv,
    },
    ...{ FORGE_WEBHOOK_SECRET: FORGE_SECRET, MESSENGER_SECRET_TOKEN: MESSENGER_SECRET },
    MESSENGER_ALLOWED_USERS: "42",
  });
  return follow(
    new Deno.Command(Deno.execPath(), {
      args: ["run", "--cached-only", "--allow-all", entrypoint, ...args],
      ...{ cwd: ROOT, clearEnv: true, env, stdout: "piped", stderr: "piped" },
    }).spawn(),
  );
}

/** Tells an instance to stop, and expects that it does in time, without a word of complaint. */
async function evict(app: RunningApp): Promise<void> {
  const start = performance.now();
  app.process.kill("SIGINT");
  assertEquals((await app.process.status).code, 0);
  assert(performance.now() - start < KILL_MS);
  assertEquals(await app.ended, "");
}

const idle = () => new Promise((resolve) => setTimeout(resolve, IDLE_MS));

const SENDERS = {
  forge: () => forgeDelivery("{}", { "X-Forge-Delivery": "d1" }),
  messenger: () =>
    Promise.resolve(messengerUpdate({ update_id: 1, message: { from: { id: 42 }, text: "hi" } })),
};

for (const [name, delivery] of Object.entries(SENDERS)) {
  testDenokv(APP_NEEDS, `apps/${name}.ts runs as Deno Deploy starts and stops it`, async (kv) => {
    const isRequest = ({ message }: { message?: unknown }) => message === "request";
    const send = async (app: RunningApp) => {
      const response = await fetch(`${await app.url}/webhook`, await delivery());
      assertEquals([response.status, await response.text()], [200, "OK"]);
      return (await app.line(isRequest)).duplicate;
    };
    {
      await using app = start(`apps/${name}.ts`, kv);
      assertEquals((await app.line(({ message }) => message === "listening")).notifier, "watch");
      assertEquals(await send(app), false);
      await app.line(({ message }) => message === "event handled");
      await idle();
      await evict(app);
    }
    await using app = start(`apps/${name}.ts`, kv);
    assertEquals(await send(app), true);
    await idle();
    assertEquals(app.count("event handled"), 0);
    await evict(app);
  });
}

testDenokv(APP_NEEDS, "an instance handles what one that was evicted could not", async (kv) => {
  const entrypoint = "tests/apps/_own_app.ts";
  {
    await using app = start(entrypoint, kv, JSON.stringify({ handlerMs: 60_000, graceMs: 500 }));
    assertEquals((await deliver(app, "d1")).status, 200);
    await app.line(({ message }) => message === "start");
    await evict(app);
  }
  await using app = start(entrypoint, kv, JSON.stringify({ handlerMs: 0 }));
  await app.line(({ message, id }) => message === "end" && id === "d1");
});
