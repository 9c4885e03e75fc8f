/** Steps whose processes are killed around a call, and that look for what has come of it. */
import { assertEquals } from "@std/assert";
import { byLength } from "../_length.ts";
import { delivery } from "../events/store/_events.ts";
import { untilSettled } from "./_kills.ts";
import { testShared } from "./_shared.ts";
import { type Answer, Herd } from "./_step_service.ts";

/** Long enough that a slow machine renews a lease in time. */
const LEASE_MS = 2_000;

/** The moments of a call at which a process is killed. */
const STAGES = [
  "before the call",
  "before it is done",
  "after it is done",
  "after the answer",
  "after it is stored",
] as const;

const RUNS = byLength(500, 10);

/** A service that writes comments, and answers at once. It kills the process of each event at a moment of its own. */
class Comments {
  /** The numbers of the comments, by the events that they are about. */
  readonly written = new Map<string, number[]>();
  /** The events that were killed, with the moment. */
  readonly killed = new Map<string, string>();
  #count = 0;

  readonly answer: Answer = async (path, { id, pid, stage }, herd) => {
    const isDue = (moment: string) =>
      STAGES[Number(id.slice(1)) % STAGES.length] === moment && !this.killed.has(id);
    const killAt = async (moment: string) => {
      if (!isDue(moment)) return;
      this.killed.set(id, moment);
      await herd.kill(pid);
    };
    if (path === "stages") return await killAt(String(stage));
    if (path === "find") return this.written.get(id)?.[0];
    if (isDue("before it is done")) return await killAt("before it is done");
    const number = ++this.#count;
    this.written.set(id, [...this.written.get(id) ?? [], number]);
    await killAt("after it is done");
    // While it is on its way, or when it has come, or when it is being stored.
    setTimeout(() => void killAt("after the answer"), Math.random() * 4);
    return number;
  };
}

testShared(
  `no comment is doubled or lost over ${RUNS} kills around its call`,
  async ({ at, place }) => {
    const comments = new Comments();
    const store = await place.open({ log: () => {} });
    const ids = Array.from({ length: RUNS }, (_, i) => `e${i}`);
    for (const id of ids) await store.accept(delivery(id));
    await using _herd = new Herd({ at, leaseMs: LEASE_MS, steps: 0 }, comments.answer);
    await untilSettled(store);
    assertEquals([...new Set(comments.killed.values())].toSorted(), STAGES.toSorted());
    assertEquals(comments.killed.size, RUNS);
    const results = await place.effects.all("result");
    for (const id of ids) assertEquals(comments.written.get(id), [results.get(id)], id);
    assertEquals(results.size, RUNS);
    assertEquals((await place.contents()).results, 0);
  },
);
