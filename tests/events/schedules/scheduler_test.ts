import { assertEquals } from "@std/assert";
import { claimAll, claimOne, listed } from "../store/_events.ts";
import { memoryStore, testStore } from "../store/kv/_stores.ts";
import { testStoreOnce } from "../store/contract/_contract.ts";
import { HOUR, HOUR_MS, schedulerOf } from "./_schedulers.ts";
import { valueAt } from "../store/kv/_values.ts";

const idOf = (hour: number) =>
  `schedule:digest:${new Date(hour).toISOString().replace(".000", "")}`;

const messages = (logs: readonly { readonly message: string }[]) =>
  logs.map(({ message }) => message);

testStore(
  "a schedule makes one event of each slot, whose worker gets them in order",
  async (sut) => {
    const { scheduler } = schedulerOf(sut);
    await scheduler.tick(HOUR - 1);
    assertEquals(await listed(sut.store), []);
    for (const minutes of [0, 30, 60, 61]) await scheduler.tick(HOUR + minutes * 60_000);
    assertEquals(await listed(sut.store), [idOf(HOUR), idOf(HOUR + HOUR_MS)]);
    const lease = await claimOne(sut.store);
    const { id, type, platform, source, intake, orderingKey } = lease.record;
    assertEquals([id, type, platform], [idOf(HOUR), "digest", "schedule"]);
    assertEquals([source, intake, orderingKey], ["schedule", "schedule", "digest"]);
    const payload = { name: "digest", at: "2026-11-23T10:00:00Z", madeUp: false };
    assertEquals(JSON.parse(new TextDecoder().decode(await sut.store.load(lease))), payload);
    assertEquals(await claimAll(sut.store), []);
    await sut.store.complete(lease);
    assertEquals((await claimOne(sut.store)).record.id, idOf(HOUR + HOUR_MS));
  },
);

testStore("slots are left out while one is handled and the next waits", async (sut) => {
  const { scheduler, logs } = schedulerOf(sut);
  const tick = (hours: number) => scheduler.tick(HOUR + hours * HOUR_MS);
  await scheduler.tick(HOUR - 1);
  await tick(0);
  const slow = await claimOne(sut.store);
  for (const hours of [1, 2, 3]) await tick(hours);
  const ids = (...hours: number[]) => hours.map((each) => idOf(HOUR + each * HOUR_MS));
  assertEquals(await listed(sut.store), ids(0, 1));
  const [begins, ...rest] = logs;
  assertEquals(begins?.message, "cron schedule begins");
  assertEquals(rest.map(({ level, message, leftOut }) => [level, message, leftOut]), [
    ["warn", "cron schedule is slow", 1],
    ["warn", "cron schedule is slow", 1],
  ]);
  // Another instance goes by what the note says.
  await sut.store.retry(slow, 0, new Error("no"));
  await schedulerOf(sut).scheduler.tick(HOUR + 4 * HOUR_MS);
  assertEquals(await listed(sut.store), ids(0, 1));
  await sut.store.complete(await claimOne(sut.store));
  await tick(5);
  await claimOne(sut.store);
  await tick(6);
  assertEquals(await listed(sut.store), ids(0, 1, 5));
});

testStoreOnce("no slot is left out of a schedule whose slots all count", async (sut) => {
  const { scheduler } = schedulerOf(sut, { missed: "all" });
  await scheduler.tick(HOUR - 1);
  await scheduler.tick(HOUR);
  await claimOne(sut.store);
  for (const hours of [1, 2, 3]) await scheduler.tick(HOUR + hours * HOUR_MS);
  assertEquals((await listed(sut.store)).length, 4);
});

testStoreOnce("slots are made while nobody begins one: no worker may run", async (sut) => {
  const { scheduler } = schedulerOf(sut);
  await scheduler.tick(HOUR - 1);
  for (const hours of [0, 1, 2]) await scheduler.tick(HOUR + hours * HOUR_MS);
  assertEquals((await listed(sut.store)).length, 3);
});

testStoreOnce(
  "slots that nobody begins pile up to ten, and are less before there are more",
  async (sut) => {
    const { scheduler } = schedulerOf(sut);
    const idsOf = (hours: readonly number[]) => hours.map((each) => idOf(HOUR + each * HOUR_MS));
    const made = Array.from({ length: 10 }, (_, i) => i);
    await scheduler.tick(HOUR - 1);
    for (let i = 0; i < 13; i++) await scheduler.tick(HOUR + i * HOUR_MS);
    assertEquals(await listed(sut.store), idsOf(made));
    const lease = await claimOne(sut.store);
    await scheduler.tick(HOUR + 13 * HOUR_MS);
    assertEquals(await listed(sut.store), idsOf(made));
    await sut.store.complete(lease);
    for (const hours of [14, 15]) await scheduler.tick(HOUR + hours * HOUR_MS);
    assertEquals(await listed(sut.store), idsOf([...made, 14]));
  },
);

testStore("many instances make each slot once", async (sut) => {
  const schedulers = Array.from({ length: 5 }, () => schedulerOf(sut));
  const tick = (now: number) => Promise.all(schedulers.map(({ scheduler }) => scheduler.tick(now)));
  await tick(HOUR - 1);
  for (let i = 0; i < 5; i++) await tick(HOUR + i * HOUR_MS);
  assertEquals((await listed(sut.store)).length, 5);
  const logs = schedulers.flatMap(({ logs }) => messages(logs));
  assertEquals(logs, ["cron schedule begins"]);
});

testStore("missed slots are made up after a restart, and logged", async (sut) => {
  await schedulerOf(sut).scheduler.tick(HOUR);
  const { scheduler, logs } = schedulerOf(sut, { missed: "all" });
  await scheduler.tick(HOUR + 3 * HOUR_MS + 600_000);
  const ids = [1, 2, 3].map((hours) => idOf(HOUR + hours * HOUR_MS));
  assertEquals(await listed(sut.store), ids);
  const [{ message, level, schedule, madeUp, leftOut }] = logs as [typeof logs[number]];
  assertEquals([message, level], ["cron schedule had missed slots", "info"]);
  assertEquals([schedule, madeUp, leftOut], ["digest", 3, 0]);
  const lease = await claimOne(sut.store);
  const payload = JSON.parse(new TextDecoder().decode(await sut.store.load(lease)));
  assertEquals([lease.record.id, payload.madeUp], [ids[0], true]);
});

testStore(
  "an instance that died between the events and the note repeats none of them",
  async (sut) => {
    await schedulerOf(sut).scheduler.tick(HOUR - 1);
    const notes = sut.store.scheduleNotes;
    const { value, version } = await notes.read("digest");
    const died = schedulerOf(sut, { missed: "all" });
    await died.scheduler.tick(HOUR + HOUR_MS);
    // As it was before the last write: it makes slots, and they are not made yet.
    const since = HOUR + HOUR_MS;
    const making = { owner: "died", until: since, since, firstTriedAt: since };
    const { version: last } = await notes.read("digest");
    await notes.write("digest", { ...value as object, making }, last);
    // One event has died meanwhile: the same delivery would bring it back.
    await sut.store.bury(await claimOne(sut.store), new Error("no"));
    const { scheduler } = schedulerOf(sut, { missed: "all" });
    await scheduler.tick(since + 1_000);
    assertEquals((await notes.read("digest")).value, { ...value as object, making });
    await scheduler.tick(since + 11_000);
    assertEquals(await listed(sut.store, { state: "dead" }), [idOf(HOUR)]);
    assertEquals(await listed(sut.store), [idOf(HOUR), idOf(HOUR + HOUR_MS)]);
    const latest = [HOUR, HOUR + HOUR_MS];
    assertEquals((await notes.read("digest")).value, { ...value as object, at: since, latest });
    assertEquals(version === last, false);
  },
);

testStore("a note is written by one of two that read it", async ({ kv, store }) => {
  const notes = store.scheduleNotes;
  assertEquals(await notes.read("a"), { value: undefined, version: null });
  const first = await notes.write("a", 1, null);
  assertEquals(await notes.write("a", 2, null), null);
  assertEquals(await notes.read("a"), { value: 1, version: first });
  assertEquals(await notes.write("a", 2, first) === null, false);
  assertEquals(await valueAt(kv, ["events", "cron", "a"]), 2);
});

testStoreOnce(
  "a hundred slots are made up in parts, of which none is repeated after a failure",
  async (sut) => {
    await schedulerOf(sut).scheduler.tick(HOUR);
    let stored = 0;
    const accept: typeof sut.store.accept = (...args) =>
      ++stored === 35 ? Promise.reject(new Error("full")) : sut.store.accept(...args);
    const { scheduler, logs } = schedulerOf({ ...sut, store: { ...sut.store, accept } }, {
      missed: "all",
    });
    const now = HOUR + 500 * HOUR_MS;
    await scheduler.tick(now);
    assertEquals((await listed(sut.store)).length, 34);
    const counts = () => logs.map(({ madeUp, leftOut }) => [madeUp, leftOut]);
    assertEquals(counts()[0], [30, 400]);
    await scheduler.tick(now + 1_000);
    assertEquals([(await listed(sut.store)).length, stored], [100, 101]);
    // The last one is on time.
    assertEquals(counts().at(-1), [69, 0]);
    const { value } = await sut.store.scheduleNotes.read("digest");
    assertEquals((value as { at: number }).at, now);
  },
);

testStoreOnce(
  "a clock that is set back makes no slot twice, and one that was ahead stops no schedule",
  async (sut) => {
    const { scheduler, logs } = schedulerOf(sut);
    await scheduler.tick(HOUR - 1);
    for (const hours of [0, 1, 2, 0.5, 1, 2, 3]) await scheduler.tick(HOUR + hours * HOUR_MS);
    const ids = [0, 1, 2, 3].map((hours) => idOf(HOUR + hours * HOUR_MS));
    assertEquals(await listed(sut.store), ids);
    // A year ahead, and back: one event comes of it.
    await scheduler.tick(HOUR + 8_760 * HOUR_MS);
    assertEquals((await listed(sut.store)).length, 5);
    for (const hours of [3.5, 4, 5]) await scheduler.tick(HOUR + hours * HOUR_MS);
    assertEquals((await listed(sut.store)).length, 7);
    const warned = logs.filter(({ level }) => level === "warn");
    assertEquals(messages(warned), Array(2).fill("cron schedule begins again: a clock was ahead"));
  },
);

testStoreOnce(
  "two versions with other expressions make their slots beside each other",
  async (sut) => {
    const old = schedulerOf(sut);
    await old.scheduler.tick(HOUR - 1);
    const young = schedulerOf(sut, { expression: "*/20 * * * *" });
    for (let minutes = 0; minutes <= 120; minutes += 10) {
      await young.scheduler.tick(HOUR + minutes * 60_000);
      await old.scheduler.tick(HOUR + minutes * 60_000);
    }
    // It began at 10:00, which the old version has made; a time of both is one event.
    assertEquals((await listed(sut.store)).length, 7);
    const begun = [old, young].flatMap(({ logs }) => messages(logs));
    assertEquals(begun, ["cron schedule begins", "cron schedule begins"]);
  },
);

testStoreOnce(
  "a schedule whose expression was changed makes none of its past slots",
  async (sut) => {
    await schedulerOf(sut).scheduler.tick(HOUR);
    const { scheduler } = schedulerOf(sut, { expression: "*/5 * * * *", missed: "all" });
    await scheduler.tick(HOUR + 24 * HOUR_MS + 1);
    assertEquals(await listed(sut.store), []);
    await scheduler.tick(HOUR + 24 * HOUR_MS + 300_000);
    assertEquals((await listed(sut.store)).length, 1);
  },
);

testStoreOnce("a slot that cannot be stored is logged, and made at the next tick", async (sut) => {
  let isBroken = true;
  const accept: typeof sut.store.accept = (...args) =>
    isBroken ? Promise.reject(new Error("full")) : sut.store.accept(...args);
  const { scheduler, logs } = schedulerOf({ ...sut, store: { ...sut.store, accept } });
  await scheduler.tick(HOUR - 1);
  await scheduler.tick(HOUR);
  const { message, level, schedule, error } = logs.at(-1)!;
  assertEquals([message, level], ["cron schedule failed, to be tried again", "error"]);
  assertEquals([schedule, (error as Error).message], ["digest", "full"]);
  isBroken = false;
  await scheduler.tick(HOUR + 1_000);
  assertEquals(await listed(sut.store), [idOf(HOUR)]);
});

Deno.test("a scheduler whose KV is closed says so once, and ends", async () => {
  await using sut = await memoryStore();
  const { scheduler, logs } = schedulerOf(sut);
  sut.kv.close();
  scheduler.start();
  await scheduler.tick();
  await scheduler.tick();
  assertEquals(messages(logs), ["cron schedule failed, to be tried again"]);
});

testStoreOnce("between two slots nothing is read", async (sut) => {
  let reads = 0;
  const { scheduleNotes: notes } = sut.store;
  const read: typeof notes.read = (name) => (reads++, notes.read(name));
  const store = { ...sut.store, scheduleNotes: { ...notes, read } };
  const { scheduler } = schedulerOf({ store });
  await scheduler.tick(HOUR);
  reads = 0;
  for (let minutes = 1; minutes < 60; minutes++) await scheduler.tick(HOUR + minutes * 60_000);
  assertEquals(reads, 0);
  await scheduler.tick(HOUR + HOUR_MS);
  assertEquals(reads, 1);
});
