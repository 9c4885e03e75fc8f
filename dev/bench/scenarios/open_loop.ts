import { MEDIAN_BODY } from "../delivery.ts";
import { type ArrivalResult, runArrivals } from "../load/open_loop.ts";
import { untilHandled, warmUp, withApp } from "../loaded_app.ts";
import type { BenchSettings, Run, Scenario, Values } from "../scenario.ts";
import { BASELINE, EDGE_BASE, EDGE_BASE_SQLITE, GROUP_COMMIT, type Subject } from "../subjects.ts";

const RATES = [1_000, 3_000];

/** Arrivals last longer than other loads: a backlog that grows takes its time. */
const TIMES_SECONDS = 6;

const DRAIN_MS = 10_000;

/** Deliveries that arrive at a fixed rate, however fast those before are answered and handled. */
export const openLoop: Scenario = {
  name: "open-loop",
  title: "Arrivals at 1,000/s and 3,000/s",
  what:
    "Deliveries (7.7 KB) arrive at a fixed rate, after a burst of one second. Answers are timed " +
    "from when a delivery was due to be sent, handling from when it was received; both include what " +
    "the burst has left.",
  compare: "columns",
  measures: [
    { key: "p50Ms", title: "answered after, p50, ms", digits: 1, ratio: true },
    { key: "p99Ms", title: "answered after, p99, ms", digits: 1, ratio: true },
    { key: "maxMs", title: "answered after, at most, ms", digits: 0 },
    { key: "failed", title: "not answered 200", digits: 0 },
    { key: "handledP50Ms", title: "received to handled, p50, ms", digits: 0 },
    { key: "handledP99Ms", title: "received to handled, p99, ms", digits: 0 },
    { key: "handledMaxMs", title: "received to handled, at most, ms", digits: 0 },
    { key: "waiting", title: "waiting when the arrivals end", digits: 0 },
    { key: "left", title: "not handled 10 s later", digits: 0 },
    { key: "writtenKb", title: "written to the disk for an event, KB", digits: 1, ratio: true },
    { key: "stallMs", title: "longest stall of the event loop, ms", digits: 0 },
    { key: "peakMb", title: "memory at its peak, MB", digits: 0, ratio: true },
    { key: "lateMs", title: "(the generator's own delay, p99, ms)", digits: 1 },
    { key: "generatorCpu", title: "(the generator's own CPU, % of a core)", digits: 0 },
  ],
  runs: (settings) =>
    RATES.flatMap((perSecond) =>
      [BASELINE, EDGE_BASE, EDGE_BASE_SQLITE, GROUP_COMMIT].map((subject): Run => ({
        row: `${perSecond.toLocaleString("en")}/s for ${settings.seconds * TIMES_SECONDS} s`,
        subject,
        measure: () => measure(subject, perSecond, settings),
      }))
    ),
};

function measure(subject: Subject, perSecond: number, settings: BenchSettings): Promise<Values> {
  return withApp(subject, async (app) => {
    const burst = await warmUp(app, subject);
    await app.resetLags();
    const writtenBefore = app.writtenBytes();
    const result: ArrivalResult = await runArrivals({
      url: app.url,
      delivery: subject.sign(MEDIAN_BODY),
      perSecond,
      seconds: settings.seconds * TIMES_SECONDS,
    });
    const accepted = 1 + burst.requests - burst.failed + result.requests - result.failed;
    const atEnd = await app.handled();
    const drained = await untilHandled(app, accepted, DRAIN_MS);
    const { lagMs } = drained;
    return {
      p50Ms: result.p50Ms,
      p99Ms: result.p99Ms,
      maxMs: result.maxMs,
      failed: result.failed,
      handledP50Ms: lagMs.p50,
      handledP99Ms: lagMs.p99,
      handledMaxMs: lagMs.max,
      waiting: Math.max(0, accepted - atEnd.count),
      left: Math.max(0, accepted - drained.count),
      writtenKb: (app.writtenBytes() - writtenBefore) / result.requests / 1_000,
      stallMs: drained.stallMs,
      peakMb: app.memory().peakMb,
      lateMs: result.lateMs,
      generatorCpu: result.cpuPercent,
    };
  });
}
