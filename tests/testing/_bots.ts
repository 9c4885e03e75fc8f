import { type App, defineApp, forge, messenger, type WorkerOptions } from "../../mod.ts";
import type { ForgeOptions, MessengerOptions } from "../../webhook/mod.ts";
import type { KvHandler } from "../_kv_handlers.ts";

/** Options of the app that {@linkcode botOf} defines. */
export interface BotOptions {
  readonly forge?: ForgeOptions;
  readonly messenger?: MessengerOptions;
  readonly worker?: WorkerOptions;
}

/** Defines an app with both platforms, whose events all go to one handler. */
export function botOf(handler: KvHandler, options: BotOptions = {}): App {
  const app = defineApp({
    name: "bot",
    platform: forge<object>(options.forge),
    worker: options.worker,
  });
  app.onAny(handler);
  app.from(messenger<object>({ path: "/messenger", ...options.messenger })).onAny(handler);
  return app;
}
