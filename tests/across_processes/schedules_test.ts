import { assertEquals } from "@std/assert";
import { type RunningApp, startApp } from "../../dev/harness/start_app.ts";
import { until } from "../../dev/harness/until.ts";
import { HOUR, HOUR_MS, schedulerOf } from "../events/schedules/_schedulers.ts";
import { KV } from "../events/store/engines/kv.ts";
import type { ScheduleProcess } from "./_schedules.ts";
import { type SharedStore, testShared, testTwoDenos } from "./_shared.ts";

function start(
  { at, place }: SharedStore,
  options: Omit<ScheduleProcess, "at" | "path">,
  env: Record<string, string> = {},
  deno?: string,
): RunningApp {
  const script = new URL("./_schedules.ts", import.meta.url);
  const args = [JSON.stringify({ ...options, at, path: place.path! } satisfies ScheduleProcess)];
  return startApp({ script, args, env, deno });
}

/** Begins the schedule before the first full hour, and gives the store to look into. */
async function begun({ place }: SharedStore) {
  const store = await place.open();
  await schedulerOf({ store }).scheduler.tick(HOUR - 1);
  return store;
}

const slotsOf = (...apps: readonly RunningApp[]) =>
  apps.flatMap(({ lines }) => lines.filter(({ message }) => message === "slot"))
    .map(({ id }) => String(id)).sort();

async function makeSameSlots(shared: SharedStore, deno?: string): Promise<void> {
  const store = await begun(shared);
  const ticks = Array.from({ length: 60 }, (_, i) => HOUR + i * HOUR_MS);
  await using first = start(shared, { ticks });
  await using second = start(shared, { ticks }, {}, deno);
  const isDone = async () => (await store.stats()).done === ticks.length;
  await until(isDone, 120_000);
  for (const app of [first, second]) await app.line(({ message }) => message === "ticked");
  const ids = ticks.map((tick) => `schedule:digest:${new Date(tick).toISOString().slice(0, 19)}Z`);
  await until(() => slotsOf(first, second).length >= ids.length, 60_000);
  assertEquals(slotsOf(first, second), ids);
  const failures = [first, second].map((app) =>
    app.count("cron schedule failed, to be tried again")
  );
  assertEquals(failures, [0, 0]);
}

testShared(
  "two processes that make the same slots make one event of each",
  (shared) => makeSameSlots(shared),
);

testTwoDenos(
  "two versions of Deno that make the same slots make one event of each",
  makeSameSlots,
);

testShared(
  "slots of a process that was killed before it had noted them are not made twice",
  async (shared) => {
    const store = await begun(shared);
    const now = HOUR + HOUR_MS;
    await using killed = start(shared, { ticks: [now], dies: true });
    await killed.process.status;
    assertEquals((await store.stats()).queued, 2);
    await using other = start(shared, { ticks: [now + 5_000, now + 15_000] });
    await other.line(({ message }) => message === "ticked");
    await until(async () => (await store.stats()).done === 2, 20_000);
    assertEquals(slotsOf(other).length, 2);
    const { value } = await store.scheduleNotes.read("digest");
    const { at, making } = value as { at: number; making?: unknown };
    assertEquals([at, making], [now, undefined]);
  },
);

testShared("an app makes its slots by itself, at their time", async (shared) => {
  await using app = start(shared, { minuteInMs: 2_500 });
  // Of several, since a busy machine may be late with one.
  await app.line(({ message, lateMs }) => message === "slot" && Number(lateMs) < 1_500);
});

/** Runs an app whose slot no timer is set for, and tells whether the cron of the platform finds it. */
async function isFoundByCron(shared: SharedStore, isOnDeploy: boolean): Promise<boolean> {
  const ticking = { DENO_CRON_TEST_SCHEDULE_OFFSET: "100", NOTIFIER: "enqueue" };
  const env = isOnDeploy ? { ...ticking, DENO_DEPLOY: "true" } : ticking;
  await using app = start(shared, { minuteInMs: 50_000, jumps: true }, env);
  await app.line(({ message }) => message === "cron schedule begins");
  const found = until(() => app.count("slot") === 1, isOnDeploy ? 20_000 : 1_500);
  return await found.then(() => true, () => false);
}

testShared("on Deno Deploy the cron finds a slot that no timer is set for", async (shared) => {
  assertEquals(await isFoundByCron(shared, true), true);
}, { isOf: (engine) => engine === KV.name });

testShared("elsewhere no cron finds a slot that no timer is set for", async (shared) => {
  assertEquals(await isFoundByCron(shared, false), false);
});
