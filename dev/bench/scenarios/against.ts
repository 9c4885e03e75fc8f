import { resolve } from "node:path";
import { withApp } from "../loaded_app.ts";
import { ratioOf } from "../report/samples.ts";
import type { Sample, Scenario, Values } from "../scenario.ts";
import { checkoutAt, type Subject } from "../subjects.ts";
import { CPU, type Load, measureCost } from "./_cost.ts";
import { LOAD_MEASURES } from "./_load.ts";

const HERE = resolve(import.meta.dirname!, "../../..");

const [OTHER, THIS] = ["other", "this"];

/** Load, as the table names it. */
type NamedLoad = Load & { readonly row: string };

const CLOSED: readonly NamedLoad[] = [
  { row: "1 connection", connections: 1 },
  { row: "32 connections", connections: 32 },
  { row: "256 connections", connections: 256 },
];

const LOADS: readonly NamedLoad[] = [...CLOSED, { row: "1,000/s", perSecond: 1_000 }];

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
  return withApp(subject, async (app) => (await measureCost(app, subject, load, seconds)).values);
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
