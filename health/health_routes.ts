import { type Context, Hono } from "@hono/hono";
import { checkFunction, checkOptions } from "../core/check_options.ts";
import { unavailable } from "../core/http_error.ts";

/** Seconds until an orchestrator should probe again: Kubernetes probes every 10 s. */
const RETRY_AFTER_SECONDS = 10;

/**
 * Creates the health routes: `GET /health` reports `status`, `name`, `version` and `timestamp`;
 * `GET /health/live` and `GET /health/ready` are the probes, with `status` alone. `/health` and
 * `/health/live` do no I/O.
 *
 * @param name The app's name.
 * @param version The app's version.
 * @param options The readiness check.
 * @returns The routes, to mount with `app.route("/", ...)`, before a rate limiter and authentication.
 *
 * @example
 * ```ts
 * import { Hono } from "@hono/hono";
 * import { healthRoutes } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * const app = new Hono().route("/", healthRoutes("my-bot", "2.1.0"));
 *
 * const response = await app.request("/health");
 * const { status, name, version } = await response.json();
 * assertEquals({ status, name, version }, { status: "ok", name: "my-bot", version: "2.1.0" });
 * ```
 *
 * @category Composing by hand
 */
export function healthRoutes(
  name: string,
  version: string = "1.0.0",
  options: {
    /**
     * Checks that the instance can take requests, at each readiness probe. If it throws or rejects,
     * `/health/ready` answers 503 and the orchestrator stops sending traffic.
     *
     * @default {undefined} The instance is always ready.
     */
    readonly ready?: (() => void | Promise<void>) | undefined;
  } = {},
): Hono {
  checkOptions("create the health routes", options, { ready: checkFunction });
  const { ready } = options;
  const probe = { status: "ok" };
  const routes = new Hono();
  const report = () => ({ status: "ok", name, version, timestamp: new Date().toISOString() });
  routes.get("/health", (c: Context) => c.json(report()));
  routes.get("/health/live", (c: Context) => c.json(probe));
  routes.get("/health/ready", async (c: Context) => {
    try {
      await ready?.();
    } catch (cause) {
      throw unavailable("NOT_READY", RETRY_AFTER_SECONDS, cause);
    }
    return c.json(probe);
  });
  return routes;
}
