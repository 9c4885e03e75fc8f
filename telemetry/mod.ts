/**
 * Traces and metrics, through `npm:@opentelemetry/api`. An app of `defineApp` opens them if it runs with
 * `OTEL_DENO=true`. You need this entry point for an app that is composed by hand. Without a provider nothing
 * is loaded or recorded.
 *
 * @example
 * ```ts
 * import { createBaseApp } from "@org/edge-base";
 * import { openTelemetry } from "@org/edge-base/telemetry";
 *
 * const telemetry = await openTelemetry(); // undefined without a provider
 * const app = createBaseApp({ name: "my-bot", telemetry });
 * ```
 *
 * @module
 */
export { combineTelemetries } from "./combine_telemetries.ts";
export { createRequestSpans, openTelemetry } from "./open_telemetry.ts";
export type { Attempt, CountedStep, Telemetry } from "./telemetry.ts";
