import { MEDIAN_BODY } from "../delivery.ts";
import { load, type RunOptions, untilHandled, warmUp, withApp } from "../loaded_app.ts";
import type { Measure, Values } from "../scenario.ts";
import type { Subject } from "../subjects.ts";

/** Shape of a load. */
export interface LoadShape extends RunOptions {
  readonly connections: number;
  readonly seconds: number;
  readonly body?: Uint8Array<ArrayBuffer>;
  readonly redeliveries?: number;
  /** Waits for the events that the load leaves. */
  readonly drain?: boolean;
}

/** Time in which the events that a load leaves may still be handled. */
const DRAIN_MS = 10_000;

/** Measures of {@linkcode measureLoad}. */
export const LOAD_MEASURES = {
  perSecond: { key: "perSecond", title: "requests/s", digits: 0, ratio: true },
  p50Ms: { key: "p50Ms", title: "p50, ms", digits: 1, ratio: true },
  p99Ms: { key: "p99Ms", title: "p99, ms", digits: 1, ratio: true },
  cpuMs: { key: "cpuMs", title: "CPU per request, ms", digits: 2, ratio: true },
  peakMb: { key: "peakMb", title: "memory at its peak, MB", digits: 0, ratio: true },
  failed: { key: "failed", title: "not answered 200", digits: 0 },
  handled: { key: "handled", title: "handled when the load ends, %", digits: 1 },
  left: { key: "left", title: "not handled 10 s later, %", digits: 1 },
  handledPerSecond: { key: "handledPerSecond", title: "handled/s", digits: 0, ratio: true },
} satisfies Record<string, Measure>;

/**
 * Loads a server after a burst, then waits until all is handled, 10 s at most. `handledPerSecond` is
 * over both: the rate at which events go all the way.
 */
export function measureLoad(subject: Subject, shape: LoadShape): Promise<Values> {
  const { connections, seconds, body = MEDIAN_BODY, redeliveries = 0, drain = true } = shape;
  return withApp(subject, async (app) => {
    const delivery = subject.sign(body);
    const burst = await warmUp(app, subject);
    const before = await app.handled();
    const cost = await load(app, { delivery, connections, seconds, redeliveries });
    // Of ids that are repeated, those of the last requests may be without an answer.
    const ids = redeliveries > 0 ? cost.ids - connections : cost.requests;
    // The first answer, when it started, was a delivery too.
    const accepted = 1 + burst.requests - burst.failed + ids - cost.failed;
    const atEnd = await app.handled();
    const drained = await untilHandled(app, accepted, drain ? DRAIN_MS : 0);
    return {
      perSecond: cost.requests / cost.seconds,
      p50Ms: cost.p50Ms,
      p99Ms: cost.p99Ms,
      cpuMs: cost.cpuMsPerRequest,
      peakMb: app.memory().peakMb,
      failed: cost.failed,
      handled: Math.min(100, 100 * atEnd.count / accepted),
      left: Math.max(0, 100 * (1 - drained.count / accepted)),
      handledPerSecond: 1_000 * (drained.count - before.count) / (drained.atMs - before.atMs),
    };
  }, shape);
}
