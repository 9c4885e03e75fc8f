/**
 * The event store, and the worker that hands events to their handlers. An app of `defineApp` has both. You
 * need this entry point to put them together yourself, to move events to another store, or for the types of
 * records and handlers.
 *
 * @example
 * ```ts
 * import { openEventStore, startWorker } from "@org/edge-base/events";
 * import { assertEquals } from "@std/assert";
 *
 * using kv = await Deno.openKv(":memory:");
 * const store = await openEventStore(kv);
 * const handled = Promise.withResolvers<string>();
 * const worker = startWorker(store, (event) => handled.resolve(event.type));
 *
 * const payload = { action: "opened" };
 * await store.accept({
 *   platform: "forge",
 *   source: "github",
 *   type: "issues",
 *   deliveryId: "72d3162e-cc78-11e3-81ab-4c9367dc0958",
 *   body: new TextEncoder().encode(JSON.stringify(payload)),
 *   payload,
 * });
 * assertEquals(await handled.promise, "issues");
 * await worker.stop();
 * ```
 *
 * @module
 */
export * from "./router/mod.ts";
export * from "./store/kv/mod.ts";
export * from "./store/mod.ts";
export * from "./store/sqlite/mod.ts";
export * from "./worker/mod.ts";
export { type LimitedAnswer, retryAtOf } from "../core/retry_at.ts";

// Types from other folders that appear in the exports above.
export type { JsonObject } from "../core/parse_json.ts";
export type { LogLevel, LogRecord, LogSink } from "../core/mod.ts";
export type { Attempt, CountedStep, Telemetry } from "../telemetry/mod.ts";
