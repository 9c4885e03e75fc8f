/**
 * The routes `/health`, `/health/live` and `/health/ready`, for orchestrators and monitors. An app of
 * `defineApp` or `createBaseApp` has them. Use them here to add them to another Hono app.
 *
 * @example
 * ```ts
 * import { Hono } from "@hono/hono";
 * import { errorHandler } from "@org/edge-base/middleware";
 * import { healthRoutes } from "@org/edge-base/health";
 * import { assertEquals } from "@std/assert";
 *
 * const database = { connected: false };
 * const app = new Hono();
 * app.onError(errorHandler);
 * app.route(
 *   "/",
 *   healthRoutes("my-bot", "2.1.0", {
 *     ready: () => {
 *       if (!database.connected) throw new Error("The database is not connected");
 *     },
 *   }),
 * );
 *
 * assertEquals((await app.request("/health/live")).status, 200);
 * assertEquals((await app.request("/health/ready")).status, 503);
 * database.connected = true;
 * assertEquals((await app.request("/health/ready")).status, 200);
 * ```
 *
 * @module
 */
export { healthRoutes } from "./health_routes.ts";
