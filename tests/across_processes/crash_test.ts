import { assert, assertEquals, assertGreaterOrEqual } from "@std/assert";
import { byLength } from "../_length.ts";
import { until } from "../../dev/harness/until.ts";
import { killSending, lostAndInvented } from "./_kills.ts";
import { startProcess } from "./_process.ts";
import { type SharedStore, testShared } from "./_shared.ts";

const KILLS = byLength(20, 3);
const ACKNOWLEDGED = byLength(20_000, 500);
const CONNECTIONS = 32;
const LEASE_MS = 2_000;

/** Kills apps under load, and checks that what they have acknowledged is done. */
async function killUnderLoad(
  { at, place, kills, atLeast, groups }: Pick<SharedStore, "at" | "place"> & {
    readonly kills: number;
    readonly atLeast: number;
    readonly groups?: number;
  },
): Promise<void> {
  const options = { at, leaseMs: LEASE_MS, groups };
  const [sent, acknowledged] = [new Set<string>(), new Set<string>()];
  for (let killed = 0; killed < kills; killed++) {
    const missing = Math.max(0, atLeast - acknowledged.size);
    await killSending(options, sent, acknowledged, CONNECTIONS, missing / (kills - killed));
  }
  await using _app = await startProcess(options);
  const { lost, invented, done } = await lostAndInvented(await place.open(), sent, acknowledged);
  assertEquals([lost, invented], [[], []]);
  assertGreaterOrEqual(done.length, atLeast);
  const together = done.some(({ handledWith }) => handledWith !== undefined);
  assertEquals(together, groups !== undefined);
}

testShared(
  `no acknowledged event is lost over ${KILLS} kills under load`,
  async ({ at, place }) => {
    await killUnderLoad({ at, place, kills: KILLS, atLeast: ACKNOWLEDGED });
  },
);

testShared(
  `no event that is handled with others is lost over ${KILLS} kills`,
  async ({ at, place }) => {
    await killUnderLoad({ at, place, kills: KILLS, atLeast: byLength(5_000, 300), groups: 8 });
  },
);

testShared("an event whose process was killed is taken over by another", async ({ at }) => {
  const options = { at, leaseMs: LEASE_MS, handlerMs: 60_000 };
  await using first = await startProcess(options);
  assertEquals(await first.deliver("d1"), 200);
  await until(() => first.count("start", "d1") === 1, 20_000);
  await using second = await startProcess({ ...options, handlerMs: 0 });
  first.signal("SIGKILL");
  // Within the lease, and 15 s in a KV: a SQLite file tells what others write. The rest is what a busy machine takes.
  const pollMs = at.engine === "sqlite" ? 1_000 : 15_000;
  await until(() => second.count("end", "d1") === 1, LEASE_MS + pollMs + 10_000);
});

testShared("a process that was frozen past its lease settles nothing", async ({ at, place }) => {
  await using frozen = await startProcess({ at, leaseMs: 3_000, handlerMs: 700 });
  assertEquals(await frozen.deliver("d1"), 200);
  await until(() => frozen.count("start", "d1") === 1, 20_000);
  // Frozen in the middle of a commit it would hold the lock of the file, and nobody could go on.
  await new Promise((resolve) => setTimeout(resolve, 300));
  frozen.signal("SIGSTOP");
  await using other = await startProcess({ at, leaseMs: 60_000, handlerMs: 3_000 });
  await until(() => other.count("start", "d1") === 1, 20_000);
  frozen.signal("SIGCONT");
  await until(() => frozen.count("end", "d1") === 1, 20_000);
  await until(
    () => frozen.lines.some(({ message }) => String(message).startsWith("lease ")),
    2_000,
  );
  const store = await place.open();
  assertEquals((await store.get("forge:d1"))?.state, "running");
  await until(async () => (await store.get("forge:d1"))?.state === "done", 20_000);
  assertEquals([frozen.count("start"), other.count("start")], [1, 1]);
});

testShared(
  "a second process that starts does not start what the first handles",
  async ({ at }) => {
    const options = { at, leaseMs: 1_500, handlerMs: 4_000 };
    await using first = await startProcess(options);
    assertEquals(await first.deliver("d1"), 200);
    await until(() => first.count("start") === 1, 20_000);
    await using second = await startProcess(options);
    await until(() => first.count("end") === 1, 20_000);
    assertEquals(second.count("start"), 0);
    assert(first.count("abort") === 0);
  },
);
