import type { BenchDelivery } from "../delivery.ts";

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
