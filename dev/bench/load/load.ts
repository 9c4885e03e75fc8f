import type { BenchDelivery } from "../delivery.ts";
import { runAutocannon } from "./autocannon.ts";
import { runWrk } from "./wrk.ts";

/** Options of a load generator. */
export interface LoadOptions {
  readonly url: string;
  readonly delivery: BenchDelivery;
  readonly connections: number;
  readonly seconds: number;
  /** Share of the requests that repeats an id that was sent before, from 0 to 1. */
  readonly redeliveries?: number;
}

/** Result of a load. */
export interface LoadResult {
  /** Number of requests that were answered. */
  readonly requests: number;
  /** Number of those with a status of 400 and above. */
  readonly failed: number;
  /** Number of ids that were sent. */
  readonly ids: number;
  readonly seconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** The load generator of this machine: `wrk`, or autocannon where that is missing. */
export const GENERATOR: string = findWrk() ?? "autocannon";

/** Loads a server: each connection sends its next request once it has its answer. */
export function runLoad(options: LoadOptions): Promise<LoadResult> {
  return GENERATOR === "autocannon" ? runAutocannon(options) : runWrk(options);
}

function findWrk(): string | undefined {
  try {
    // It ends with exit code 1 when it is asked for its version.
    const { stdout } = new Deno.Command("wrk", { args: ["--version"] }).outputSync();
    return /^wrk \S+/.exec(new TextDecoder().decode(stdout))?.[0];
  } catch {
    return undefined;
  }
}
