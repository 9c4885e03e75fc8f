/**
 * Traces and metrics of an app, through `npm:@opentelemetry/api`. Deno registers a provider for it with
 * `OTEL_DENO=true`. Without a provider nothing is loaded or recorded.
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
export { isTelemetryOn, openTelemetry } from "./open_telemetry.ts";
export { createRequestSpans } from "./request_spans.ts";
export type {
  Attempt,
  AttemptedEvent,
  AttemptOutcome,
  CountedDelivery,
  DeliveryOutcome,
  StoredDelivery,
  Telemetry,
} from "./telemetry.ts";
