/**
 * Asks GitHub to repeat deliveries that failed while your app was down, since it does not do so by
 * itself. The command `events catch-up` does the same.
 *
 * @example
 * ```ts
 * import { catchUp } from "@org/edge-base/catch-up";
 * import { openEventStore } from "@org/edge-base/events";
 * import { assertEquals } from "@std/assert";
 *
 * using kv = await Deno.openKv(":memory:");
 * const store = await openEventStore(kv);
 * // In an app: new Octokit({ auth: token }), or { token }.
 * const github = { request: () => Promise.resolve({ status: 200, headers: {}, data: [] }) };
 *
 * const { asked } = await catchUp(store, {
 *   hooks: [{ repository: "acme/site", id: 12345678 }],
 *   github,
 *   sinceMs: 2 * 3_600_000,
 * });
 * assertEquals(asked, []);
 * ```
 *
 * @module
 */
export { catchUp, type CatchUpResult } from "./catch_up.ts";
export type { CatchUpOptions } from "./options.ts";
