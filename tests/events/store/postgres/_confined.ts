/** Opens an app on the database that its variables name, and stores an event. */
import { defineApp, forge, openApp } from "../../../../mod.ts";
import { postgres } from "../../../../events/store/postgres/mod.ts";

const bot = defineApp({ name: "bot", platform: forge(), store: postgres() });
try {
  await using app = await openApp(bot, { log: () => {} });
  console.log((await app.store.emit("jobs", "made", {}, { id: "1" })).id);
} catch (error) {
  console.log((error as Error).message);
}
Deno.exit(0);
