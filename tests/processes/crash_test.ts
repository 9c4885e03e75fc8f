import { assert, assertEquals, assertGreaterOrEqual } from "@std/assert";
import { openEventStore } from "../../mod.ts";
import { withFolder } from "../_folder.ts";
import { byLength } from "../_length.ts";
import { testWith } from "../_permissions.ts";
import { until } from "../../dev/harness/until.ts";
import { killSending, lostAndInvented } from "./_kills.ts";
import { startProcess } from "./_process.ts";

const NEEDS = ["net", "read", "write", "run", "env"] as const;

const KILLS = byLength(20, 3);
const ACKNOWLEDGED = byLength(20_000, 500);
const CONNECTIONS = 32;
const LEASE_MS = 2_000;

/** Kills apps under load, and checks that what they have acknowledged is done. */
async function killUnderLoad(kills: number, atLeast: number, groups?: number): Promise<void> {
  await withFolder(async (folder) => {
    const kvPath = `${folder}/kv.db`;
    const options = { kv: kvPath, leaseMs: LEASE_MS, groups };
    const [sent, acknowledged] = [new Set<string>(), new Set<string>()];
    for (let killed = 0; killed < kills || acknowledged.size < atLeast; killed++) {
      await killSending(options, sent, acknowledged, CONNECTIONS);
    }
    await using _app = await startProcess(options);
    using kv = await Deno.openKv(kvPath);
    const store = await openEventStore(kv, { notifier: "watch" });
    const { lost, invented, done } = await lostAndInvented(store, sent, acknowledged);
    assertEquals([lost, invented], [[], []]);
    assertGreaterOrEqual(done.length, atLeast);
    const together = done.some(({ handledWith }) => handledWith !== undefined);
    assertEquals(together, groups !== undefined);
  });
}

testWith(NEEDS, `no acknowledged event is lost over ${KILLS} kills under load`, async () => {
  await killUnderLoad(KILLS, ACKNOWLEDGED);
});

testWith(NEEDS, `no event that is handled with others is lost over ${KILLS} kills`, async () => {
  await killUnderLoad(KILLS, byLength(5_000, 300), 8);
});

testWith(NEEDS, "an event whose process was killed is taken over by another", async () => {
  await withFolder(async (folder) => {
    const options = { kv: `${folder}/kv.db`, leaseMs: LEASE_MS, handlerMs: 60_000 };
    await using first = await startProcess(options);
    assertEquals(await first.deliver("d1"), 200);
    await until(() => first.count("start", "d1") === 1, 20_000);
    await using second = await startProcess({ ...options, handlerMs: 0 });
    first.signal("SIGKILL");
    // Within the lease and one poll; the rest is what a busy machine takes.
    await until(() => second.count("end", "d1") === 1, LEASE_MS + 1_000 + 10_000);
  });
});

testWith(NEEDS, "a process that was frozen past its lease settles nothing", async () => {
  await withFolder(async (folder) => {
    const kvPath = `${folder}/kv.db`;
    await using frozen = await startProcess({ kv: kvPath, leaseMs: 3_000, handlerMs: 700 });
    assertEquals(await frozen.deliver("d1"), 200);
    await until(() => frozen.count("start", "d1") === 1, 20_000);
    // Frozen in the middle of a commit it would hold the lock of the file, and nobody could go on.
    await new Promise((resolve) => setTimeout(resolve, 300));
    frozen.signal("SIGSTOP");
    await using other = await startProcess({ kv: kvPath, leaseMs: 60_000, handlerMs: 3_000 });
    await until(() => other.count("start", "d1") === 1, 20_000);
    frozen.signal("SIGCONT");
    await until(() => frozen.count("end", "d1") === 1, 20_000);
    await until(
      () => frozen.lines.some(({ message }) => String(message).startsWith("lease ")),
      2_000,
    );
    using kv = await Deno.openKv(kvPath);
    const store = await openEventStore(kv, { notifier: "watch" });
    assertEquals((await store.get("forge:d1"))?.state, "running");
    await until(async () => (await store.get("forge:d1"))?.state === "done", 20_000);
    assertEquals([frozen.count("start"), other.count("start")], [1, 1]);
  });
});

testWith(NEEDS, "a second process that starts does not start what the first handles", async () => {
  await withFolder(async (folder) => {
    const options = { kv: `${folder}/kv.db`, leaseMs: 1_500, handlerMs: 4_000 };
    await using first = await startProcess(options);
    assertEquals(await first.deliver("d1"), 200);
    await until(() => first.count("start") === 1, 20_000);
    await using second = await startProcess(options);
    await until(() => first.count("end") === 1, 20_000);
    assertEquals(second.count("start"), 0);
    assert(first.count("abort") === 0);
  });
});
