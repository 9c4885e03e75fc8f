import { assert, assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { FakeTime } from "@std/testing/time";
import { type EventStore, NotKeptError } from "../../../../events/mod.ts";
import { toEvent } from "../../../../events/worker/event.ts";
import { until } from "../../worker/_worker.ts";
import { claimOne, delivery, later, listed } from "../_events.ts";
import { settle, trimmed } from "../_tidying.ts";
import { trimPayloads } from "../_tidying.ts";
import {
  type StoreUnderTest,
  testStore,
  testStoreInOneProcess,
  testStoreOnce,
} from "./_contract.ts";

const DAY_MS = 86_400_000;

const keepPayloads = { forMs: DAY_MS, maxBytes: 1_000_000 };

/** Reads the payload of an event; undefined if it is not kept. */
async function keptOf(store: EventStore, id: string): Promise<string | undefined> {
  const record = await store.get(id);
  try {
    return new TextDecoder().decode(await store.load({ record: record! }));
  } catch (error) {
    assertEquals((error as Error).name, "NotKeptError");
    return undefined;
  }
}

/** The number of payloads that are kept, and the sum of their sizes as it was noted. */
async function sizesOf({ place }: Pick<StoreUnderTest, "place">): Promise<[number, number]> {
  const { payloads, bytes } = (await place.contents()).kept;
  return [payloads, bytes];
}

/** Checks that nothing is kept any more. */
async function assertNothingKept(sut: Pick<StoreUnderTest, "place">): Promise<void> {
  assertEquals(await sizesOf(sut), [0, 0]);
  assertEquals((await sut.place.contents()).payloads, 0);
}

function testKeeping(name: string, fn: Parameters<typeof testStore>[1]): void {
  const untilTrimmed: typeof fn = async (sut) => {
    await fn(sut);
    await trimmed(sut.store);
  };
  testStore(name, untilTrimmed, { keepPayloads });
}

testStore("a store keeps no payload of done events unless it is asked to", async (sut) => {
  await settle(sut.store, "d1");
  assertEquals(await keptOf(sut.store, "d1"), undefined);
  assertEquals(await sut.store.replay("d1"), false);
  await assertNothingKept(sut);
});

testKeeping("load() reads the payload of a done event that is kept", async ({ place, store }) => {
  await settle(store, "d1");
  assertEquals((await store.get("d1"))?.payload, null);
  assertEquals(await keptOf(store, "d1"), `{"a":1}`);
  assertEquals(await sizesOf({ place }), [1, 7]);
});

testKeeping(
  "a payload of several parts is kept, and dropped by a purge",
  async ({ place, store }) => {
    const text = `{"a":"${"x".repeat(200_000)}"}`;
    await settle(store, "d1", text);
    assertEquals(await keptOf(store, "d1"), text);
    assertEquals((await store.purge({})).changed, 1);
    await assertNothingKept({ place });
  },
);

testKeeping("replay() handles a done event again, as a new run", async ({ place, store }) => {
  await store.accept(delivery("d1"));
  const first = await claimOne(store);
  const noted = await store.note(first, { is: "handler", name: "part" });
  assert(await store.complete(noted!));
  assert(await store.replay("d1"));
  const { record, body } = await claimOne(store);
  const { attempt, progress, run, keyRun, attempts } = record;
  assertEquals(
    { attempt, progress, run, keyRun },
    { attempt: 1, progress: undefined, run: 1, keyRun: 1 },
  );
  assertEquals(attempts.map(({ outcome }) => outcome), ["handled"]);
  assertEquals(new TextDecoder().decode(body), `{"a":1}`);
  assertEquals(await sizesOf({ place }), [0, 0]);
});

testKeeping("a done event can be replayed again and again", async ({ place, store }) => {
  await settle(store, "d1");
  const keys = new Set<string>();
  for (let run = 0; run < 3; run++) {
    assert(await store.replay("d1"));
    const lease = await claimOne(store);
    keys.add(toEvent(lease.record, lease.body!).idempotencyKey());
    assert(await store.complete(lease));
  }
  assertEquals(keys.size, 3);
  assertEquals([await keptOf(store, "d1"), await sizesOf({ place })], [`{"a":1}`, [1, 7]]);
});

testKeeping("a dead event goes on with its run, also after a replay", async ({ store }) => {
  await settle(store, "d1");
  assert(await store.replay("d1"));
  const lease = await claimOne(store);
  const key = toEvent(lease.record, lease.body!).idempotencyKey();
  assert(
    await store.bury((await store.note(lease, { is: "handler", name: "part" }))!, new Error("no")),
  );
  assert(await store.replay("d1"));
  const again = await claimOne(store);
  assertEquals([again.record.keyRun, again.record.run], [1, 2]);
  assertEquals(again.record.progress, ["part"]);
  assertEquals(toEvent(again.record, again.body!).idempotencyKey(), key);
});

testKeeping("a replayed event joins the end of its ordering group", async ({ store }) => {
  await settle(store, "d1", "{}", "key");
  await store.accept(delivery("d2", "{}", "key"));
  assert(await store.replay("d1"));
  const order = [];
  for (let i = 0; i < 2; i++) {
    const lease = await claimOne(store);
    order.push(lease.record.id);
    assert(await store.complete(lease));
  }
  assertEquals(order, ["d2", "d1"]);
});

testKeeping("of two replays of a done event one succeeds", async ({ place, store }) => {
  await settle(store, "d1");
  const results = await Promise.all(Array.from({ length: 4 }, () => store.replay("d1")));
  assertEquals(results.filter(Boolean).length, 1);
  assertEquals(await sizesOf({ place }), [0, 0]);
});

testKeeping("replayAll() takes done events only if it is asked to", async ({ store }) => {
  await settle(store, "d1");
  await store.accept(delivery("d2"));
  assert(await store.bury(await claimOne(store), new Error("no")));
  assertEquals((await store.replayAll({ ids: ["d1"] })).left, ["d1"]);
  assertEquals((await store.replayAll({})).changed, 1);
  assertEquals((await store.replayAll({ state: "done" })).changed, 1);
  assertEquals(await listed(store, { state: "queued" }), ["d1", "d2"]);
});

testKeeping("a delivery of a done event is a duplicate while it is kept", async ({ store }) => {
  await settle(store, "d1");
  assertEquals(await store.accept(delivery("d1")), { id: "d1", duplicate: true });
  assertEquals(await keptOf(store, "d1"), `{"a":1}`);
});

testKeeping("a delivery of an ignored event takes the place of what is kept", async (sut) => {
  const { place, store } = sut;
  await store.accept(delivery("d1"));
  assert(await store.complete(await claimOne(store), { outcome: "ignored" }));
  assertEquals(await keptOf(store, "d1"), `{"a":1}`);
  assertEquals((await store.accept(delivery("d1", `{"b":2}`))).duplicate, false);
  assertEquals(await sizesOf({ place }), [0, 0]);
  assertEquals((await place.contents()).payloads, 1);
  assert(await store.complete(await claimOne(store)));
  assertEquals(await keptOf(store, "d1"), `{"b":2}`);
});

testKeeping("a dead event's payload is not counted", async ({ place, store }) => {
  await store.accept(delivery("d1"));
  assert(await store.bury(await claimOne(store), new Error("no")));
  assertEquals(await sizesOf({ place }), [0, 0]);
  assertEquals((await store.purge({})).changed, 1);
  await assertNothingKept({ place });
});

testKeeping("a purge and a trim at the same time drop a payload once", async ({ place, store }) => {
  for (let i = 0; i < 20; i++) await settle(store, `d${i}`);
  const other = await place.open({ keepPayloads: { forMs: 1, maxBytes: 1 } });
  const [purged] = await Promise.all([
    store.purge({}),
    trimPayloads(other),
    store.replayAll({ state: "done" }),
  ]);
  const queued = await listed(store, { state: "queued" });
  assertEquals(purged.changed + queued.length >= 20, true);
  for (const { id } of await Array.fromAsync(store.list({ state: "queued" }))) {
    assertEquals(await keptOf(store, id), `{"a":1}`);
  }
  await store.cancelAll({});
  await store.purge({});
  await assertNothingKept({ place });
});

const small = { forMs: DAY_MS, maxBytes: 30 };

testStore("the oldest payloads are dropped when all take too much", async ({ place, store }) => {
  for (let i = 0; i < 8; i++) await settle(store, `d${i}`, `{"n":${i}}`);
  await trimPayloads(store);
  await trimPayloads(store);
  const kept = [];
  for (let i = 0; i < 8; i++) if (await keptOf(store, `d${i}`)) kept.push(i);
  assertEquals(kept, [4, 5, 6, 7]);
  assertEquals([await sizesOf({ place }), (await place.contents()).payloads], [[4, 28], 4]);
}, { keepPayloads: small });

testKeeping(
  "processes that trim at the same time do not drop more than one would",
  async ({ place, store }) => {
    for (let i = 0; i < 120; i++) await settle(store, `d${i}`);
    const limits = { keepPayloads: { forMs: DAY_MS, maxBytes: 70 } };
    const others = await Promise.all(Array.from({ length: 4 }, () => place.open(limits)));
    await Promise.all(others.map(async (other, i) => {
      await later(i * 3);
      await trimPayloads(other);
    }));
    assertEquals([await sizesOf({ place }), (await place.contents()).payloads], [[10, 70], 10]);
  },
);

testStore("a payload that is larger than the limit is not kept", async ({ place, store }) => {
  await settle(store, "d1", `{"text":"${"x".repeat(30)}"}`);
  await assertNothingKept({ place });
}, { keepPayloads: small });

testStoreInOneProcess("the settling process drops what is too much, in passing", async (sut) => {
  for (let i = 0; i < 8; i++) await settle(sut.store, `d${i}`, `{"n":${i}}`);
  await until(async () => (await sizesOf(sut))[1] <= 30);
  const { kept, payloads } = await sut.place.contents();
  assertEquals(kept.payloads, payloads);
  await trimmed(sut.store);
}, { keepPayloads: small });

testStore("payloads are dropped that are too old", async ({ place, store }) => {
  await settle(store, "d1");
  await later(30);
  const other = await place.open({ keepPayloads: { forMs: 20, maxBytes: 1_000 } });
  assertEquals(await trimPayloads(other), 1);
  assertEquals(await store.replay("d1"), false);
  await assertNothingKept({ place });
}, { keepPayloads });

testStore("a store that keeps none drops what another has kept", async ({ place, store }) => {
  await settle(store, "d1");
  const off = await place.open();
  assertEquals(await keptOf(off, "d1"), `{"a":1}`);
  assertEquals(await trimPayloads(off), 1);
  assertEquals(await keptOf(store, "d1"), undefined);
  await assertNothingKept({ place });
}, { keepPayloads });

testStore("a payload in a record is kept if the option comes later", async ({ place }) => {
  const off = await place.open();
  const lease = Promise.withResolvers<Parameters<EventStore["complete"]>[0]>();
  const room = { owner: "me", leaseMs: 30_000, cancel: () => {} };
  off.listen({ wake: () => {}, reserve: () => ({ ...room, take: lease.resolve }) });
  await off.accept(delivery("d1"));
  const on = await place.open({ keepPayloads });
  assert(await on.complete(await lease.promise));
  assertEquals(await keptOf(on, "d1"), `{"a":1}`);
  place.close();
});

testStoreOnce("a payload goes with the record whose retention is over", async (sut) => {
  await settle(sut.store, "d1");
  await later(110);
  assertEquals(await trimPayloads(sut.store), 1);
  await assertNothingKept(sut);
}, {
  retentionMs: 100,
  keepPayloads: { forMs: 100, maxBytes: 9_000 },
});

testStoreOnce("a replayed event does not expire", async (sut) => {
  await settle(sut.store, "d1");
  assert(await sut.store.replay("d1"));
  await later(1_100);
  await trimPayloads(sut.store);
  const lease = await claimOne(sut.store);
  assertEquals(new TextDecoder().decode(await sut.store.load(lease)), `{"a":1}`);
}, {
  // Longer than a busy machine takes from the settlement to the replay.
  retentionMs: 1_000,
  keepPayloads: { forMs: 1_000, maxBytes: 9_000 },
});

testStoreOnce("payloads that a clock ahead has settled do not stay for longer", async (sut) => {
  {
    using _ahead = new FakeTime(Date.now() + 10 * DAY_MS);
    await settle(sut.store, "d1");
  }
  await trimPayloads(sut.store);
  await assertNothingKept(sut);
}, { keepPayloads });

testStoreOnce(
  "idempotencyKey() of an event that was not replayed is the one of earlier versions",
  async (sut) => {
    await sut.store.accept(delivery("d1"));
    const lease = await claimOne(sut.store);
    const event = toEvent(lease.record, lease.body!);
    assertEquals(event.idempotencyKey("call"), "c68fe22c-46a8-8a57-b3b4-635f4ea53441");
    assertNotEquals(
      toEvent({ ...lease.record, keyRun: 1 }, lease.body!).idempotencyKey("call"),
      event.idempotencyKey("call"),
    );
  },
  { keepPayloads },
);

testStoreOnce(
  "load() of a done event without a payload rejects with a NotKeptError",
  async (sut) => {
    await settle(sut.store, "d1");
    const record = await sut.store.get("d1");
    await assertRejects(
      () => sut.store.load({ record: record! }),
      NotKeptError,
      "Cannot load event d1: it is done, and its payload is not kept",
    );
  },
);

const DEFAULT_MS = 604_800_000;

for (
  const [options, message] of [
    [
      { forMs: 0, maxBytes: 1 },
      `'keepPayloads.forMs' must be from 1 to ${DEFAULT_MS}, the retention, got 0`,
    ],
    [
      { forMs: DEFAULT_MS + 1, maxBytes: 1 },
      `'keepPayloads.forMs' must be from 1 to ${DEFAULT_MS}, the retention, got ${DEFAULT_MS + 1}`,
    ],
    [
      { forMs: "1d", maxBytes: 1 },
      `'keepPayloads.forMs' must be from 1 to ${DEFAULT_MS}, the retention, got "1d"`,
    ],
    [
      { forMs: 1, maxBytes: 0 },
      `'keepPayloads.maxBytes' must be a whole number from 1 to ${Number.MAX_SAFE_INTEGER}, got 0`,
    ],
  ] as const
) {
  testStoreOnce(
    `a store refuses to keep payloads with ${JSON.stringify(options)}`,
    async ({ place }) => {
      await assertRejects(
        () => place.open({ keepPayloads: options as never }),
        RangeError,
        `Cannot open the event store: ${message}`,
      );
    },
  );
}
