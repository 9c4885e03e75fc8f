import { assert, assertEquals } from "@std/assert";
import { type EventStore, openEventStore } from "../../../events/mod.ts";
import { claimAll, idsOf, keysOf } from "./_events.ts";

const encoder = new TextEncoder();

/** Time at which the events of the fixtures were received. */
const AT = 1_700_000_000_000;

type Stored = readonly [key: readonly Deno.KvKeyPart[], value: unknown];

const BODY = encoder.encode(`{"a":1}`);

const payloadOf = (id: string) => ({ id: `lp0000-${id}`, chunks: 1, size: 7 });

/** Entries of an event, except for the one in the schedule. */
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

Deno.test("records of the first layout are shown in the layout of today", async () => {
  using kv = await Deno.openKv(":memory:");
  for (const [key, value] of EVENTS) await kv.set(["events", ...key], value);
  const store = await openEventStore(kv);
  const of = async (id: string) => (await store.get(id))!;
  assertEquals((await of("retried")).attempts, [
    { attempt: 1, startedAt: AT + 5, endedAt: AT + 5, outcome: "failed", error: "Error: once" },
  ]);
  assertEquals([(await of("retried")).delayMs, (await of("retried")).progress], [5, ["part"]]);
  assertEquals((await of("second")).group, { key: "repo", position: 1 });
  assertEquals((await of("running")).lease, { ...LEASE, startedAt: AT });
  assertEquals((await of("grouped1")).sharedEntry, GROUP);
  assertEquals([(await of("done")).outcome, (await of("dead")).outcome], ["handled", "failed"]);
  assertEquals("busyUntil" in await of("dead"), false);
});

/** Entries of an event in the second layout, except for the one in the schedule. */
function storedV2(id: string, record: Record<string, unknown>, body?: Uint8Array): Stored[] {
  const value = {
    ...{ v: 2, id, intake: "forge", deliveryId: "x", platform: "forge", source: "github" },
    ...{ type: "push", action: "opened", requestId: "r1", receivedAt: AT, state: "queued" },
    ...{ repository: { id: 1, fullName: "a/b", owner: "a", name: "b" } },
    ...{ chat: { id: 2, type: "private" }, sender: { id: 3, name: "c", isBot: false } },
    ...{ attempt: 0, dueAt: AT, orderingKey: null, group: null, lease: null, settledAt: null },
    ...{ payload: payloadOf(id), attempts: [], ...record },
  };
  return [
    [["id", id], AT],
    [["event", AT, id], value],
    ...(body ? [[["payload", payloadOf(id).id, 0], body] as const] : []),
  ];
}

const ATTEMPT = { attempt: 1, startedAt: AT + 1, endedAt: AT + 5, outcome: "failed", error: "no" };
const PUT_OFF = { since: AT + 1, at: AT + 2, times: 2, reason: "Rate limit" };
const RUNNING_V2 = { ...RUNNING, lease: { ...LEASE, startedAt: AT } };
const SHARED_V2 = (id: string) => ({
  ...{ ...RUNNING_V2, sharedEntry: GROUP, payload: { ...payloadOf(id), chunks: 0 }, body: BODY },
});
const AT_POSITION = (position: number) => ({
  orderingKey: "repo",
  group: { key: "repo", position },
});

/** Events in all states, as the second layout has them. */
const EVENTS_V2: readonly Stored[] = [
  ...storedV2("queued", { waitsFor: ["a"], causedBy: "b", putOff: PUT_OFF }, BODY),
  ...storedV2("retried", {
    ...{ attempt: 1, dueAt: AT + 10, delayMs: 5, attempts: [ATTEMPT], progress: ["part"], run: 1 },
    ...{ traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", idKept: true },
  }, BODY),
  ...storedV2("first", AT_POSITION(0), BODY),
  ...storedV2("second", { ...AT_POSITION(1), dueAt: null }, BODY),
  [["lane", "repo"], { next: 2, size: 2 }],
  [["place", "repo", 0], refOf("first")],
  [["place", "repo", 1], refOf("second")],
  ...storedV2("running", RUNNING_V2, BODY),
  ...storedV2("flagged", { ...RUNNING_V2, cancelRequestedAt: AT + 9 }, BODY),
  ...storedV2("shared1", SHARED_V2("shared1")),
  ...storedV2("shared2", SHARED_V2("shared2")),
  ...storedV2("done", {
    ...{ state: "done", outcome: "ignored", attempt: 1, dueAt: null, settledAt: AT + 9 },
    ...{ payload: null, attempts: [{ ...ATTEMPT, outcome: "ignored", error: undefined }] },
  }),
  ...storedV2("dead", {
    ...{ state: "dead", outcome: "failed", attempt: 1, dueAt: null, settledAt: AT + 9 },
    attempts: [ATTEMPT],
  }, BODY),
  [["dead", AT, "dead"], true],
  [["due", AT, "queued"], { v: 2, receivedAt: AT, group: null, delayMs: 0 }],
  [["due", AT + 10, "retried"], { v: 2, receivedAt: AT, group: null, delayMs: 5 }],
  [["due", AT, "first"], { v: 2, receivedAt: AT, group: { key: "repo", position: 0 }, delayMs: 0 }],
  [["due", LEASE.until, "running"], { v: 2, receivedAt: AT, group: null, delayMs: 30_000 }],
  [["due", LEASE.until, "flagged"], { v: 2, receivedAt: AT, group: null, delayMs: 30_000 }],
  [["due", LEASE.until, GROUP], {
    ...{ v: 1, events: [refOf("shared1"), refOf("shared2")], delayMs: 30_000 },
  }],
];

Deno.test("events in all states are read whose records are of version 2", async () => {
  using kv = await Deno.openKv(":memory:");
  for (const [key, value] of EVENTS_V2) await kv.set(["events", ...key], value);
  const messages: unknown[] = [];
  const store = await openEventStore(kv, { log: (record) => void messages.push(record) });
  const { queued, running, done, dead, unreadable } = await store.stats();
  assertEquals([queued, running, done, dead, unreadable], [4, 4, 1, 1, 0]);
  const { waitsFor, causedBy, putOff } = (await store.get("queued"))!;
  assertEquals([waitsFor, causedBy, putOff], [["a"], "b", PUT_OFF]);
  assertEquals((await Array.fromAsync(store.list({ state: "dead" }))).map(({ id }) => id), [
    "dead",
  ]);
  const firsts = ["first", "queued", "retried", "running", "shared1", "shared2"];
  assertEquals(await completeAll(store), firsts);
  assertEquals((await store.get("flagged"))?.outcome, "cancelled");
  assertEquals((await store.get("queued"))?.waitsFor, ["a"]);
  assertEquals(await completeAll(store), ["second"]);
  for (const id of ["dead", "flagged"]) assert(await store.replay(id));
  assertEquals(await completeAll(store), ["dead", "flagged"]);
  const left = ["due", "lane", "place", "payload", "dead"].map((each) => keysOf(kv, each));
  assertEquals((await Promise.all(left)).flat(), []);
  assertEquals(messages, []);
});
