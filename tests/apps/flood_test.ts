import { assert, assertEquals, assertLess } from "@std/assert";
import { until } from "../../dev/harness/until.ts";
import { forgeDelivery } from "../_deliveries.ts";
import { withFolder } from "../_folder.ts";
import { byLength } from "../_length.ts";
import { testWith } from "../_permissions.ts";
import { envOf, LOCAL_STORES } from "../_stores.ts";
import { APP_NEEDS, type RunningApp, spawnOwnApp } from "./_app.ts";
import { deliver } from "./_deliver.ts";

/** Registers a test of an app, for each engine that its store can have. */
function testApp(name: string, fn: (app: RunningApp) => Promise<void>): void {
  for (const engine of Object.keys(LOCAL_STORES)) {
    testWith(APP_NEEDS, `${name} [${engine}]`, () =>
      withFolder(async (folder) => {
        await using app = spawnOwnApp({ engine }, envOf(`${folder}/store.db`));
        await fn(app);
      }));
  }
}

/** Sends forged deliveries, and returns how often which status was answered. */
async function forge(app: RunningApp, total: number): Promise<Record<number, number>> {
  const url = `${await app.url}/webhook`;
  const forged = forgeDelivery("{}", { "X-Hub-Signature-256": `sha256=${"0".repeat(64)}` });
  const counts: Record<number, number> = {};
  const send = async () => {
    for (let i = 0; i < total / 20; i++) {
      const { status, body } = await fetch(url, forged);
      await body?.cancel();
      counts[status] = (counts[status] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: 20 }, send));
  return counts;
}

/** Number of refusals with a code in the log: those written one by one, and those summed up. */
function loggedRefusals(app: RunningApp, code: string): number {
  const ofCode = app.lines.filter((line) => line.code === code);
  const requests = ofCode.filter(({ message }) => message === "request").length;
  const summaries = ofCode.filter(({ of }) => of === "request");
  return requests + summaries.reduce((sum, { count }) => sum + Number(count), 0);
}

/** Length of a window of the log, and the most lines in it of a kind of refusals: 100, and the sum of the others. */
const [WINDOW_MS, MOST_LINES] = [10_000, 101] as const;

/** Lines that an app writes besides, at its start and end. */
const OTHER_LINES = 20;

/** Forged deliveries of the flood. */
const FORGED = byLength(10_000, 3_000);

testApp(`an app sums up ${FORGED} bad signatures, and loses none of them`, async (app) => {
  const start = performance.now();
  const counts = await forge(app, FORGED);
  const windows = Math.ceil((performance.now() - start) / WINDOW_MS) + 1;
  assertEquals(Object.values(counts).reduce((sum, count) => sum + count), FORGED);
  assert(app.count("request") >= 1, "the first ones are written at once");
  assertEquals([await app.stop(), await app.ended], [0, ""]);
  assertLess(app.lines.length, 2 * MOST_LINES * windows + OTHER_LINES);
  assertEquals(loggedRefusals(app, "INVALID_SIG"), counts[401]);
  assertEquals(loggedRefusals(app, "RATE_LIMITED"), counts[429]);
});

/** Genuine deliveries amid the flood. */
const GENUINE = byLength(2_000, 500);

testApp(
  `${GENUINE} deliveries amid twice as many forged ones are handled, each once`,
  async (app) => {
    const ids = Array.from({ length: GENUINE }, (_, i) => `d${i}`);
    const flood = forge(app, 2 * GENUINE);
    const waiting = ids.values();
    const send = async () => {
      for (const id of waiting) assertEquals((await deliver(app, id)).status, 200);
    };
    await Promise.all(Array.from({ length: 10 }, send));
    await flood;
    await until(() => app.count("end") >= GENUINE, 30_000);
    const ended = app.lines.filter(({ message }) => message === "end").map(({ id }) => String(id));
    assertEquals(ended.toSorted(), ids.toSorted());
  },
);

testApp("an app sums up 2,000 health probes, and loses none of them", async (app) => {
  const url = await app.url;
  const paths = ["/health", "/health/live", "/health/ready", "/health/ready?x=1"];
  for (let i = 0; i < 500; i++) {
    const answers = await Promise.all(paths.map((path) => fetch(url + path)));
    for (const { status, body } of answers) {
      await body?.cancel();
      assertEquals(status, 200);
    }
  }
  assertEquals([await app.stop(), await app.ended], [0, ""]);
  assertLess(app.lines.length, 1_500);
  const probes = app.lines.filter(({ path }) => String(path).startsWith("/health"));
  const counts = probes.map(({ message, count }) => message === "request" ? 1 : Number(count));
  assertEquals(counts.reduce((sum, count) => sum + count), 2_000);
});
