import { resolve } from "node:path";
import { MEDIAN_BODY } from "../delivery.ts";
import { runLoad } from "../load/load.ts";
import { runArrivals } from "../load/open_loop.ts";
import { allHandled, warmUp, withApp } from "../loaded_app.ts";
import { ratioOf } from "../report/samples.ts";
import type { Sample, Scenario, Values } from "../scenario.ts";
import { checkoutAt, type Subject } from "../subjects.ts";
import { LOAD_MEASURES } from "./_load.ts";

/** Load that waits for its answers, on a number of connections, or one that arrives at a fixed rate. */
type Load = { readonly row: string } & ({ readonly connections: number } | { perSecond: number });

const HERE = resolve(import.meta.dirname!, "../../..");

const [OTHER, THIS] = ["other", "this"];

const CLOSED: readonly Load[] = [
  { row: "1 connection", connections: 1 },
  { row: "32 connections", connections: 32 },
  { row: "256 connections", connections: 256 },
];

const LOADS: readonly Load[] = [...CLOSED, { row: "1,000/s", perSecond: 1_000 }];

const CPU = { key: "cpuMs", title: "CPU per delivery, ms", digits: 3, ratio: true };

const { perSecond, p50Ms, p99Ms, peakMb } = LOAD_MEASURES;

/** Compares this checkout with another one, which may be of any commit since 1cdc988. */
export async function against(folder: string): Promise<Scenario> {
  const other = resolve(folder);
  for (const checkout of [other, HERE]) await install(checkout);
  const subjects = [checkoutAt(other, OTHER), checkoutAt(HERE, THIS)];
  return {
    name: "against",
    title: `This checkout beside ${other}`,
    what:
      "Deliveries of 7.7 KB, after a burst of one second, until a handler that only counts has " +
      "handled all of them. The CPU is that of the server's process, user and system.",
    compare: "columns",
    measures: [CPU, perSecond, { ...p50Ms, digits: 2 }, { ...p99Ms, digits: 2 }, peakMb],
    runs: ({ seconds }) =>
      LOADS.flatMap((load) =>
        subjects.map((subject) => {
          return { row: load.row, subject, measure: () => measure(subject, load, seconds) };
        })
      ),
    conclude,
  };
}

async function install(cwd: string): Promise<void> {
  const isCheckout = await Deno.stat(`${cwd}/mod.ts`).then(() => true, () => false);
  if (!isCheckout) throw new Error(`Cannot compare: ${cwd} is not a checkout of this repository`);
  const args = ["install", "--quiet", "--frozen"];
  const { success } = await new Deno.Command(Deno.execPath(), { args, cwd }).spawn().status;
  if (!success) throw new Error(`Cannot install the packages of ${cwd}`);
}

function measure(subject: Subject, load: Load, seconds: number): Promise<Values> {
  return withApp(subject, async (app) => {
    const burst = await warmUp(app, subject);
    // The first answer, when it started, was a delivery too.
    const before = await allHandled(app, 1 + burst.requests - burst.failed);
    const cpuBefore = app.cpuMs();
    const options = { url: app.url, delivery: subject.sign(MEDIAN_BODY), seconds, ...load };
    const result = "connections" in options ? await runLoad(options) : await runArrivals(options);
    if (result.failed > 0) throw new Error(`${result.failed} were not answered 200`);
    const count = await allHandled(app, before + result.requests) - before;
    return {
      cpuMs: (app.cpuMs() - cpuBefore) / count,
      ...("seconds" in result ? { perSecond: result.requests / result.seconds } : {}),
      p50Ms: result.p50Ms,
      p99Ms: result.p99Ms,
      peakMb: app.memory().peakMb,
    };
  });
}

/** The figures that each change is held against: medians of the ratios, this checkout to the other one. */
function conclude(samples: readonly Sample[]): string {
  const ratiosOf = (key: string) =>
    LOADS.flatMap(({ row }) =>
      ratioOf(samples, { row, column: THIS }, { row, column: OTHER }, key)?.median ?? []
    );
  const line = (title: string, key: string, worst: "above" | "below") => {
    const ratios = ratiosOf(key);
    const closed = ratios.slice(0, CLOSED.length);
    const mean = closed.reduce((sum, ratio) => sum + ratio, 0) / closed.length;
    const limit = worst === "above" ? Math.max(...ratios) : Math.min(...ratios);
    return `- ${title}: mean over 1, 32 and 256 connections ×${mean.toFixed(3)}, ` +
      `no rate ${worst} ×${limit.toFixed(3)}`;
  };
  return [
    line("CPU per delivery", "cpuMs", "above"),
    line("requests/s", "perSecond", "below"),
    line("memory at its peak", "peakMb", "above"),
  ].join("\n");
}
