import type { Context, MiddlewareHandler } from "@hono/hono";
import type { Telemetry } from "./telemetry.ts";

/**
 * Creates middleware that names the server span of each request by its route, and gives it `http.route`.
 * A request that no route takes gets none: names and labels are those of the app, whatever is sent.
 *
 * @param telemetry Where spans are named.
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

/** The route of the handler, the last that matches: middleware is registered for all methods. */
function routeOf(c: Context): string | undefined {
  const handlers = c.req.matchedRoutes.filter(({ method, path }) =>
    method !== "ALL" || !path.endsWith("*")
  );
  return handlers.at(-1)?.path;
}
