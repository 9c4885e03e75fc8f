/**
 * Web page of an app, the console: it shows what the app has received and what became of that, and operators
 * replay, cancel and purge events there. It is absent unless a token for it is set.
 *
 * @example
 * ```ts
 * import { defineApp, github, sqlite } from "@org/edge-base";
 * import { consoleMount } from "@org/edge-base/console";
 *
 * const mounts = [consoleMount()];
 * const bot = defineApp({ name: "my-bot", platform: github(), store: sqlite(), mounts });
 * // CONSOLE_OPERATOR_TOKEN=$(openssl rand -hex 32) deno run ...
 * ```
 *
 * @module
 */
export { consoleMount } from "./console_mount.ts";
export { type ConsoleOptions, createConsole } from "./create_console.ts";

// Types from other folders that appear in the exports above.
export type { Mount, MountParts, OpenedMount } from "../app/mounts.ts";
export type { EventStore } from "../events/mod.ts";
export type { LogSink } from "../core/mod.ts";
export type { Telemetry } from "../telemetry/mod.ts";
