import { hasCompiler, slowDisk } from "../disk/slow_fsync.ts";
import type { Scenario } from "../scenario.ts";
import { BASELINE, EDGE_BASE, GROUP_COMMIT } from "../subjects.ts";
import { LOAD_MEASURES, measureLoad } from "./_load.ts";

const CONNECTIONS = [32, 256];

const { perSecond, p50Ms, p99Ms, handledPerSecond, failed } = LOAD_MEASURES;

/** Deliveries as fast as they are answered, on a disk that takes its time. */
export const slowDiskLoad: Scenario = {
  name: "slow-disk",
  title: "A disk whose fsync takes a millisecond longer",
  what:
    "As on a cloud disk: each fsync of the server is delayed by 1 ms. Deliveries of 7.7 KB, each " +
    "connection sends the next once it has its answer, after a burst of one second on 32 connections.",
  compare: "columns",
  measures: [{ ...perSecond, chart: "bars" }, p50Ms, p99Ms, handledPerSecond, failed],
  missing: () => hasCompiler() ? undefined : "there is no C compiler to slow fsync down with",
  runs: ({ seconds }) =>
    CONNECTIONS.flatMap((connections) =>
      ["off", "on"].flatMap((worker) =>
        (worker === "on" ? [BASELINE, EDGE_BASE, GROUP_COMMIT] : [BASELINE, EDGE_BASE]).map((
          subject,
        ) => ({
          row: `${connections} conn., worker ${worker}`,
          subject,
          measure: async () => {
            await using disk = await slowDisk();
            const env = { ...disk.env, BENCH_WORKER: worker };
            const drain = worker === "on";
            return await measureLoad(subject, { connections, seconds, env, drain });
          },
        }))
      )
    ),
};
