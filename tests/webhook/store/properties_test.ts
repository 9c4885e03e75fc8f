import { assertEquals } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import fc from "fast-check";
import { keysOf } from "./_events.ts";
import { type Operation, StoreModel } from "./_model.ts";
import { memoryStore } from "./_stores.ts";

const few = fc.nat({ max: 5 });

const operation: fc.Arbitrary<Operation> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ op: fc.constant("accept"), id: few, key: fc.nat({ max: 2 }) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ op: fc.constant("claim"), limit: fc.integer({ min: 1, max: 9 }) }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      op: fc.constantFrom("complete", "bury", "release", "renew"),
      lease: fc.nat({ max: 20 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      op: fc.constant("retry"),
      lease: fc.nat({ max: 20 }),
      delayMs: fc.nat({ max: 3_000 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ op: fc.constantFrom("replay", "cancel"), id: few }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant("purge") }) },
  { weight: 3, arbitrary: fc.record({ op: fc.constant("advance"), ms: fc.nat({ max: 2_000 }) }) },
) as fc.Arbitrary<Operation>;

/** A failure prints the seed and path with which it can be run again. */
Deno.test("the store does what its model does, whatever the operations", async () => {
  using time = new FakeTime();
  const property = fc.asyncProperty(
    fc.array(operation, { maxLength: 80, size: "max" }),
    async (operations) => {
      await using sut = await memoryStore();
      const model = new StoreModel(sut.store);
      for (const each of operations) await model.run(each, (ms) => time.tick(ms));
      await model.compare();
    },
  );
  await fc.assert(property, { numRuns: 400 });
});

Deno.test("the store keeps nothing of events that are settled and purged", async () => {
  using time = new FakeTime();
  const property = fc.asyncProperty(
    fc.array(operation, { maxLength: 80, size: "max" }),
    async (operations) => {
      await using sut = await memoryStore();
      const model = new StoreModel(sut.store);
      for (const each of operations) await model.run(each, (ms) => time.tick(ms));
      for (let number = 0; number <= 5; number++) await sut.store.cancel(`d${number}`);
      await sut.store.purge({});
      time.tick(10_000);
      // A claim tidies up what is on the schedule without its event.
      await sut.store.claim({ limit: 100, owner: "tidy", leaseMs: 1 });
      assertEquals(await keysOf(sut.kv), []);
    },
  );
  await fc.assert(property, { numRuns: 200 });
});
