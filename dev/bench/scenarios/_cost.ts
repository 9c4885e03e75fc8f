import { MEDIAN_BODY } from "../delivery.ts";
import { runLoad } from "../load/load.ts";
import { runArrivals } from "../load/open_loop.ts";
import { allHandled, warmUp, type withApp } from "../loaded_app.ts";
import type { Measure, Values } from "../scenario.ts";
import type { Subject } from "../subjects.ts";

/** Load that waits for its answers, on a number of connections, or one that arrives at a fixed rate. */
export type Load = { readonly connections: number } | { readonly perSecond: number };

/** A server that is loaded. */
type App = Parameters<Parameters<typeof withApp>[1]>[0];

/** Measure of {@linkcode measureCost}. */
export const CPU: Measure = {
  ...{ key: "cpuMs", title: "CPU per delivery, ms", digits: 3, ratio: true },
};

/**
 * Measures what a load costs a server after a burst, until all of it is handled.
 *
 * @param app The server.
 * @param subject The subject that it is.
 * @param load The load.
 * @param seconds The time that it lasts, in seconds.
 * @param begin Called between the burst and the load.
 * @returns The values, and the number of deliveries that were handled.
 */
export async function measureCost(
  app: App,
  subject: Subject,
  load: Load,
  seconds: number,
  begin?: () => Promise<void>,
): Promise<{ readonly values: Values; readonly count: number }> {
  const burst = await warmUp(app, subject);
  // The first answer, when it started, was a delivery too.
  const before = await allHandled(app, 1 + burst.requests - burst.failed);
  await begin?.();
  const cpuBefore = app.cpuMs();
  const options = { url: app.url, delivery: subject.sign(MEDIAN_BODY), seconds, ...load };
  const result = "connections" in options ? await runLoad(options) : await runArrivals(options);
  if (result.failed > 0) throw new Error(`${result.failed} were not answered 200`);
  const count = await allHandled(app, before + result.requests) - before;
  const values = {
    cpuMs: (app.cpuMs() - cpuBefore) / count,
    ...("seconds" in result ? { perSecond: result.requests / result.seconds } : {}),
    p50Ms: result.p50Ms,
    p99Ms: result.p99Ms,
    peakMb: app.memory().peakMb,
  };
  return { values, count };
}
