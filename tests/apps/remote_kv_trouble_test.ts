import { assertEquals, assertMatch } from "@std/assert";
import { until } from "../../dev/harness/until.ts";
import { assertWithin } from "../_within.ts";
import { testDenokv } from "../events/store/_denokv.ts";
import { APP_NEEDS, type OwnAppOptions, type RunningApp, spawnOwnApp } from "./_app.ts";
import { deliver } from "./_deliver.ts";
import { type Proxy, startProxy } from "./_proxy.ts";

/** Time within which a sender has its answer, whatever the KV does. */
const ANSWERED_WITHIN_MS = 5_500;

/** Time within which an app ends that was told to: Deno Deploy kills it then. */
const ENDED_WITHIN_MS = 5_000;

/** Deliveries with this body have the same ordering key. */
const BODY = `{"repository":{"id":1}}`;

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
  const name =
    `an app whose remote KV does ${mode} answers 503 to ordered deliveries, and recovers`;
  testRemote(name, ANSWERED_WITHIN_MS, {}, async (proxy, app) => {
    assertEquals((await deliver(app, "before", BODY)).status, 200);
    proxy.mode = mode;
    const during = numbered("during", 5);
    const answers = await Promise.all(during.map((id) => deliver(app, id, BODY)));
    for (const answer of answers) {
      assertEquals([answer.status, answer.headers.get("X-Error-Code")], [503, "QUEUE_UNAVAILABLE"]);
      assertMatch(answer.headers.get("Retry-After") ?? "", /^\d+$/);
    }
    proxy.mode = "pass";
    // A call that was swallowed is waited for a while: what comes behind it may be refused once.
    const after = [...during, "after"];
    for (const id of after) {
      await until(async () => (await deliver(app, id, BODY)).status === 200, 60_000);
    }
    await until(() => after.every((id) => app.count("end", id) > 0), 60_000);
    assertEquals(after.map((id) => app.count("end", id)), after.map(() => 1));
    return Math.max(...answers.map(({ ms }) => ms));
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
  app.process.kill("SIGTERM");
  assertEquals((await app.process.status).code, 0);
  const ms = performance.now() - start;
  assertEquals(app.count("aborted"), 10);
  return ms;
});
