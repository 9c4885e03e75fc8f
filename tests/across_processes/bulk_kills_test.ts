import { assert, assertEquals } from "@std/assert";
import { ConsoleData } from "../../console/_console_data.ts";
import { newActId } from "../../console/_query.ts";
import { until } from "../../dev/harness/until.ts";
import type { EventRecord, EventStore } from "../../events/mod.ts";
import { byLength } from "../_length.ts";
import { WallClock } from "../_wall_clock.ts";
import type { Place } from "../events/store/engines/_engine.ts";
import { event } from "../events/store/_moving.ts";
import type { BulkActOptions } from "./_bulk_act.ts";
import { testShared } from "./_shared.ts";

/** Dead events that are replayed. */
const EVENTS = byLength(10_000, 400);

/** Events that are stored at the same time. */
const AT_ONCE = 50;

/** Longest wait for a process or an act: the console changes 200 events a second. */
const WITHIN_MS = 60_000 + 20 * EVENTS;

/** Time after which an act of a process that is silent is interrupted, in milliseconds. */
const SILENT_MS = 6_001;

/** Stores dead events, some of them with an ordering key. */
async function storeDead(store: EventStore): Promise<void> {
  const attempt = { attempt: 1, startedAt: 1_500, endedAt: 2_000, outcome: "failed", error: "no" };
  for (let i = 0; i < EVENTS; i += AT_ONCE) {
    await Promise.all(
      Array.from({ length: Math.min(AT_ONCE, EVENTS - i) }, (_, j) =>
        store.restore(event({
          ...{ id: `e${i + j}`, receivedAt: 1_000 + i + j, state: "dead", outcome: "failed" },
          ...{ dueAt: null, settledAt: 2_000_000, attempt: 1, attempts: [attempt] },
          ...{ problem: "abc", orderingKey: j % 10 === 0 ? `k${j}` : null },
        }))),
    );
  }
}

/** Replays them in another process, which kills itself in the midst. Returns how many are queued then. */
async function killInTheMidst(
  store: EventStore,
  options: Pick<BulkActOptions, "at" | "id">,
): Promise<number> {
  const script = new URL("./_bulk_act.ts", import.meta.url).pathname;
  const killAfter = Math.ceil(EVENTS * (0.2 + 0.6 * Math.random()));
  const act: BulkActOptions = { ...options, events: EVENTS, killAfter };
  const flags = ["run", "-A", "--no-check", "--cached-only", "--unstable-kv"];
  const process = new Deno.Command(Deno.execPath(), {
    args: [...flags, script, JSON.stringify(act)],
    stdout: "null",
  }).spawn();
  assertEquals((await process.status).signal, "SIGKILL");
  // A change that was on its way to the server may still be made.
  let [before, queued, dead] = [-1, 0, 0];
  await until(async () => {
    before = queued;
    ({ queued, dead } = await store.stats());
    return before === queued;
  }, WITHIN_MS);
  assertEquals(queued + dead, EVENTS);
  assert(queued >= killAfter && dead > 0, `${queued} are queued after ${killAfter}`);
  assertEquals((await store.inspect.problems()).problems.map(({ dead }) => dead.count), [dead]);
  return queued;
}

/** Checks that all events are replayed, once each, and nothing else is there. */
async function assertReplayed(store: EventStore, place: Place): Promise<void> {
  const events = await Array.fromAsync(store.list(), (each) => each as EventRecord);
  assertEquals(events.length, EVENTS);
  for (const { id, state, run, interventions = [] } of events) {
    assertEquals([id, state, run, interventions.length], [id, "queued", 1, 1]);
  }
  const grouped = events.filter(({ group }) => group).length;
  const { times, positions } = await place.contents();
  // Of each group the first event is due.
  const groups = new Set(events.flatMap(({ group }) => group?.key ?? [])).size;
  assertEquals([times, grouped > groups], [EVENTS - grouped + groups, true]);
  assertEquals(positions, grouped + groups);
  assertEquals((await store.inspect.problems()).problems, []);
  const pages = await Array.fromAsync(store.check());
  assertEquals(pages.flatMap(({ findings }) => findings), []);
}

testShared(
  `the console's replay of ${EVENTS} events is resumed after a kill, and replays each once`,
  async ({ at, place }) => {
    const store = await place.open({ log: () => {} });
    await storeDead(store);
    const id = newActId();
    const queued = await killInTheMidst(store, { at, id });
    using clock = new WallClock();
    clock.advance(SILENT_MS);
    const data = new ConsoleData(store, () => {});
    try {
      const { state, changed } = (await data.acts.get(id))!;
      assertEquals([state, changed], ["interrupted", queued]);
      await data.acts.resume(id, "resumed");
      await until(async () => (await data.acts.get(id))!.state !== "running", WITHIN_MS);
      const act = (await data.acts.get(id))!;
      assertEquals([act.state, act.changed, act.resumed], ["finished", EVENTS, 1]);
    } finally {
      await data.stop();
    }
    await assertReplayed(store, place);
  },
);

testShared(
  `the tool's replay of ${EVENTS} events is run again after a kill, and replays each once`,
  async ({ at, place }) => {
    const store = await place.open({ log: () => {} });
    await storeDead(store);
    const queued = await killInTheMidst(store, { at });
    const { changed } = await store.replayAll({ state: "dead" }, { by: "again" });
    assertEquals(changed, EVENTS - queued);
    await assertReplayed(store, place);
  },
);
