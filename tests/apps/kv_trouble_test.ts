import { assert, assertEquals, assertMatch } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { FORGE_SECRET, forgeDelivery } from "../_deliveries.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { assertWithin } from "../_within.ts";
import { testDenokv } from "../events/store/_denokv.ts";
import { APP_NEEDS, type Line, type RunningApp, runToEnd, spawnApp } from "./_app.ts";
import { type Proxy, startProxy } from "./_proxy.ts";

/** Time within which a sender has its answer, whatever the KV does. */
const ANSWERED_WITHIN_MS = 5_500;

const isHandled = (id: string) => (line: Line) =>
  line.message === "event handled" && line.deliveryId === id;

async function post(app: RunningApp, id: string): Promise<{ response: Response; ms: number }> {
  const start = performance.now();
  const init = forgeDelivery("{}", { "X-Forge-Delivery": id });
  const response = await fetch(`${await app.url}/webhook`, init);
  await response.body?.cancel();
  return { response, ms: performance.now() - start };
}

async function assertUnavailable(app: RunningApp, id: string): Promise<void> {
  await assertWithin(ANSWERED_WITHIN_MS, async () => {
    const { response, ms } = await post(app, id);
    assertEquals(response.status, 503);
    assertEquals(response.headers.get("X-Error-Code"), "QUEUE_UNAVAILABLE");
    assertMatch(response.headers.get("Retry-After") ?? "", /^\d+$/);
    return ms;
  });
}

async function assertHandles(app: RunningApp, id: string): Promise<void> {
  assertEquals((await post(app, id)).response.status, 200);
  await app.line(isHandled(id));
}

testWith(APP_NEEDS, "an app whose KV is locked answers 503, and recovers", async () => {
  await withFolder(async (folder) => {
    const env = { FORGE_WEBHOOK_SECRET: FORGE_SECRET, KV_URL: `${folder}/kv.db` };
    await using app = spawnApp("forge", env);
    await assertHandles(app, "before");
    const other = new DatabaseSync(`${folder}/kv.db`, { timeout: 5_000 });
    other.exec("BEGIN IMMEDIATE");
    await assertUnavailable(app, "during");
    other.exec("ROLLBACK");
    other.close();
    await assertHandles(app, "after");
  });
});

testWith(
  APP_NEEDS,
  "an app does not start on a file that is no KV, and says so in a line",
  async () => {
    await withFolder(async (folder) => {
      await Deno.writeTextFile(`${folder}/kv.db`, "This is no database. ".repeat(1_000));
      const env = { FORGE_WEBHOOK_SECRET: FORGE_SECRET, KV_URL: `${folder}/kv.db` };
      const { code, stderr } = await runToEnd("forge", env);
      assertEquals(code, 1);
      assertMatch(stderr, /^Cannot start forge: the KV that KV_URL names cannot be used: [^\n]+$/);
    });
  },
);

const prlimit = (pid: number, bytes: string) =>
  new Deno.Command("prlimit", { args: ["--pid", String(pid), `--fsize=${bytes}:`] }).output();

for (const notifier of ["enqueue", "watch"]) {
  const fullDisk = `an app whose disk is full answers 503, and recovers, with notifier ${notifier}`;
  if (Deno.build.os !== "linux") {
    Deno.test({ name: `${fullDisk} (skipped: needs Linux)`, ignore: true, fn: () => {} });
    continue;
  }
  testWith(APP_NEEDS, fullDisk, async () => {
    await withFolder(async (folder) => {
      const env = { FORGE_WEBHOOK_SECRET: FORGE_SECRET, NOTIFIER: notifier };
      await using app = spawnApp("forge", { ...env, KV_URL: `${folder}/kv.db` }, ["XFSZ"]);
      await assertHandles(app, "before");
      // A file that may not grow fails as a disk does that is full.
      await prlimit(app.process.pid, "1000");
      await assertUnavailable(app, "during");
      await prlimit(app.process.pid, "unlimited");
      await assertHandles(app, "after");
    });
  });
}

for (const mode of ["swallow", "500"] as const) {
  testRemote(
    `an app whose remote KV does ${mode} answers 503, and recovers`,
    async (proxy, app) => {
      await assertHandles(app, "before");
      proxy.mode = mode;
      await assertUnavailable(app, "during");
      proxy.mode = "pass";
      await assertHandles(app, "after");
    },
  );
}

/** Registers a test of an app whose remote KV is behind a proxy. */
function testRemote(name: string, fn: (proxy: Proxy, app: RunningApp) => Promise<void>): void {
  testDenokv(APP_NEEDS, name, async (url) => {
    await using proxy = startProxy(url);
    await using app = spawnApp("forge", { FORGE_WEBHOOK_SECRET: FORGE_SECRET, KV_URL: proxy.url });
    await fn(proxy, app);
    assert(app.lines.every(({ message }) => message !== "stopping"));
  });
}
