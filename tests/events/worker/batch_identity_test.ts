/** Events that are handled together are known by the first of them, whatever happens between two attempts. */
import { assertEquals, assertNotEquals } from "@std/assert";
import {
  type Delivery,
  type EventHandler,
  GiveUpError,
  startWorker,
  type WebhookEvent,
} from "../../../mod.ts";
import { delivery } from "../store/_events.ts";
import { type Processes, settled, testProcesses, until } from "./_processes.ts";

/** A delivery that is handled together with others of its key. */
function quiet(id: string): Delivery {
  const text = JSON.stringify({ text: id });
  return { ...delivery(id, text, "key"), payload: { text: id }, quietMs: 200 };
}

async function acceptAll({ store }: Processes, ids: readonly string[]): Promise<void> {
  for (const id of ids) await store.accept(quiet(id));
}

/** Lists the members that tell a repetition, and those that a handler works with. */
const seenOf = ({ id, deliveryId, idempotencyKey, attempt, payload, batch }: WebhookEvent) => ({
  identity: [id, deliveryId, idempotencyKey(), idempotencyKey("call")],
  got: [attempt, payload.text, batch.map((each) => each.id).join("")],
});

type Seen = ReturnType<typeof seenOf>;

/** Has a handler note each attempt, and fail or hang in the first one. */
function noting(seen: Seen[], firstAttempt: () => unknown): EventHandler {
  return async (event) => {
    seen.push(seenOf(event));
    if (event.id === "a" && seen.length === 1) await firstAttempt();
  };
}

const HANGING = () => new Promise(() => {});

function assertSameIdentity([first, ...others]: readonly Seen[]): void {
  for (const { identity } of others) assertEquals(identity, first!.identity);
  assertEquals(first!.identity.slice(0, 2), ["a", "a"]);
}

testProcesses("a handler gets the latest event under the id of the first", async (processes) => {
  const events: WebhookEvent[] = [];
  await acceptAll(processes, ["a", "b", "c"]);
  await processes.start((event) => void events.push(event));
  await settled(processes.store, "a", "b", "c");
  const [event] = events;
  assertEquals(events.length, 1);
  assertEquals(seenOf(event!).got, [1, "c", "abc"]);
  const [a, , c] = event!.batch;
  assertEquals([event!.id, event!.deliveryId], ["a", "a"]);
  assertEquals([event!.receivedAt, event!.body], [c!.receivedAt, c!.body]);
  assertEquals(event!.idempotencyKey("x"), a!.idempotencyKey("x"));
  // Each has a key of its own, for calls that are made for each.
  assertEquals(new Set(event!.batch.map((each) => each.idempotencyKey("x"))).size, 3);
  assertEquals(event!.batch.map(({ id, batch: [own] }) => [id, own!.id].join()), [
    ...["a,a", "b,b", "c,c"],
  ]);
});

testProcesses("an event by itself is alone in its batch", async ({ store, start }) => {
  const events: WebhookEvent[] = [];
  await store.accept(delivery("a"));
  await start((event) => void events.push(event));
  await settled(store, "a");
  assertEquals(events.map(({ batch }) => batch.map((each) => each === events[0])), [[true]]);
});

testProcesses("a batch keeps its id if its process dies and its latest event is cancelled", async (
  processes,
) => {
  const { store, start } = processes;
  const seen: Seen[] = [];
  await acceptAll(processes, ["a", "b", "c"]);
  const first = await start(noting(seen, HANGING));
  await until(() => seen.length === 1);
  first.die();
  await store.cancel("c");
  await start(noting(seen, HANGING));
  assertEquals(await settled(store, "a", "b", "c"), ["done", "done", "dead"]);
  assertEquals(seen.map(({ got }) => got), [[1, "c", "abc"], [2, "b", "ab"]]);
  assertSameIdentity(seen);
});

testProcesses("a batch keeps its id if its process dies and all others are cancelled", async (
  processes,
) => {
  const { store, start } = processes;
  const seen: Seen[] = [];
  await acceptAll(processes, ["a", "b"]);
  const first = await start(noting(seen, HANGING));
  await until(() => seen.length === 1);
  first.die();
  await store.cancel("b");
  await start(noting(seen, HANGING));
  assertEquals(await settled(store, "a", "b"), ["done", "dead"]);
  assertEquals(seen.map(({ got }) => got), [[1, "b", "ab"], [2, "a", "a"]]);
  assertSameIdentity(seen);
});

testProcesses("an event that joins between two attempts is the next batch", async (processes) => {
  const { store, start } = processes;
  const seen: Seen[] = [];
  await acceptAll(processes, ["a", "b"]);
  const first = await start(noting(seen, HANGING));
  await until(() => seen.length === 1);
  first.die();
  await acceptAll(processes, ["c"]);
  await start(noting(seen, HANGING));
  await settled(store, "a", "b", "c");
  assertEquals(seen.map(({ got }) => got), [[1, "b", "ab"], [2, "b", "ab"], [1, "c", "c"]]);
  assertSameIdentity(seen.slice(0, 2));
  assertEquals(seen[2]!.identity.slice(0, 2), ["c", "c"]);
});

testProcesses("an event that joins after an attempt which failed is the next batch", async (
  processes,
) => {
  const { store, start } = processes;
  const seen: Seen[] = [];
  await acceptAll(processes, ["a", "b"]);
  await start(noting(seen, async () => {
    await acceptAll(processes, ["c"]);
    throw new Error("not yet");
  }));
  await settled(store, "a", "b", "c");
  assertEquals(seen.map(({ got }) => got), [[1, "b", "ab"], [2, "b", "ab"], [1, "c", "c"]]);
  assertSameIdentity(seen.slice(0, 2));
});

testProcesses("a dead batch has the same id when it is replayed, also with more events", async (
  processes,
) => {
  const { store, start } = processes;
  const seen: Seen[] = [];
  await acceptAll(processes, ["a", "b"]);
  await start(noting(seen, () => {
    throw new GiveUpError("no");
  }));
  assertEquals(await settled(store, "a", "b"), ["dead", "dead"]);
  await store.replayAll({});
  await acceptAll(processes, ["c"]);
  await until(async () => (await store.get("c"))?.state === "done");
  assertEquals(seen.map(({ got }) => got), [[1, "b", "ab"], [1, "c", "abc"]]);
  assertSameIdentity(seen);
});

testProcesses("a batch that is replayed after it was done has another key", async (processes) => {
  const seen: Seen[] = [];
  const { place } = processes;
  const keepPayloads = { forMs: 60_000, maxBytes: 1_000 };
  const { store } = await place.process({ keepPayloads });
  await acceptAll({ ...processes, store }, ["a", "b"]);
  const worker = startWorker(store, noting(seen, () => {}), { log: () => {}, pollMs: 20 });
  await settled(store, "a", "b");
  assertEquals((await store.replayAll({ state: "done" })).changed, 2);
  await until(() => seen.length === 2);
  await worker.stop();
  assertEquals(seen.map(({ identity }) => identity[0]), ["a", "a"]);
  assertNotEquals(seen[0]!.identity[2], seen[1]!.identity[2]);
});
