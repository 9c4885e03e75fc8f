/**
 * A base for bots and agents on the edge: a Hono app with the standard middleware and health probes,
 * and a webhook intake that proves a platform's deliveries genuine, stores them durably in Deno KV,
 * answers within milliseconds, and hands them to your handler.
 *
 * @example
 * ```ts
 * import { createBaseApp, createForgeIntake, openEventStore, startWorker } from "@org/edge-base";
 * import { assertEquals } from "@std/assert";
 *
 * using kv = await Deno.openKv(":memory:");
 * const store = await openEventStore(kv);
 *
 * const app = createBaseApp({ name: "my-bot", logger: false });
 * app.route("/", createForgeIntake({ secrets: ["It's a Secret to Everybody"], store }));
 *
 * const worker = startWorker(store, (event) => console.log(event.type, event.payload));
 * // Deno.serve(bindEnv(app, {}));
 *
 * assertEquals((await app.request("/health/ready")).status, 200);
 * await worker.stop();
 * ```
 *
 * @module
 */
export * from "./events/mod.ts";
export type { AppContext, AppHandler, RunAppOptions } from "./app/app_options.ts";
export {
  type AppVariables,
  type ForgeSecrets,
  readAllowedUsers,
  readForgeSecrets,
  readInteger,
  readNotifier,
  readSecrets,
  readTokens,
  VariableError,
} from "./app/app_variables.ts";
export {
  type AppOptions,
  type BaseEnv,
  type BindableApp,
  bindEnv,
  createBaseApp,
} from "./app/base_app.ts";
export * from "./health/mod.ts";
export * from "./middleware/mod.ts";
export { runApp } from "./app/run_app.ts";
export * from "./telemetry/mod.ts";
export * from "./webhook/mod.ts";
