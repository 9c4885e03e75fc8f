import {
  assert,
  assertEquals,
  assertGreaterOrEqual,
  assertLess,
  assertLessOrEqual,
  assertRejects,
} from "@std/assert";
import { type EventStore, openEventStore } from "../../../../events/mod.ts";
import { UndecodableError } from "../../../../events/store/engine.ts";
import { MonotonicClock } from "../../../_monotonic_clock.ts";
import { later } from "../_events.ts";
import type { TokenRule } from "../../../../events/store/token_bucket.ts";
import { ask } from "../_limited.ts";
import { holdCommits } from "./_commits.ts";
import { setNewer, setValue } from "./_values.ts";

const RULE = { limit: 5, perMs: 60_000 } as const;

const KEY = ["events", "limit", "service", ""];

const UNREADABLE = {
  is: "unreadable" as const,
  ...{ kind: "limit" as const, name: "service/", at: ["limit", "service", ""] },
};

async function findings(store: EventStore, options?: { readonly discard: boolean }) {
  return (await Array.fromAsync(store.check(options))).flatMap(({ findings }) => findings);
}

Deno.test("a limit of another version is left alone, and others go on", async () => {
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv);
  await ask(store, RULE);
  const restore = await setNewer(kv, KEY);
  await assertRejects(() => ask(store, RULE), UndecodableError, 'the limit "service/"');
  assertEquals(await ask(store, RULE, { name: "another" }), undefined);
  assertEquals(await findings(store), [UNREADABLE]);
  await restore();
  assertEquals(await ask(store, RULE), undefined);
  await setValue(kv, KEY, { taken: "many" });
  await assertRejects(() => ask(store, RULE), UndecodableError);
  assertEquals(await findings(store), [UNREADABLE]);
  assertEquals(await findings(store, { discard: true }), [{ ...UNREADABLE, is: "discarded" }]);
  assertEquals(await ask(store, RULE), undefined);
});

/** Opens a store whose commits take a time of the monotonic clock, after something else is done. */
async function slowStore(kv: Deno.Kv, clock: MonotonicClock, before = () => Promise.resolve()) {
  const { kv: slow, held } = holdCommits(kv);
  const store = await openEventStore(slow, { notifier: "watch" });
  const during = async <T>(wanted: Promise<T>, commitMs: number): Promise<T> => {
    let isSettled = false;
    void wanted.finally(() => isSettled = true);
    for (; !isSettled; await later(0)) {
      if (held.length === 0) continue;
      await before();
      clock.advance(commitMs);
      for (const release of held.splice(0)) release();
    }
    return await wanted;
  };
  return { store, during };
}

/** Asks for a token. Resolves with the time for which it may be used, in milliseconds. */
function useFor({ tokens }: EventStore, rule: TokenRule): Promise<number> {
  return new Promise((resolve, reject) => {
    const use = (leftMs: number) => {
      resolve(leftMs);
      return true;
    };
    tokens.of("service", "").wait(rule, { count: 1, waitMs: 0, use, putOff: reject, fail: reject });
  });
}

Deno.test("a slow commit makes lots long for some seconds, however few calls follow", async () => {
  using kv = await Deno.openKv(":memory:");
  using clock = new MonotonicClock();
  const { store, during } = await slowStore(kv, clock);
  const rule = { limit: 10, perMs: 3_200 };
  assertLessOrEqual(await during(useFor(store, rule), 2_000), 101);
  assertGreaterOrEqual(await during(useFor(store, rule), 0), 4_000);
  clock.advance(20_000);
  assertLessOrEqual(await during(useFor(store, rule), 0), 101);
});

Deno.test("a wish that others overtake for too long is put off", async () => {
  using kv = await Deno.openKv(":memory:");
  using clock = new MonotonicClock();
  let count = 0;
  const overtake = () => setValue(kv, KEY, { taken: [[1, ++count]] });
  const { store, during } = await slowStore(kv, clock, overtake);
  const afterMs = await during(ask(store, RULE), 1_000);
  assertGreaterOrEqual(afterMs!, 2_000);
  assertLess(afterMs!, 4_000);
  assert(count > 4);
});
