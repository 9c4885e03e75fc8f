/**
 * A version of a bot in a process of its own. Its arguments are the types of events that it handles. It logs each
 * event that is handled. The variable STORE names its engine.
 */
import { defineApp, forge, runApp } from "../../mod.ts";
import { writeLog } from "../../core/mod.ts";
import { STORES } from "../_stores.ts";

const bot = defineApp({
  name: "rolling",
  version: Deno.args.join("+"),
  platform: forge(),
  store: STORES[Deno.env.get("STORE")!]!(),
  worker: { leaseMs: 5_000 },
});
for (const type of Deno.args as ["push"]) {
  bot.on(type, ({ id, attempt }, { log }) => writeLog(log, "info", "handled", { id, attempt }));
}

await runApp(bot);
