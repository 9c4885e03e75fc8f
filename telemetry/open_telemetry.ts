import type { Telemetry } from "./telemetry.ts";

/** Key under which all versions 1 of the API register providers. Checking it costs no start time. */
const REGISTRY = Symbol.for("opentelemetry.js.api.1");

/**
 * Tells whether a provider for traces and metrics is registered.
 *
 * @returns True if one is registered with `@opentelemetry/api`. Deno does that with `OTEL_DENO=true`.
 * @category Log and telemetry
 */
export function isTelemetryOn(): boolean {
  return REGISTRY in globalThis;
}

/**
 * Opens the telemetry of an app. It reports to the providers that are registered with
 * `@opentelemetry/api`. Deno registers its own with `OTEL_DENO=true`.
 *
 * @returns The telemetry; undefined without a provider. The API takes 10 to 20 ms to load, and is loaded
 * only if there is a provider.
 *
 * @example
 * ```ts
 * import { createIntake, github, openEventStore, startWorker } from "@org/edge-base";
 * import { openTelemetry } from "@org/edge-base/telemetry";
 *
 * using kv = await Deno.openKv(":memory:");
 * const store = await openEventStore(kv);
 * const telemetry = await openTelemetry();
 * createIntake(github({ secrets: ["It's a Secret to Everybody"] }), { store, telemetry });
 * const worker = startWorker(store, (event) => console.log(event.type), { telemetry });
 * await worker.stop();
 * ```
 *
 * @category Log and telemetry
 */
export async function openTelemetry(): Promise<Telemetry | undefined> {
  if (!isTelemetryOn()) return undefined;
  const { OtelTelemetry } = await import("./_otel_telemetry.ts");
  return new OtelTelemetry();
}
