/**
 * Schedules in a process of its own. Its argument is JSON, see `ScheduleProcess`. It logs each slot that is
 * handled.
 */
import { consoleSink, defineApp, github, openApp, startWorker } from "../../mod.ts";
import { writeLog } from "../../core/mod.ts";
import { loadCron, Scheduler } from "../../events/schedules/mod.ts";
import { TestClock } from "../../testing/_test_clock.ts";
import { envOf, STORES } from "../_stores.ts";
import { openAt } from "../events/store/engines/mod.ts";
import type { StoreAddress } from "../events/store/engines/_engine.ts";

/** Options of the process. */
export interface ScheduleProcess {
  readonly at: StoreAddress;
  /** Path or URL of its database. */
  readonly path: string;
  /** Makes it an app with a schedule of each minute, whose clock reaches a full one in so many milliseconds. */
  readonly minuteInMs?: number;
  /** Makes the app's clock pass that minute once it is open, so that no timer is set for it. */
  readonly jumps?: boolean;
  /** Makes it tick at each of these times, without an app. */
  readonly ticks?: readonly number[];
  /** Makes it kill itself after the events of a tick are stored, and before that is noted. */
  readonly dies?: boolean;
}

const options: ScheduleProcess = JSON.parse(Deno.args[0]!);

const log = (message: string, fields: Record<string, unknown>) =>
  writeLog(consoleSink, "info", message, fields);

if (options.minuteInMs === undefined) await tickAll(options);
else await runApp(options, options.minuteInMs);

async function runApp({ at, path, jumps }: ScheduleProcess, minuteInMs: number): Promise<void> {
  const now = Date.now();
  const clock = new TestClock();
  clock.advance(60_000 - now % 60_000 + 60_000 - minuteInMs);
  const bot = defineApp({ name: "events", platform: github(), store: STORES[at.engine]!() });
  bot.schedule("digest", "* * * * *", ({ payload }) => {
    log("slot", { id: payload.at, lateMs: Date.now() - Date.parse(payload.at) });
  });
  const secret = { GITHUB_WEBHOOK_SECRET: "It's a Secret to Everybody" };
  const env = { ...secret, ...Deno.env.toObject(), ...envOf(path) };
  const app = await openApp(bot, { env, log: consoleSink });
  if (!jumps) return;
  // Begun, with the timer set.
  while ((await app.store.scheduleNotes.read("digest")).value === undefined);
  await new Promise((resolve) => setTimeout(resolve, 200));
  clock.advance(minuteInMs);
}

async function tickAll({ at, ticks = [], dies }: ScheduleProcess): Promise<void> {
  const { store } = await openAt(at);
  const times = (await loadCron())("test", "0 * * * *", "UTC");
  const schedule = { name: "digest", expression: "0 * * * *", timeZone: "UTC", times };
  const { scheduleNotes: notes } = store;
  let writes = 0;
  const write: typeof notes.write = (...args) => {
    if (dies && ++writes === 2) Deno.kill(Deno.pid, "SIGKILL");
    return notes.write(...args);
  };
  const scheduleNotes = { ...notes, write };
  const scheduler = new Scheduler({
    ...{ schedules: [{ ...schedule, missed: "all" }], store: { ...store, scheduleNotes } },
    log: consoleSink,
  });
  if (!dies) startWorker(store, ({ id }) => log("slot", { id }), { log: () => {} });
  for (const tick of ticks) await scheduler.tick(tick);
  log("ticked", {});
}
