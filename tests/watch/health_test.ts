import { assertEquals, assertMatch } from "@std/assert";
import { type EventStore, openEventStore, startWorker } from "../../events/mod.ts";
import { type Health, HealthReader, wrongIn } from "../../watch/health.ts";
import type { RecentActivity } from "../../watch/activity.ts";
import { WallClock } from "../_wall_clock.ts";
import { storeDead } from "../console/_board.ts";
import { delivery } from "../events/store/_events.ts";
import { testStoreOnce } from "../events/store/contract/_contract.ts";

const QUIET: RecentActivity = {
  ...{ recent: { attempts: 0, failed: 0 }, before: { attempts: 0, failed: 0 } },
  ...{ lastFailedAt: null, dead: 0, unverified: [] },
};

/** Waits until a look at a store shows something. */
async function seen(store: EventStore, isThere: (health: Health) => boolean): Promise<Health> {
  const reader = new HealthReader(store, () => Promise.resolve(QUIET));
  for (;;) {
    const health = await reader.read();
    if (isThere(health)) return health;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Names what is wrong some time after a look. */
function kindsAfter(health: Health, ms: number): string[] {
  return wrongIn({ ...health, at: health.at + ms }).map(({ kind }) => kind);
}

testStoreOnce(
  "handlers that hang hold their places, and what waits behind them is due",
  async ({ store }) => {
    const held = Promise.withResolvers<void>();
    const worker = startWorker(store, () => held.promise, { concurrency: 2, log: () => {} });
    try {
      for (const id of ["a", "b"]) await store.accept(delivery(id));
      const busy = await seen(store, ({ processes }) => processes[0]?.heldSince != null);
      const [process] = busy.processes as [Health["processes"][0]];
      assertEquals([process.places, process.running.length], [2, 2]);
      assertMatch(process.name!, /^(.+:)?\d+$/);
      // Nothing waits: it is wrong only after a while.
      assertEquals(kindsAfter(busy, 30_000), []);
      assertEquals(kindsAfter(busy, 200_000), []);
      assertEquals(kindsAfter(busy, 301_000), ["places_held"]);
      await store.accept(delivery("c"));
      const late = await seen(store, ({ oldestDue }) => oldestDue !== null);
      assertEquals(late.oldestDue!.record?.id, late.oldestDue!.id);
      assertEquals(kindsAfter(late, 30_000), []);
      assertEquals(kindsAfter(late, 65_000).toSorted(), ["oldest_due", "places_held"]);
      const { text } = wrongIn({ ...late, at: late.at + 780_000 })[0]!;
      assertMatch(
        text,
        /^All 2 places of the process .+ have been held for 13 min, the longest by .*[ab] \(.+\), for \d+ min/,
      );
    } finally {
      held.resolve();
      await worker.stop();
    }
    assertEquals((await seen(store, () => true)).processes, []);
  },
);

testStoreOnce("an event whose lease is over holds no place", async ({ store }) => {
  const note = { id: "w", places: 1, startedAt: 0, seenAt: Date.now(), handles: null };
  await store.noteProcess(note);
  await store.accept(delivery("a"));
  await store.claim({ limit: 1, owner: "w", leaseMs: 60_000 });
  const held = await seen(store, () => true);
  assertEquals([held.processes[0]!.held, kindsAfter(held, 301_000)], [1, ["places_held"]]);
  using clock = new WallClock();
  clock.advance(64_000);
  assertEquals((await seen(store, () => true)).processes[0]!.held, 1);
  // It is not renewed: its process was killed, or does not reach the store.
  clock.advance(2_000);
  const over = await seen(store, () => true);
  const [process] = over.processes as [Health["processes"][0]];
  assertEquals([process.isGone, process.held, process.running.length], [false, 0, 1]);
  assertEquals(process.heldSince, null);
});

testStoreOnce(
  "a handler past its time limit is wrong at once, and holds no place",
  async ({ store }) => {
    const held = Promise.withResolvers<void>();
    const worker = startWorker(store, () => held.promise, {
      ...{ concurrency: 2, timeoutMs: 20, log: () => {} },
    });
    try {
      await store.accept(delivery("a"));
      const health = await seen(
        store,
        ({ processes }) => processes[0]?.running[0]?.isOverdue === true,
      );
      assertEquals([health.processes[0]!.heldSince, kindsAfter(health, 0)], [null, [
        "places_held",
      ]]);
      held.resolve();
      await seen(store, ({ processes }) => processes[0]?.running.length === 0);
    } finally {
      await worker.stop();
    }
  },
);

/** Names what is wrong with an activity. */
function wrongWith(activity: Partial<RecentActivity>, dead = 0): string[] {
  return wrongIn({
    ...{ at: 0, processes: [], isCut: false, oldestDue: null, problems: [] },
    stillDead: { count: dead, isMore: false },
    activity: { ...QUIET, ...activity },
  }).map(({ key }) => key);
}

Deno.test("failed attempts are wrong if they are many, and refusals if they are about the secret", () => {
  assertEquals(wrongWith({ recent: { attempts: 4, failed: 4 } }), []);
  assertEquals(wrongWith({ recent: { attempts: 26, failed: 5 } }), []);
  assertEquals(wrongWith({ recent: { attempts: 25, failed: 5 } }), ["failure_rate"]);
  assertEquals(wrongWith({ dead: 3 }), []);
  assertEquals(wrongWith({ dead: 3 }, 3), ["dead"]);
  const refused = (code: string, count: number) => [{ source: "github", code, count, since: 0 }];
  assertEquals(wrongWith({ unverified: refused("INVALID_SIG", 2) }), []);
  assertEquals(wrongWith({ unverified: refused("MISSING_SIG", 99) }), []);
  assertEquals(wrongWith({ unverified: refused("INVALID_SIG", 3) }), ["refused:github"]);
});

Deno.test("what died in the last hour is wrong as long as it is dead", async () => {
  using clock = new WallClock();
  const kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv, { namespace: "bot", log: () => {} });
  try {
    await storeDead(store, "long ago");
    clock.advance(2 * 3_600_000);
    const ids: string[] = [];
    for (const id of ["1", "2", "3"]) ids.push(await storeDead(store, id));
    const look = async () => {
      const reader = new HealthReader(store, () => Promise.resolve({ ...QUIET, dead: 3 }));
      const health = await reader.read();
      return [health.stillDead, wrongIn(health).find(({ kind }) => kind === "dead")?.text];
    };
    const exactly = (count: number) => ({ count, isMore: false });
    const all = "3 events have died in the last hour";
    assertEquals(await look(), [exactly(3), all]);
    await store.replayAll({ ids: ids.slice(0, 2) });
    assertEquals(await look(), [exactly(1), `${all}, and 1 of them is still dead`]);
    await store.purge({ ids: ids.slice(2) });
    assertEquals(await look(), [exactly(0), undefined]);
  } finally {
    kv.close();
  }
});
