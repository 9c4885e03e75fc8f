import { denokvPath, startDenokv } from "../../../tests/events/store/kv/_denokv.ts";
import { type AppProcess, startApp } from "../app_process.ts";
import { MEDIAN_BODY } from "../delivery.ts";
import { runLoad } from "../load/load.ts";
import { untilHandled, warmUp } from "../loaded_app.ts";
import type { BenchSettings, Run, Scenario, Values } from "../scenario.ts";
import { BASELINE, EDGE_BASE, GROUP_COMMIT, type Subject } from "../subjects.ts";

const CONNECTIONS = 32;

const DRAIN_MS = 10_000;

/** Processes that share a store, on one machine: what the load shares are the cores, too. */
export const processes: Scenario = {
  name: "processes",
  title: "Two processes on one store",
  what:
    `${CONNECTIONS} connections in all, 7.7 KB, after a burst of one second. Two processes share a KV ` +
    "file, or a remote KV (`denokv` on the same machine). Handled per second is until all are handled, " +
    `or 10 s after the load.${denokvPath() ? "" : " `denokv` is not installed here."}`,
  compare: "columns",
  measures: [
    { key: "perSecond", title: "requests/s", digits: 0, ratio: true },
    { key: "p99Ms", title: "p99, ms", digits: 1, ratio: true },
    { key: "handledPerSecond", title: "handled/s", digits: 0, ratio: true },
    { key: "failed", title: "not answered 200", digits: 0 },
  ],
  runs: (settings) => [
    ...rowsOf("baseline, a file", BASELINE, onFile, settings),
    ...rowsOf("edge-base, a file", EDGE_BASE, onFile, settings),
    ...rowsOf("group commit alone, a file", GROUP_COMMIT, onFile, settings),
    ...(denokvPath() ? rowsOf("edge-base, denokv", EDGE_BASE, onDenokv, settings) : []),
  ],
};

/** Runs something with the path or URL of a KV. */
type WithKv = (fn: (kvUrl: string) => Promise<Values>) => Promise<Values>;

function rowsOf(row: string, subject: Subject, withKv: WithKv, settings: BenchSettings): Run[] {
  return [1, 2].map((count) => ({
    row,
    column: count === 1 ? "one process" : "two processes",
    subject,
    measure: () => withKv((kvUrl) => measure(subject, count, kvUrl, settings)),
  }));
}

async function measure(
  subject: Subject,
  count: number,
  kvUrl: string,
  { seconds }: BenchSettings,
): Promise<Values> {
  await using first = await startApp(subject, { kvUrl });
  await using second = count === 2 ? await startApp(subject, { kvUrl }) : undefined;
  const apps = second ? [first, second] : [first];
  const both = together(apps);
  const burst = await warmUp(first, subject);
  const before = await both.handled();
  const results = await Promise.all(apps.map(({ url }) => {
    const delivery = subject.sign(MEDIAN_BODY);
    return runLoad({ url, delivery, connections: CONNECTIONS / count, seconds });
  }));
  const failed = sumOf(results, (result) => result.failed);
  const requests = sumOf(results, (result) => result.requests);
  const accepted = count + burst.requests - burst.failed + requests - failed;
  const after = await untilHandled(both, accepted, DRAIN_MS);
  return {
    perSecond: sumOf(results, (result) => result.requests / result.seconds),
    p99Ms: Math.max(...results.map(({ p99Ms }) => p99Ms)),
    handledPerSecond: 1_000 * (after.count - before.count) / (after.atMs - before.atMs),
    failed,
  };
}

/** Sum of what several processes have handled. */
function together(apps: readonly AppProcess[]) {
  return {
    handled: async () => {
      const all = await Promise.all(apps.map((app) => app.handled()));
      return { count: sumOf(all, ({ count }) => count), atMs: performance.now() };
    },
  };
}

function sumOf<T>(values: readonly T[], numberOf: (value: T) => number): number {
  return values.reduce((sum, value) => sum + numberOf(value), 0);
}

async function onFile(fn: (kvUrl: string) => Promise<Values>): Promise<Values> {
  const folder = await Deno.makeTempDir({ prefix: "edge-base-bench-" });
  try {
    return await fn(`${folder}/kv.db`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function onDenokv(fn: (kvUrl: string) => Promise<Values>): Promise<Values> {
  await using server = await startDenokv();
  return await fn(server.url);
}
