import { assertEquals } from "@std/assert";
import type { LogRecord } from "../../../core/mod.ts";
import type { EventStore } from "../../../events/mod.ts";
import { Upkeep } from "../../../events/worker/_upkeep.ts";
import { WallClock } from "../../_wall_clock.ts";
import { until } from "../../../dev/harness/until.ts";
import type { CountedStep } from "../../../telemetry/mod.ts";
import { delivery } from "../store/_events.ts";
import { keysOf } from "../store/kv/_keys.ts";
import { memoryStore } from "../store/kv/_stores.ts";
import { testStoreOnce } from "../store/contract/_contract.ts";

const STEPS = ["times", "payloads", "uploadsOlderThanMs", "problems", "groups"] as const;

/** A store that notes its upkeep, one step of which fails. */
function failingIn(store: EventStore, failing: string): { store: EventStore; done: string[] } {
  const done: string[] = [];
  const tidy: EventStore["tidy"] = (parts) => {
    done.push(...Object.keys(parts));
    return failing in parts ? Promise.reject(new Error("no KV")) : store.tidy(parts);
  };
  return { store: withTidy(store, tidy), done };
}

function withTidy(store: EventStore, tidy: EventStore["tidy"]): EventStore {
  return new Proxy(store, {
    get: (target, name) => name === "tidy" ? tidy : Reflect.get(target, name),
  });
}

for (const failing of STEPS) {
  testStoreOnce(`a worker goes on with its upkeep if tidying ${failing} fails`, async (sut) => {
    const { store, done } = failingIn(sut.store, failing);
    const records: LogRecord[] = [];
    const upkeep = new Upkeep({
      ...{ store, leaseMs: 2, log: (record) => void records.push(record) },
      ...{ signal: new AbortController().signal, wake: () => {} },
    });
    const errors = () => records.filter(({ level }) => level === "error");
    const isDone = () => done.includes("groups") && errors().length > 0;
    await until(() => (upkeep.run(), isDone()), 20_000);
    await upkeep.stop();
    assertEquals(done.slice(0, STEPS.length), [...STEPS]);
    assertEquals(new Set(errors().map(({ message }) => message)), new Set(["tidying failed"]));
  });
}

Deno.test("a worker finds an event that nothing leads to, and tells what it cannot read", async () => {
  await using sut = await memoryStore();
  const { kv, store } = sut;
  for (const id of ["d1", "d2"]) await store.accept(delivery(id));
  for (const key of await keysOf(kv, "due")) await kv.delete(key);
  await kv.set((await keysOf(kv, "id"))[1]!, new Uint8Array([99]));
  const records: LogRecord[] = [];
  const steps: CountedStep[] = [];
  const upkeep = new Upkeep({
    ...{ store, leaseMs: 2, log: (record) => void records.push(record) },
    ...{ signal: new AbortController().signal, wake: () => {}, count: (step) => steps.push(step) },
  });
  await until(async () => (upkeep.run(), await store.lastCheck() !== null), 20_000);
  await upkeep.stop();
  const messages = records.map(({ message }) => message);
  const putBack = "event put back: nothing led to it";
  assertEquals(messages, [putBack, putBack, "stored values unreadable"]);
  assertEquals(steps, [
    { is: "put_back" },
    { is: "put_back" },
    { is: "checked", unreadable: 1 },
  ]);
  assertEquals((await keysOf(kv, "due")).length, 2);
  const { read, putBack: back, unreadable } = (await store.lastCheck())!;
  assertEquals([read, back, unreadable], [4, 2, 1]);
});

Deno.test("of several workers one checks a store", async () => {
  await using sut = await memoryStore();
  const { kv, store } = sut;
  await Array.fromAsync(store.check());
  await store.accept(delivery("d1"));
  await kv.delete((await keysOf(kv, "due"))[0]!);
  const steps: CountedStep[] = [];
  const upkeep = new Upkeep({
    ...{ store, leaseMs: 2, log: () => {}, count: (step: CountedStep) => steps.push(step) },
    ...{ signal: new AbortController().signal, wake: () => {} },
  });
  await until(() => (upkeep.run(), steps.length > 0), 20_000);
  await upkeep.stop();
  assertEquals(steps, [{ is: "checked", unreadable: 0 }]);
  assertEquals(await keysOf(kv, "due"), []);
});

testStoreOnce(
  "an upkeep looks through the whole schedule after a start and a set clock, else a part",
  async (sut) => {
    const limits: unknown[] = [];
    let fails = true;
    const store = withTidy(sut.store, ({ times }) => {
      if (times === undefined) return sut.store.tidy({});
      limits.push(times);
      const none = { times: 0, groups: 0, uploads: 0, payloads: 0, problems: 0 };
      return fails ? Promise.reject(new Error("no KV")) : Promise.resolve(none);
    });
    const upkeep = new Upkeep({
      ...{ store, leaseMs: 2, log: () => {} },
      ...{ signal: new AbortController().signal, wake: () => {} },
    });
    const repaired = (count: number) => until(() => (upkeep.run(), limits.length >= count), 20_000);
    await repaired(1);
    fails = false;
    await repaired(3);
    {
      using clock = new WallClock();
      clock.advance(3_600_000);
      upkeep.hasClockJumped();
      await repaired(4);
      await repaired(5);
    }
    await upkeep.stop();
    assertEquals(limits, [Infinity, Infinity, 999, Infinity, 999]);
  },
);
