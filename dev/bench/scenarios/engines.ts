import { MEDIAN_BODY } from "../delivery.ts";
import { runLoad } from "../load/load.ts";
import { runArrivals } from "../load/open_loop.ts";
import { allHandled, warmUp, withApp } from "../loaded_app.ts";
import type { Run, Scenario, Values } from "../scenario.ts";
import { EDGE_BASE, EDGE_BASE_SQLITE, type Subject } from "../subjects.ts";
import { LOAD_MEASURES } from "./_load.ts";

/** Load that waits for its answers, on a number of connections, or one that arrives at a fixed rate. */
type Load = { readonly connections: number } | { readonly perSecond: number };

const LOADS: Readonly<Record<string, Load>> = {
  "1 connection": { connections: 1 },
  "32 connections": { connections: 32 },
  "256 connections": { connections: 256 },
  "1,000/s": { perSecond: 1_000 },
  "3,000/s": { perSecond: 3_000 },
};

const { perSecond, p50Ms, p99Ms, peakMb } = LOAD_MEASURES;

/** The engines of the package beside each other, by what a delivery costs. */
export const engines: Scenario = {
  name: "engines",
  title: "SQLite beside Deno KV",
  what:
    "Deliveries of 7.7 KB, after a burst of one second, until a handler that only counts has handled all of " +
    "them. The CPU is that of the server's process, user and system, and so are the bytes written to the disk. " +
    "A stall is the longest time for which its event loop did nothing else.",
  compare: "columns",
  measures: [
    { key: "cpuMs", title: "CPU per delivery, ms", digits: 3, ratio: true },
    perSecond,
    { ...p50Ms, digits: 2 },
    { ...p99Ms, digits: 2 },
    { key: "writtenKb", title: "written to the disk for an event, KB", digits: 1, ratio: true },
    { key: "stallMs", title: "longest stall, ms", digits: 0 },
    peakMb,
  ],
  runs: ({ seconds }) =>
    Object.entries(LOADS).flatMap(([row, load]) =>
      [EDGE_BASE, EDGE_BASE_SQLITE].map((subject): Run => {
        return { row, subject, measure: () => measureCost(subject, load, seconds) };
      })
    ),
};

/** Measures what a load costs a server, all told. */
export function measureCost(
  subject: Subject,
  load: Load,
  seconds: number,
  env: Readonly<Record<string, string>> = {},
): Promise<Values> {
  return withApp(subject, async (app) => {
    const burst = await warmUp(app, subject);
    // The first answer, when it started, was a delivery too.
    const before = await allHandled(app, 1 + burst.requests - burst.failed);
    await app.resetLags();
    const [cpuBefore, writtenBefore] = [app.cpuMs(), app.writtenBytes()];
    const options = { url: app.url, delivery: subject.sign(MEDIAN_BODY), seconds, ...load };
    const result = "connections" in options ? await runLoad(options) : await runArrivals(options);
    if (result.failed > 0) throw new Error(`${result.failed} were not answered 200`);
    const count = await allHandled(app, before + result.requests) - before;
    return {
      cpuMs: (app.cpuMs() - cpuBefore) / count,
      ...("seconds" in result ? { perSecond: result.requests / result.seconds } : {}),
      p50Ms: result.p50Ms,
      p99Ms: result.p99Ms,
      writtenKb: (app.writtenBytes() - writtenBefore) / count / 1_000,
      stallMs: (await app.handled()).stallMs,
      peakMb: app.memory().peakMb,
    };
  }, { env });
}
