import { assert, assertEquals } from "@std/assert";
import { type EventStore, openEventStore } from "../../../events/mod.ts";
import { claimAll, idsOf, keysOf } from "./_events.ts";

const encoder = new TextEncoder();

/** When the events of the fixtures were received. */
const AT = 1_700_000_000_000;

type Stored = readonly [key: readonly Deno.KvKeyPart[], value: unknown];

const BODY = encoder.encode(`{"a":1}`);

const payloadOf = (id: string) => ({ id: `lp0000-${id}`, chunks: 1, size: 7 });

/** What is stored of an event but for its place in the schedule. */
function stored(id: string, record: Record<string, unknown>, body?: Uint8Array): Stored[] {
  const value = {
    ...{ v: 1, id, platform: "forge", source: "github", type: "push", requestId: null },
    ...{ receivedAt: AT, state: "queued", attempt: 0, dueAt: AT, orderingKey: null, lane: null },
    ...{ lease: null, settledAt: null, payload: payloadOf(id), errors: [], ...record },
  };
  return [
    [["id", id], AT],
    [["event", AT, id], value],
    ...(body ? [[["payload", payloadOf(id).id, 0], body] as const] : []),
  ];
}

const ERROR = { attempt: 1, at: AT + 5, message: "Error: once" };
const LEASE = { owner: "11111111-1111-4111-8111-111111111111", until: AT + 30_000, ms: 30_000 };
const GROUP = "22222222-2222-4222-8222-222222222222";
const RUNNING = { state: "running", attempt: 1, dueAt: LEASE.until, lease: LEASE };
const IN_GROUP = {
  ...RUNNING,
  dueGroup: GROUP,

  body: BODY,
};
const IN_LANE = (seq: number) => ({ orderingKey: "repo", lane: { key: "repo", seq } });

/** Events in all states, as the first layout has them. */
const EVENTS: readonly Stored[] = [
  ...stored("queued", {}, BODY),
  ...stored("retried", {
    ...{ attempt: 1, dueAt: AT + 10, errors: [ERROR], progress: ["part"] },
    traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  }, BODY),
  ...stored("first", IN_LANE(0), BODY),
  ...stored("second", { ...IN_LANE(1), dueAt: null }, BODY),
  [["lane", "repo"], { next: 2, size: 2, busyUntil: 0 }],
  [["place", "repo", 0], { id: "first", receivedAt: AT }],
  [["place", "repo", 1], { id: "second", receivedAt: AT }],
  ...stored("running", RUNNING, BODY),
  ...stored("grouped1", { ...IN_GROUP, payload: { ...payloadOf("grouped1"), chunks: 0 } }),
  ...stored("grouped2", { ...IN_GROUP, payload: { ...payloadOf("grouped2"), chunks: 0 } }),
  ...stored("done", { state: "done", attempt: 1, dueAt: null, settledAt: AT + 9, payload: null }),
  ...stored("dead", {
    ...{ state: "dead", attempt: 1, dueAt: null, settledAt: AT + 9, errors: [ERROR] },
    busyUntil: AT + 20,
  }, BODY),
];

/** Their places in the schedule, as layouts have had them. */
const SCHEDULES: Readonly<Record<string, (value: object) => object>> = {
  "without a version": (value) => value,
  "with version 1": (value) => ({ v: 1, ...value }),
};

const refOf = (id: string) => ({ id, receivedAt: AT });

/** The schedule of the events. */
function schedule(version: (value: object) => object): Stored[] {
  const events = [refOf("grouped1"), refOf("grouped2")];
  return [
    [["due", AT, "queued"], version({ receivedAt: AT, lane: null })],
    [["due", AT + 10, "retried"], version({ receivedAt: AT, lane: null })],
    [["due", AT, "first"], version({ receivedAt: AT, lane: { key: "repo", seq: 0 } })],
    [["due", LEASE.until, "running"], version({ receivedAt: AT, lane: null })],
    [["due", LEASE.until, GROUP], version({ events })],
  ];
}

async function completeAll(store: EventStore): Promise<string[]> {
  const leases = await claimAll(store);
  for (const lease of leases) {
    assertEquals(await store.load(lease), BODY);
    assert(await store.complete(lease));
  }
  return idsOf(leases).toSorted();
}

for (const [name, version] of Object.entries(SCHEDULES)) {
  Deno.test(`events in all states are read whose schedule is ${name}`, async () => {
    using kv = await Deno.openKv(":memory:");
    for (const [key, value] of [...EVENTS, ...schedule(version)]) {
      await kv.set(["events", ...key], value);
    }
    const messages: unknown[] = [];
    const store = await openEventStore(kv, { log: (record) => void messages.push(record) });
    const { queued, running, done, dead, unreadable } = await store.stats();
    assertEquals([queued, running, done, dead, unreadable], [4, 3, 1, 1, 0]);
    assertEquals(await store.oldestDueAt(), AT);
    const firsts = ["first", "grouped1", "grouped2", "queued", "retried", "running"];
    assertEquals(await completeAll(store), firsts);
    assertEquals(await completeAll(store), ["second"]);
    assert(await store.replay("dead"));
    assertEquals(await completeAll(store), ["dead"]);
    const left = ["due", "lane", "place", "payload"].map((each) => keysOf(kv, each));
    assertEquals((await Promise.all(left)).flat(), []);
    assertEquals(messages, []);
  });
}
