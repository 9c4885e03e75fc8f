/** Reports of events that fail, in processes that are killed. */
import { assert, assertEquals } from "@std/assert";
import { byLength } from "../_length.ts";
import { delivery } from "../events/store/_events.ts";
import { untilSettled } from "./_kills.ts";
import { testShared } from "./_shared.ts";
import { type Answer, Herd } from "./_step_service.ts";

/** Long enough that a slow machine renews a lease in time. */
const LEASE_MS = 2_000;

const EVENTS = byLength(200, 8);

/** Attempts of an event: those that are killed count. */
const [REPORT_AFTER, ATTEMPTS] = [3, 5];

/** Part of the attempts that are killed: in the midst, or about when their failure is stored. */
const KILLED = 0.15;

const answer: Answer = async (_path, { pid, attempt }, herd) => {
  const chance = Math.random();
  if (chance < KILLED) await herd.kill(pid);
  else if (chance < 2 * KILLED) setTimeout(() => void herd.kill(pid), Math.random() * 4);
  return Number(attempt) >= ATTEMPTS;
};

testShared(
  `each of ${EVENTS} events that fail is reported once, whatever is killed`,
  async ({ at, place }) => {
    const store = await place.open({ log: () => {} });
    const ids = Array.from({ length: EVENTS }, (_, i) => `e${i}`);
    for (const id of ids) await store.accept(delivery(id));
    await using herd = new Herd(
      { at, leaseMs: LEASE_MS, steps: 0, reportAfter: REPORT_AFTER },
      answer,
    );
    await untilSettled(store);
    assert(herd.killed.size > 0);
    const reports = await place.effects.all("reports");
    assertEquals(Object.fromEntries(reports), Object.fromEntries(ids.map((id) => [id, 1])));
  },
);
