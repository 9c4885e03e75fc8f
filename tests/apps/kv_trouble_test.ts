import { assertEquals } from "@std/assert";
import { until } from "../../dev/harness/until.ts";
import { FORGE_SECRET } from "../_deliveries.ts";
import { withFolder } from "../_folder.ts";
import { testWith, UNLESS_LINUX } from "../_permissions.ts";
import { assertWithin } from "../_within.ts";
import { testDenokv } from "../events/store/kv/_denokv.ts";
import { APP_NEEDS, type OwnAppOptions, type RunningApp, spawnApp, spawnOwnApp } from "./_app.ts";
import { type Answer, ANSWERED_WITHIN_MS, assertUnavailable, deliver } from "./_deliver.ts";
import { type Proxy, startProxy } from "./_proxy.ts";

/** Time within which an app ends that was told to: Deno Deploy kills it then. */
const ENDED_WITHIN_MS = 5_000;

/** Deliveries with this body have the same ordering key. */
const ORDERED = `{"repository":{"id":1}}`;

const prlimit = (pid: number, bytes: string) =>
  new Deno.Command("prlimit", { args: ["--pid", String(pid), `--fsize=${bytes}:`] }).output();

async function assertHandles(app: RunningApp, id: string): Promise<void> {
  assertEquals((await deliver(app, id)).status, 200);
  await app.line((line) => line.message === "event handled" && line.deliveryId === id);
}

for (const notifier of ["enqueue", "watch"]) {
  const fullDisk = `an app whose disk is full answers 503, and recovers, with notifier ${notifier}`;
  testWith(APP_NEEDS, fullDisk, async () => {
    await withFolder(async (folder) => {
      const env = { FORGE_WEBHOOK_SECRET: FORGE_SECRET, NOTIFIER: notifier };
      await using app = spawnApp("forge", { ...env, KV_URL: `${folder}/kv.db` }, ["XFSZ"]);
      await assertHandles(app, "before");
      // A file that may not grow fails as a disk does that is full.
      await prlimit(app.process.pid, "1000");
      await assertWithin(ANSWERED_WITHIN_MS, async () => {
        const answer = await deliver(app, "during");
        assertUnavailable(answer);
        return answer.ms;
      });
      await prlimit(app.process.pid, "unlimited");
      await assertHandles(app, "after");
    });
  }, UNLESS_LINUX);
}

/** Runs an app whose remote KV is behind a proxy, until `fn` takes less than the limit. */
function testRemote(
  name: string,
  limitMs: number,
  options: OwnAppOptions,
  fn: (proxy: Proxy, app: RunningApp) => Promise<number>,
): void {
  testDenokv(APP_NEEDS, name, (url) =>
    assertWithin(limitMs, async () => {
      await using proxy = startProxy(url);
      await using app = spawnOwnApp(options, { KV_URL: proxy.url });
      await app.url;
      return await fn(proxy, app);
    }));
}

const numbered = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, i) => `${prefix}${i}`);

for (const mode of ["swallow", "500"] as const) {
  const name = `an app whose remote KV does ${mode} answers 503, and recovers`;
  testRemote(name, ANSWERED_WITHIN_MS, {}, async (proxy, app) => {
    const bodyOf = (id: string) => id === "during0" ? "{}" : ORDERED;
    assertEquals((await deliver(app, "before", ORDERED)).status, 200);
    proxy.mode = mode;
    const during = numbered("during", 6);
    const answers = await Promise.all(during.map((id) => deliver(app, id, bodyOf(id))));
    answers.forEach(assertUnavailable);
    proxy.mode = "pass";
    // A call that was swallowed is waited for a while: what comes behind it may be refused once.
    const after = [...during, "after"];
    for (const id of after) {
      await until(async () => (await deliver(app, id, bodyOf(id))).status === 200, 60_000);
    }
    await until(() => after.every((id) => app.count("end", id) > 0), 60_000);
    assertEquals(after.map((id) => app.count("end", id)), after.map(() => 1));
    assertEquals(app.count("stopping"), 0);
    return Math.max(...answers.map(({ ms }: Answer) => ms));
  });
}

const renewing = { concurrency: 10, leaseMs: 9_000, handlerMs: 60_000 };
const inTime = "runApp() ends in time when no lease can be renewed";
testRemote(inTime, ENDED_WITHIN_MS, renewing, async (proxy, app) => {
  for (const id of numbered("d", 10)) assertEquals((await deliver(app, id)).status, 200);
  await until(() => app.count("start") === 10, 20_000);
  proxy.mode = "swallow";
  await until(() => proxy.swallowed > 0, renewing.leaseMs);
  const start = performance.now();
  assertEquals(await app.stop(), 0);
  const ms = performance.now() - start;
  assertEquals(app.count("aborted"), 10);
  return ms;
});
