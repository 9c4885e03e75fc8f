/** Steps of processes that are killed: what is stored is not called again. */
import { assert, assertEquals } from "@std/assert";
import type { EventStore } from "../../mod.ts";
import { pause, until } from "../../dev/harness/until.ts";
import { byLength, FULL_LENGTH } from "../_length.ts";
import { delivery } from "../events/store/_events.ts";
import { untilSettled } from "./_kills.ts";
import { testShared } from "./_shared.ts";
import { type Answer, Herd } from "./_step_service.ts";

const STEPS = 10;

/** Long enough that a slow machine renews a lease in time. */
const LEASE_MS = 2_000;

const RANDOM_KILLS = byLength(200, 5);

/** Events that are open at a time while processes are killed at random moments. */
const OPEN = 8;

/** Values that handlers have written, by the ids of their events. */
type Results = ReadonlyMap<string, string | number>;

/** A call of a step's function. */
interface Call {
  readonly pid: number;
  /** Its result: no two calls return the same. */
  readonly result: number;
  /** Set once its step is known to be stored. */
  isStored: boolean;
}

/** The calls of the steps of events, in their order, by the event and the number of the step. */
class Calls {
  readonly #calls = new Map<string, Call[]>();
  #count = 0;

  /** The names of the events that are to be killed after a step. */
  readonly killsAfter = new Set<string>();

  of(id: string, number: number): Call[] {
    const key = `${id}/${number}`;
    return this.#calls.get(key) ?? this.#calls.set(key, []).get(key)!;
  }

  get count(): number {
    return this.#count;
  }

  readonly answer: Answer = async (path, asked, herd) => {
    const { pid, id } = asked;
    const number = Number(asked.number);
    if (path === "calls") {
      const result = this.#count++;
      this.of(id, number).push({ pid, result, isStored: false });
      // Longer ones are more often met by a kill.
      await pause(Math.random() * 10);
      return result;
    }
    this.noteStored(id, number, Number(asked.result));
    return this.killsAfter.delete(`${id}/${number}`) ? await herd.kill(pid) : undefined;
  };

  noteStored(id: string, number: number, result: number): void {
    const call = this.of(id, number).find((each) => each.result === result);
    assert(call, `step ${number} of ${id} has a result that no call has returned`);
    call.isStored = true;
  }

  /** Reads which steps are stored, as another process sees it. */
  async look(store: EventStore, ids: Iterable<string>): Promise<void> {
    for (const id of ids) {
      for (const { name, result } of await store.steps(id)) {
        if (result !== undefined) this.noteStored(id, Number(name.split(" ")[1]), Number(result));
      }
    }
  }

  /** Checks that each step was called once, and once more for each call that was in progress at a kill. */
  assertOnce(ids: readonly string[], killed: ReadonlySet<number>, results: Results): void {
    let repeated = 0;
    for (const id of ids) {
      const stored: number[] = JSON.parse(String(results.get(id)));
      assertEquals(stored.length, STEPS);
      for (const [i, result] of stored.entries()) {
        const calls = this.of(id, i + 1);
        assertEquals(calls.at(-1)?.result, result, `step ${i + 1} of ${id}`);
        for (const call of calls.slice(0, -1)) {
          repeated++;
          assertEquals([call.isStored, killed.has(call.pid)], [false, true], `${id}/${i + 1}`);
        }
      }
    }
    assertEquals(this.#count, ids.length * STEPS + repeated);
  }
}

/** Takes in events, some at a time. */
async function acceptAll(store: EventStore, ids: readonly string[]): Promise<void> {
  for (const id of ids) await store.accept(delivery(id));
}

const idsOf = (count: number) => Array.from({ length: count }, (_, i) => `e${i}`);

testShared(
  `each of ${STEPS} steps is called once if its process is killed after it`,
  async ({ at, place }) => {
    const calls = new Calls();
    const store = await place.open({ log: () => {} });
    // In the short test each event is killed once, and all of them at different steps.
    const ids = idsOf(FULL_LENGTH ? 5 : STEPS);
    for (const [i, id] of ids.entries()) {
      const numbers = FULL_LENGTH ? idsOf(STEPS).map((_, step) => step + 1) : [i + 1];
      for (const number of numbers) calls.killsAfter.add(`${id}/${number}`);
    }
    await acceptAll(store, ids);
    await using herd = new Herd({ at, leaseMs: LEASE_MS, steps: STEPS }, calls.answer);
    await until(() => calls.killsAfter.size === 0, 600_000);
    await untilSettled(store);
    calls.assertOnce(ids, herd.killed, await place.effects.all("result"));
    assertEquals((await place.contents()).results, 0);
  },
);

testShared(
  `each of ${STEPS} steps is called once but for ${RANDOM_KILLS} kills in the midst`,
  async ({ at, place }) => {
    const calls = new Calls();
    const store = await place.open({ log: () => {} });
    const ids: string[] = [];
    await using herd = new Herd({ at, leaseMs: LEASE_MS, steps: STEPS }, calls.answer);
    for (let kills = 0; kills < RANDOM_KILLS; kills++) {
      const { queued, running } = await store.stats();
      for (let open = queued + running; open < OPEN; open++) {
        ids.push(`e${ids.length}`);
        await acceptAll(store, ids.slice(-1));
      }
      const before = calls.count;
      await until(() => calls.count > before, 60_000);
      await pause(Math.random() * 60);
      await herd.kill(herd.running[0]!);
      await calls.look(store, ids.slice(-2 * OPEN));
    }
    await untilSettled(store);
    calls.assertOnce(ids, herd.killed, await place.effects.all("result"));
    assertEquals((await place.contents()).results, 0);
  },
);
