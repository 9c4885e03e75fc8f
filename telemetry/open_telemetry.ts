import type { Context, MiddlewareHandler } from "@hono/hono";
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

/**
 * Creates middleware that names the server span of each request after its route, and sets `http.route`.
 * The span of a request that matches no route gets neither, so that senders cannot choose names or labels.
 *
 * @param telemetry The telemetry.
 * @returns The middleware. Put it first.
 *
 * @example
 * ```ts
 * import { Hono } from "@hono/hono";
 * import { createRequestSpans, openTelemetry } from "@org/edge-base/telemetry";
 *
 * const app = new Hono();
 * const telemetry = await openTelemetry();
 * if (telemetry) app.use(createRequestSpans(telemetry));
 * ```
 *
 * @category Log and telemetry
 */
export function createRequestSpans(telemetry: Telemetry): MiddlewareHandler {
  return async function requestSpans(c, next) {
    try {
      await next();
    } finally {
      telemetry.nameRequest(c.req.method, routeOf(c));
    }
  };
}

/** Finds the route of the handler: the last match, since middleware is registered for all methods. */
function routeOf(c: Context): string | undefined {
  const handlers = c.req.matchedRoutes.filter(({ method, path }) =>
    method !== "ALL" || !path.endsWith("*")
  );
  return handlers.at(-1)?.path;
}
