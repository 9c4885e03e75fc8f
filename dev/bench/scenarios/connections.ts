import type { Scenario } from "../scenario.ts";
import { GROUP_COMMIT, NO_STORE, type Subject, SUBJECTS } from "../subjects.ts";
import type { Values } from "../scenario.ts";
import { LOAD_MEASURES, type LoadShape, measureLoad } from "./_load.ts";

const CONNECTIONS = [1, 32, 256];

const CHARTED = ["perSecond", "p99Ms", "handledPerSecond"];

const OF_HANDLING = ["handled", "left", "handledPerSecond"];

/** Deliveries as fast as they are answered, and whether they are handled too. */
export const connections: Scenario = {
  name: "connections",
  title: "Requests on 1, 32 and 256 connections",
  what: "Each connection sends its next delivery (7.7 KB) once it has its answer. The worker or " +
    "consumer runs in the same process. A burst of one second on 32 connections comes before. " +
    "Handled in percent is of all that was answered 200, the burst included; handled per second is " +
    "until all are handled, or 10 s after the load. The last two show how far it could go: group " +
    "commit alone is all that an app of 100 lines does which keeps no log, limit or deadline and " +
    "meets no error; what stores nothing verifies and parses, and neither stores, logs nor handles.",
  compare: "columns",
  measures: Object.values(LOAD_MEASURES).map((measure) =>
    CHARTED.includes(measure.key) ? { ...measure, chart: "bars" } : measure
  ),
  runs: ({ seconds }) =>
    CONNECTIONS.flatMap((connections) =>
      [...SUBJECTS, GROUP_COMMIT, NO_STORE].map((subject) => ({
        row: connections === 1 ? "1 connection" : `${connections} connections`,
        subject,
        measure: () => measure(subject, { connections, seconds }),
      }))
    ),
};

async function measure(subject: Subject, shape: LoadShape): Promise<Values> {
  if (subject !== NO_STORE) return await measureLoad(subject, shape);
  const values = await measureLoad(subject, { ...shape, drain: false });
  return Object.fromEntries(Object.entries(values).filter(([key]) => !OF_HANDLING.includes(key)));
}
