import type { Scenario } from "../scenario.ts";
import { EDGE_BASE } from "../subjects.ts";
import { LOAD_MEASURES, measureLoad } from "./_load.ts";

const CONNECTIONS = 32;

const KEYS = [0, 10_000, 1_000, 100, 10, 1];

const { perSecond, p99Ms, handledPerSecond, peakMb, failed } = LOAD_MEASURES;

/** Growth of the cost with the number of ordering keys. */
export const orderingKeys: Scenario = {
  name: "ordering-keys",
  title: "Ordering keys",
  what:
    `${CONNECTIONS} connections, 7.7 KB, the deliveries spread evenly over a number of keys; events of ` +
    "one key are handled one at a time and in order. After a burst of one second, compared with the " +
    "first row. Handled per second is until all are handled, or 10 s after the load.",
  compare: "rows",
  measures: [
    { ...perSecond, chart: "line" },
    p99Ms,
    { ...handledPerSecond, chart: "line" },
    peakMb,
    failed,
  ],
  runs: ({ seconds }) =>
    KEYS.map((keys) => {
      const env = { BENCH_ORDERING_KEYS: String(keys) };
      const count = keys.toLocaleString("en");
      const row = keys === 0 ? "no ordering" : keys === 1 ? "1 key" : `${count} keys`;
      const shape = { connections: CONNECTIONS, seconds, env };
      return { row, subject: EDGE_BASE, measure: () => measureLoad(EDGE_BASE, shape) };
    }),
};
