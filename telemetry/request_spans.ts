import type { Context, MiddlewareHandler } from "@hono/hono";
import type { Telemetry } from "./telemetry.ts";

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
