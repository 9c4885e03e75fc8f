import type { Scenario } from "../scenario.ts";
import { BASELINE, EDGE_BASE } from "../subjects.ts";
import { LOAD_MEASURES, measureLoad } from "./_load.ts";

const SHARES = [0, 0.01, 0.1];

const CONNECTIONS = 32;

const { perSecond, p50Ms, p99Ms, failed } = LOAD_MEASURES;

/** Deliveries of which some come again. */
export const redeliveries: Scenario = {
  name: "redeliveries",
  title: "Redeliveries in the load",
  what:
    "A share of the deliveries repeats one of the last 1,000 ids. 32 connections, 7.7 KB, after a " +
    "burst of one second. Compared with the same load without. The baseline does not know ids, " +
    "and queues all again.",
  compare: "rows",
  measures: [perSecond, p50Ms, p99Ms, failed],
  runs: ({ seconds }) =>
    SHARES.flatMap((share) =>
      [BASELINE, EDGE_BASE].map((subject) => ({
        row: share === 0 ? "none" : `${share * 100} %`,
        subject,
        measure: () => {
          const shape = { connections: CONNECTIONS, seconds, redeliveries: share };
          return measureLoad(subject, { ...shape, drain: false });
        },
      }))
    ),
};
