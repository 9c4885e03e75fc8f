import { MEDIAN_BODY } from "../delivery.ts";
import { load, untilHandled, warmUp, withApp } from "../loaded_app.ts";
import type { BenchSettings, Run, Scenario, Values } from "../scenario.ts";
import { type Subject, SUBJECTS } from "../subjects.ts";

const CONNECTIONS = [1, 32, 256];

/** For how long the events that are left over are waited for. */
const DRAIN_MS = 10_000;

/** Deliveries as fast as they are answered, and whether they are handled too. */
export const connections: Scenario = {
  name: "connections",
  title: "Requests on 1, 32 and 256 connections",
  what: "Each connection sends its next delivery (7.7 KB) once it has its answer. The worker or " +
    "consumer runs in the same process. A burst of one second on 32 connections comes before. " +
    "'Handled' counts events against answers of 200, burst included.",
  baseline: "plain",
  measures: [
    { key: "perSecond", title: "requests/s", digits: 0, ratio: true },
    { key: "p50Ms", title: "p50, ms", digits: 1, ratio: true },
    { key: "p99Ms", title: "p99, ms", digits: 1, ratio: true },
    { key: "cpuMs", title: "CPU per request, ms", digits: 2, ratio: true },
    { key: "peakMb", title: "memory at its peak, MB", digits: 0, ratio: true },
    { key: "failed", title: "not answered 200", digits: 0 },
    { key: "handled", title: "handled when the load ends, %", digits: 1 },
    { key: "left", title: "not handled 10 s later, %", digits: 1 },
    { key: "drainSeconds", title: "all handled after, s (at most 10)", digits: 1 },
  ],
  runs: (settings) =>
    CONNECTIONS.flatMap((connections) =>
      SUBJECTS.map((subject): Run => ({
        row: connections === 1 ? "1 connection" : `${connections} connections`,
        subject,
        measure: () => measure(subject, connections, settings),
      }))
    ),
};

function measure(subject: Subject, connections: number, settings: BenchSettings): Promise<Values> {
  return withApp(subject, async (app) => {
    const delivery = subject.sign(MEDIAN_BODY);
    const burst = await warmUp(app, subject);
    const cost = await load(app, { delivery, connections, seconds: settings.seconds });
    // The first answer, when it started, was a delivery too.
    const accepted = 1 + burst.requests - burst.failed + cost.requests - cost.failed;
    const atEnd = await app.handled();
    const drained = await untilHandled(app, accepted, DRAIN_MS);
    return {
      perSecond: cost.requests / cost.seconds,
      p50Ms: cost.p50Ms,
      p99Ms: cost.p99Ms,
      cpuMs: cost.cpuMsPerRequest,
      peakMb: app.memory().peakMb,
      failed: cost.failed,
      handled: Math.min(100, 100 * atEnd.count / accepted),
      left: Math.max(0, 100 * (1 - drained.count / accepted)),
      drainSeconds: drained.ms / 1_000,
    };
  });
}
