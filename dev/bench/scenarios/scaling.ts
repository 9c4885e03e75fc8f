import { bodyOf } from "../delivery.ts";
import type { Measure, Run, Scenario } from "../scenario.ts";
import { BASELINE, EDGE_BASE, type Subject } from "../subjects.ts";
import { LOAD_MEASURES, type LoadShape, measureLoad } from "./_load.ts";

const CONNECTIONS = 32;

const { perSecond, p99Ms, handledPerSecond, peakMb, failed } = LOAD_MEASURES;

const MEASURES: readonly Measure[] = [
  { ...perSecond, chart: "line" },
  p99Ms,
  { ...handledPerSecond, chart: "line" },
  peakMb,
  failed,
];

const HOW =
  "After a burst of one second, compared with the first row. Handled per second is until all " +
  "are handled, or 10 s after the load.";

/** Growth of the cost with the size of the payload. */
export const payloadSize: Scenario = {
  name: "payload-size",
  title: "Growth with the payload",
  what: `${CONNECTIONS} connections. ${HOW} The baseline cannot take the larger ones.`,
  compare: "rows",
  measures: MEASURES,
  runs: ({ seconds }) => [
    ...[2, 8, 24].flatMap((
      kb,
    ) => [sizeRun(BASELINE, kb, seconds), sizeRun(EDGE_BASE, kb, seconds)]),
    ...[100, 400, 1_600].map((kb) => sizeRun(EDGE_BASE, kb, seconds)),
  ],
};

/** Growth of the cost with the number of connections. */
export const connectionCount: Scenario = {
  name: "connection-count",
  title: "Growth with the connections",
  what: `Deliveries of 7.7 KB. ${HOW}`,
  compare: "rows",
  measures: MEASURES,
  runs: ({ seconds }) =>
    [1, 4, 16, 64, 256, 1_024].flatMap((connections) =>
      [BASELINE, EDGE_BASE].map((subject) =>
        run(subject, `${connections}`, { connections, seconds })
      )
    ),
};

/** Growth of the cost with the number of ordering keys. */
export const orderingKeys: Scenario = {
  name: "ordering-keys",
  title: "Ordering keys",
  what:
    `${CONNECTIONS} connections, 7.7 KB, the deliveries spread evenly over a number of keys; those ` +
    `of one key are handled one at a time and in order. ${HOW}`,
  compare: "rows",
  measures: MEASURES,
  runs: ({ seconds }) =>
    [0, 10_000, 1_000, 100, 10, 1].map((keys) => {
      const env = { BENCH_ORDERING_KEYS: String(keys) };
      const count = keys.toLocaleString("en");
      const row = keys === 0 ? "no ordering" : keys === 1 ? "1 key" : `${count} keys`;
      return run(EDGE_BASE, row, { connections: CONNECTIONS, seconds, env });
    }),
};

function sizeRun(subject: Subject, kb: number, seconds: number): Run {
  const body = bodyOf(kb * 1_000);
  return run(subject, `${kb} KB`, { connections: CONNECTIONS, seconds, body });
}

function run(subject: Subject, row: string, shape: LoadShape): Run {
  return { row, subject, measure: () => measureLoad(subject, shape) };
}
