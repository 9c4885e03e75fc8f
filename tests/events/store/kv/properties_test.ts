/** Random operations on a store whose commits are repeated. */
import { repeating } from "../../../../dev/harness/faulty_kv.ts";
import { type EventStoreOptions, openEventStore } from "../../../../events/mod.ts";
import { byLength } from "../../../_length.ts";
import { assertMoves, forAll, SOME } from "../_histories.ts";
import { memoryStore, type StoreUnderTest } from "./_stores.ts";

/** Opens a store in memory some of whose commits are repeated, as by a client that gets no answer. */
async function repeatingStore(
  repeats: readonly boolean[],
  options?: EventStoreOptions,
): Promise<StoreUnderTest> {
  const { kv, ...sut } = await memoryStore();
  let commits = 0;
  const isMeant = () => repeats[commits++ % repeats.length]!;
  if (!repeats.includes(true)) return { ...sut, kv, store: await openEventStore(kv, options) };
  // As for a remote KV, which has no queue.
  const remote = { ...options, notifier: "watch" } as const;
  return { ...sut, kv, store: await openEventStore(repeating(kv, () => {}, isMeant), remote) };
}

const KEEPING = { keepPayloads: { forMs: 604_800_000, maxBytes: 1_000_000 } };

Deno.test("the store tells what it does, whatever the operations and repeated commits", async () => {
  const repeats = SOME;
  await forAll(
    byLength(400, 40),
    (repeats) => repeatingStore(repeats),
    (_sut, model) => model.compare(),
    { repeats },
  );
  await forAll(
    byLength(200, 20),
    (repeats) => repeatingStore(repeats, KEEPING),
    (_sut, model) => model.compare(),
    { repeats, keepsPayloads: true },
  );
});

Deno.test("an import makes what an export has read, although its commits are repeated", async () => {
  await forAll(byLength(150, 15), repeatingStore, async ({ store }) => {
    await using other = await repeatingStore([true]);
    await assertMoves(store, other.store);
  });
});
