import { assertEquals } from "@std/assert";
import type { LogRecord } from "../../../core/mod.ts";
import type { EventStore } from "../../../events/mod.ts";
import { Upkeep } from "../../../events/worker/_upkeep.ts";
import { until } from "../../../dev/harness/until.ts";
import { memoryStore } from "../store/_stores.ts";

const STEPS = ["repairSchedule", "trimPayloads", "deleteStaleUploads", "repairGroups"] as const;

/** A store that notes its upkeep, one step of which fails. */
function failingIn(store: EventStore, failing: string): { store: EventStore; done: string[] } {
  const done: string[] = [];
  const get = (target: EventStore, name: string | symbol) => {
    const value = Reflect.get(target, name, target);
    if (!STEPS.some((step) => step === name)) return value;
    return (...args: unknown[]) => {
      done.push(String(name));
      return name === failing ? Promise.reject(new Error("no KV")) : value.apply(target, args);
    };
  };
  return { store: new Proxy(store, { get }), done };
}

for (const failing of STEPS) {
  Deno.test(`a worker goes on with its upkeep if ${failing}() fails`, async () => {
    await using sut = await memoryStore();
    const { store, done } = failingIn(sut.store, failing);
    const records: LogRecord[] = [];
    const upkeep = new Upkeep({
      ...{ store, leaseMs: 2, log: (record) => void records.push(record) },
      ...{ signal: new AbortController().signal, wake: () => {} },
    });
    const errors = () => records.filter(({ level }) => level === "error");
    const isDone = () => done.includes("repairGroups") && errors().length > 0;
    await until(() => (upkeep.run(), isDone()), 20_000);
    await upkeep.stop();
    assertEquals(done.slice(0, 4), [...STEPS]);
    assertEquals(new Set(errors().map(({ message }) => message)), new Set(["tidying failed"]));
  });
}
