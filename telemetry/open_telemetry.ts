import type { Telemetry } from "./telemetry.ts";

/** Where all versions 1 of the API find what is registered. To look there costs no start time. */
const REGISTRY = Symbol.for("opentelemetry.js.api.1");

/**
 * Tells whether there is something to report traces and metrics to.
 *
 * @returns Whether a provider is registered with `@opentelemetry/api`, as Deno does with `OTEL_DENO=true`.
 */
export function isTelemetryOn(): boolean {
  return REGISTRY in globalThis;
}

/**
 * Opens what an app reports its traces and metrics to: the providers that are registered with
 * `@opentelemetry/api`. Deno registers its own with `OTEL_DENO=true`.
 *
 * @returns The telemetry; undefined without a provider. The API is loaded only with one: that takes 10
 * to 20 ms.
 *
 * @example
 * ```ts
 * import { createForgeIntake, openEventStore, startWorker } from "@org/edge-base";
 * import { openTelemetry } from "@org/edge-base/telemetry";
 *
 * using kv = await Deno.openKv(":memory:");
 * const store = await openEventStore(kv);
 * const telemetry = await openTelemetry();
 * createForgeIntake({ secrets: ["It's a Secret to Everybody"], store, telemetry });
 * const worker = startWorker(store, (event) => console.log(event.type), { telemetry });
 * await worker.stop();
 * ```
 */
export async function openTelemetry(): Promise<Telemetry | undefined> {
  if (!isTelemetryOn()) return undefined;
  const { OtelTelemetry } = await import("./_otel_telemetry.ts");
  return new OtelTelemetry();
}
