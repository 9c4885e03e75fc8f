import type { AppProcess } from "../app_process.ts";
import { bodyOf, MEDIAN_BODY } from "../delivery.ts";
import { runLoad } from "../load/load.ts";
import { runArrivals } from "../load/open_loop.ts";
import { warmUp, withApp } from "../loaded_app.ts";
import type { BenchSettings, Run, Scenario, Values } from "../scenario.ts";
import { BARE, EDGE_BASE, type Subject, VERIFIED_WRITE } from "../subjects.ts";

const SIZES = [["small ones only", 0], ["200 KB", 200_000], ["3 MB", 3_000_000]] as const;

/** Number of large deliveries that are sent at the same time. */
const CONNECTIONS = 4;

/** Number of small ones that arrive beside them. */
const SMALL_PER_SECOND = 100;

const VARIANTS = [
  { column: "bare write", subject: BARE, worker: "off" },
  { column: "bare write, verified", subject: VERIFIED_WRITE, worker: "off" },
  { column: "edge-base, worker off", subject: EDGE_BASE, worker: "off" },
  { column: "edge-base, worker on", subject: EDGE_BASE, worker: "on" },
] as const;

/** Deliveries that do not fit one KV value, and small ones beside them. */
export const payloads: Scenario = {
  name: "payloads",
  title: "Large payloads",
  what:
    `${CONNECTIONS} connections send large deliveries, each the next once it has its answer, while ` +
    `small ones (7.7 KB) arrive at ${SMALL_PER_SECOND}/s, after a burst of one second. Compared with a ` +
    "server that writes the bytes to KV in chunks and does nothing else: no verification, no parsing, no " +
    "record, no worker. Beside it, the same once it verifies and parses them. The baseline cannot " +
    "take them: a queued message holds 64 KiB.",
  compare: "columns",
  measures: [
    { key: "perSecond", title: "large ones/s", digits: 1, ratio: true },
    { key: "mbPerSecond", title: "MB/s", digits: 1 },
    { key: "p50Ms", title: "large, p50, ms", digits: 0, ratio: true },
    { key: "p99Ms", title: "large, p99, ms", digits: 0, ratio: true },
    { key: "failed", title: "large, not answered 200", digits: 0 },
    { key: "smallP50Ms", title: "small beside, p50, ms", digits: 1, ratio: true },
    { key: "smallP99Ms", title: "small beside, p99, ms", digits: 1, ratio: true },
    { key: "smallFailed", title: "small, not answered 200", digits: 0 },
    { key: "peakMb", title: "memory at its peak, MB", digits: 0 },
  ],
  runs: (settings) =>
    SIZES.flatMap(([name, bytes]) =>
      VARIANTS.map(({ column, subject, worker }): Run => ({
        row: name,
        column,
        subject,
        measure: () => measure(subject, bytes, worker, settings),
      }))
    ),
};

function measure(
  subject: Subject,
  bytes: number,
  worker: string,
  { seconds }: BenchSettings,
): Promise<Values> {
  return withApp(subject, async (app) => {
    await warmUp(app, subject);
    const [large, small] = await Promise.all([
      bytes > 0 ? sendLarge(app, subject, bytes, seconds) : {},
      runArrivals({
        url: app.url,
        delivery: subject.sign(MEDIAN_BODY),
        perSecond: SMALL_PER_SECOND,
        seconds,
      }),
    ]);
    return {
      ...large,
      smallP50Ms: small.p50Ms,
      smallP99Ms: small.p99Ms,
      smallFailed: small.failed,
      peakMb: app.memory().peakMb,
    };
  }, { env: { BENCH_WORKER: worker } });
}

async function sendLarge(app: AppProcess, subject: Subject, bytes: number, seconds: number) {
  const delivery = subject.sign(bodyOf(bytes));
  const options = { url: app.url, delivery, connections: CONNECTIONS, seconds };
  const { requests, failed, seconds: took, p50Ms, p99Ms } = await runLoad(options);
  const perSecond = (requests - failed) / took;
  return { perSecond, mbPerSecond: perSecond * bytes / 1e6, p50Ms, p99Ms, failed };
}
