import { assertEquals } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import fc from "fast-check";
import { byLength } from "../../_length.ts";
import { keysOf } from "./_events.ts";
import { type Operation, StoreModel } from "./_model.ts";
import { memoryStore, type StoreUnderTest } from "./_stores.ts";

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
      op: fc.constantFrom("complete", "bury", "release", "renew", "recover"),
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
  {
    weight: 1,
    arbitrary: fc.record({ op: fc.constantFrom("purge", "replayAll", "cancelAll") }),
  },
  { weight: 3, arbitrary: fc.record({ op: fc.constant("advance"), ms: fc.nat({ max: 2_000 }) }) },
) as fc.Arbitrary<Operation>;

/** Does any operations on a store and its model, and then checks. A failure prints seed and path. */
async function forAll(
  numRuns: number,
  check: (sut: StoreUnderTest, model: StoreModel, time: FakeTime) => Promise<void>,
): Promise<void> {
  using time = new FakeTime();
  const operations = fc.array(operation, { maxLength: 80, size: "max" });
  const property = fc.asyncProperty(operations, async (operations) => {
    await using sut = await memoryStore();
    const model = new StoreModel(sut.store);
    for (const each of operations) await model.run(each, (ms) => time.tick(ms));
    await check(sut, model, time);
  });
  await fc.assert(property, { numRuns });
}

Deno.test("the store does what its model does, whatever the operations", async () => {
  await forAll(byLength(400, 120), (_sut, model) => model.compare());
});

Deno.test("the store keeps nothing of events that are settled and purged", async () => {
  await forAll(byLength(200, 60), async ({ kv, store }, _model, time) => {
    for (let number = 0; number <= 5; number++) await store.cancel(`d${number}`);
    // An event that was cancelled while it ran is settled by the claim that would take it over.
    time.tick(10_000);
    await store.claim({ limit: 100, owner: "tidy", leaseMs: 1 });
    await store.purge({});
    // The mark that the index of dead events is complete is the store's own.
    assertEquals((await keysOf(kv)).filter((key) => key[1] !== "indexed"), []);
  });
});
