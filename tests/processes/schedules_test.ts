import { assertEquals } from "@std/assert";
import { type RunningApp, startApp } from "../../dev/harness/start_app.ts";
import { until } from "../../dev/harness/until.ts";
import { decodeValue } from "../../events/store/kv/value_codec.ts";
import { openEventStore } from "../../mod.ts";
import { withFolder } from "../_folder.ts";
import { testTwoDenos } from "../_other_deno.ts";
import { testWith } from "../_permissions.ts";
import { HOUR, HOUR_MS, schedulerOf } from "../events/schedules/_schedulers.ts";
import type { ScheduleProcess } from "./_schedules.ts";

const NEEDS = ["net", "read", "write", "run", "env"] as const;

function start(
  options: ScheduleProcess,
  env: Record<string, string> = {},
  deno?: string,
): RunningApp {
  const script = new URL("./_schedules.ts", import.meta.url);
  return startApp({ script, args: [JSON.stringify(options)], env, deno });
}

/** Begins the schedule before the first full hour, and gives the store to look into. */
async function begun(kv: Deno.Kv) {
  const store = await openEventStore(kv, { notifier: "watch" });
  await schedulerOf({ store }).scheduler.tick(HOUR - 1);
  return store;
}

const slotsOf = (...apps: readonly RunningApp[]) =>
  apps.flatMap(({ lines }) => lines.filter(({ message }) => message === "slot"))
    .map(({ id }) => String(id)).sort();

async function makeSameSlots(deno?: string): Promise<void> {
  await withFolder(async (folder) => {
    const path = `${folder}/kv.db`;
    using kv = await Deno.openKv(path);
    const store = await begun(kv);
    const ticks = Array.from({ length: 60 }, (_, i) => HOUR + i * HOUR_MS);
    await using first = start({ kv: path, ticks });
    await using second = start({ kv: path, ticks }, {}, deno);
    const isDone = async () => (await store.stats()).done === ticks.length;
    await until(isDone, 120_000);
    for (const app of [first, second]) await app.line(({ message }) => message === "ticked");
    const ids = ticks.map((tick) =>
      `schedule:digest:${new Date(tick).toISOString().slice(0, 19)}Z`
    );
    await until(() => slotsOf(first, second).length >= ids.length, 60_000);
    assertEquals(slotsOf(first, second), ids);
    assertEquals(
      [first, second].map((app) => app.count("cron schedule failed, to be tried again")),
      [
        0,
        0,
      ],
    );
  });
}

testWith(NEEDS, "two processes that make the same slots make one event of each", async () => {
  await makeSameSlots();
});

testTwoDenos(
  NEEDS,
  "two versions of Deno that make the same slots make one event of each",
  makeSameSlots,
);

testWith(
  NEEDS,
  "slots of a process that was killed before it had noted them are not made twice",
  async () => {
    await withFolder(async (folder) => {
      const path = `${folder}/kv.db`;
      using kv = await Deno.openKv(path);
      const store = await begun(kv);
      const now = HOUR + HOUR_MS;
      await using killed = start({ kv: path, ticks: [now], dies: true });
      await killed.process.status;
      assertEquals((await store.stats()).queued, 2);
      await using other = start({ kv: path, ticks: [now + 5_000, now + 15_000] });
      await other.line(({ message }) => message === "ticked");
      await until(async () => (await store.stats()).done === 2, 20_000);
      assertEquals(slotsOf(other).length, 2);
      const note = await kv.get(["events", "cron", "digest"]);
      const { at, making } = decodeValue(note.value)!.value as { at: number; making?: unknown };
      assertEquals([at, making], [now, undefined]);
    });
  },
);

testWith(NEEDS, "an app makes its slots by itself, at their time", async () => {
  await withFolder(async (folder) => {
    await using app = start({ kv: `${folder}/kv.db`, minuteInMs: 2_500 });
    // Of several, since a busy machine may be late with one.
    await app.line(({ message, lateMs }) => message === "slot" && Number(lateMs) < 1_500);
  });
});

for (const onDeploy of [true, false]) {
  const where = onDeploy ? "on Deno Deploy the cron finds" : "elsewhere no cron finds";
  testWith(NEEDS, `${where} a slot that no timer is set for`, async () => {
    await withFolder(async (folder) => {
      const ticking = { DENO_CRON_TEST_SCHEDULE_OFFSET: "100", NOTIFIER: "enqueue" };
      const env = onDeploy ? { ...ticking, DENO_DEPLOY: "true" } : ticking;
      const options = { kv: `${folder}/kv.db`, minuteInMs: 50_000, jumps: true };
      await using app = start(options, env);
      await app.line(({ message }) => message === "cron schedule begins");
      const found = until(() => app.count("slot") === 1, onDeploy ? 20_000 : 1_500);
      assertEquals(await found.then(() => true, () => false), onDeploy);
    });
  });
}
