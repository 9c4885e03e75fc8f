/** Bot of the demo, as its user writes one: its events are in a SQLite file. */
import { defineApp, forge, runApp, sqlite } from "../../mod.ts";

const bot = defineApp({ name: "bot", platform: forge(), store: sqlite() });

bot.onAny(() => {});

if (import.meta.main) await runApp(bot);
