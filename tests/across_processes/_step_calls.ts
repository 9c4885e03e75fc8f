/** Calls of steps as a service sees them, and what has to hold of them once their events are settled. */
import { assert, assertEquals } from "@std/assert";
import { pause } from "../../dev/harness/until.ts";
import type { EventStore } from "../../mod.ts";
import type { Answer } from "./_step_service.ts";

/** The number of steps of an event. */
export const STEPS = 10;

/** Duration of a lease: long enough that a slow machine renews it in time. */
export const LEASE_MS = 2_000;

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
export class Calls {
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
