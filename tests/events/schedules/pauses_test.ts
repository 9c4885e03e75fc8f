import { assertEquals, assertRejects } from "@std/assert";
import { pauseSchedule, resumeSchedule } from "../../../events/schedules/mod.ts";
import { listed } from "../store/_events.ts";
import { testStoreOnce } from "../store/contract/_contract.ts";
import { WallClock } from "../../_wall_clock.ts";
import { HOUR, HOUR_MS, schedulerOf } from "./_schedulers.ts";

const idOf = (hours: number) =>
  `schedule:digest:${new Date(HOUR + hours * HOUR_MS).toISOString().replace(".000", "")}`;

/** Sets the clock to some hours after the full one. */
const setTo = (clock: WallClock, hours: number) =>
  clock.advance(HOUR + hours * HOUR_MS - Date.now());

testStoreOnce("a schedule that is paused leaves its slots out, in all instances", async (sut) => {
  using clock = new WallClock();
  const counted: unknown[] = [];
  const [one, other] = [1, 2].map(() =>
    schedulerOf(sut, { missed: "all", count: (step) => void counted.push(step) })
  ) as [ReturnType<typeof schedulerOf>, ReturnType<typeof schedulerOf>];
  const tick = async (hours: number) => {
    setTo(clock, hours);
    await one.scheduler.tick(HOUR + hours * HOUR_MS);
    await other.scheduler.tick(HOUR + hours * HOUR_MS);
  };
  await tick(0);
  await tick(1);
  assertEquals(await pauseSchedule(sut.store, "digest", "Ada"), true);
  assertEquals(await pauseSchedule(sut.store, "digest", "Bob"), false);
  for (const hours of [2, 3]) await tick(hours);
  assertEquals(await listed(sut.store), [idOf(1)]);
  const said = [...one.logs, ...other.logs].filter(({ message }) =>
    message === "cron schedule is paused"
  );
  assertEquals(said.map(({ level, leftOut }) => [level, leftOut]), [["info", 1], ["info", 1]]);
  assertEquals(
    counted.slice(1),
    Array(2).fill({
      ...{ is: "slots", schedule: "digest", outcome: "left_out", count: 1 },
    }),
  );
  // A new instance, of another plan at that, is paused as well.
  const { scheduler } = schedulerOf(sut, { expression: "*/30 * * * *" });
  await scheduler.tick(HOUR + 3.1 * HOUR_MS);
  await scheduler.tick(HOUR + 3.6 * HOUR_MS);
  assertEquals(await listed(sut.store), [idOf(1)]);
  setTo(clock, 3.7);
  assertEquals(await resumeSchedule(sut.store, "digest"), true);
  assertEquals(await resumeSchedule(sut.store, "digest"), false);
  await scheduler.tick(HOUR + 4 * HOUR_MS);
  assertEquals(await listed(sut.store), [idOf(1), idOf(4)]);
});

testStoreOnce("what is left out while no instance runs is not made up later", async (sut) => {
  using clock = new WallClock();
  await schedulerOf(sut).scheduler.tick(HOUR);
  await pauseSchedule(sut.store, "digest");
  setTo(clock, 5.5);
  await resumeSchedule(sut.store, "digest");
  const { scheduler } = schedulerOf(sut, { missed: "all" });
  await scheduler.tick(HOUR + 5.6 * HOUR_MS);
  assertEquals(await listed(sut.store), []);
  await scheduler.tick(HOUR + 6 * HOUR_MS);
  assertEquals(await listed(sut.store), [idOf(6)]);
});

testStoreOnce(
  "only a schedule that the store knows, and can read, is paused",
  async ({ store }) => {
    await assertRejects(() => pauseSchedule(store, "digest"), RangeError, "knows no schedule");
    await store.scheduleNotes.write("digest", { plan: 5 }, null);
    await assertRejects(() => pauseSchedule(store, "digest"), Error, "another version wrote it");
  },
);

testStoreOnce(
  "a schedule is paused once the slot that is being made is noted",
  async ({ store }) => {
    const now = Date.now();
    const making = { owner: "o", until: now, since: now, firstTriedAt: now };
    const note = { plan: "0 * * * * UTC", at: now };
    const version = await store.scheduleNotes.write("digest", { ...note, making }, null);
    const pausing = pauseSchedule(store, "digest");
    await store.scheduleNotes.write("digest", note, version);
    assertEquals(await pausing, true);
    const { value } = await store.scheduleNotes.read("digest");
    assertEquals(Object.keys(value as object).sort(), ["at", "paused", "plan"]);
  },
);
